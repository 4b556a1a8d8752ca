import dataclasses

import numpy as np

from keras_sparse.distribute.planner.table_spec import FLOAT_BYTES
from keras_sparse.utils import checks

_ID_BYTES = 8
_LINE_BYTES = 64
_UNLIMITED = 1e300  # bytes a second: what takes no time


@dataclasses.dataclass(frozen=True)
class CostModel:
    """Predicts how long each rank is busy with tables in a training step.

    A rank takes the bytes that it reads and writes in memory, over `memory_bandwidth`, then the
    bytes that it sends and receives, over `network_bandwidth`, and `table_seconds` for each table
    that it has a part of, or a copy. What is the same in all placements, such as the rest of the
    model, is left out: the predictions are for comparing plans.

    Of `n` ranks each has a batch of `b = batch_size` samples. An input with `h` ids a sample has
    `b * h` ids in it, at most `d = min(b * h, rows)` of them distinct, as if ids hardly repeated.
    For a table of width `w`, sums being over its inputs:

        ids     = sum(b * h)
        asked   = sum(d)                ids are made distinct before they travel
        answers = sum(min(b, d))        pooled vectors or distinct rows, whichever are fewer;
                  sum(d)                without a combiner always rows
        touched = min(n * ids, rows)    rows that the whole batch updates, at most

    A slice of `c` columns is read in lines of 64 bytes: `row(c)` is `4 * c` bytes rounded up to
    them, and `record(c)` the same for `4 * c * (1 + num_slots)`. `t` is 2 for a table that is
    trained, as gradients come back the way of the answers, otherwise 1, and nothing is updated.

    `table_wise` and `column_wise`. The rank of a slice looks up for all ranks, each of the other
    `n - 1` ranks sends it ids and gets answers:

        memory of the rank  = n * ids * (row(c) + 4 * c) + touched * 2 * record(c)
        network of another  = 8 * asked + t * 4 * c * answers
        network of the rank = (n - 1) * network of another

    `row_wise`. Each rank looks up an `n`-th of all ids, and asks every other rank for an `n`-th of
    its own. What comes back of a bag is its rows or a sum from each rank, whichever are fewer:
    `parts = sum(min(d, n * b))`, or without a combiner `sum(d)`. Bytes are counted where they are
    sent and where they are received:

        memory  = ids * (row(w) + 4 * w) + touched / n * 2 * record(w)
        network = 2 * (n - 1) / n * (8 * asked + t * 4 * w * parts)

    `data_parallel`. Each rank looks up its own ids, and sends its merged gradient to all others:
    `own = min(ids, rows)` rows and their ids. A rank writes and reads those of all ranks, and
    updates what they touch:

        memory  = ids * (row(w) + 4 * w) + touched * 2 * record(w) + n * own * 2 * 4 * w
        network = 2 * (n - 1) * own * (8 + 4 * w)

    Of memory, the `4 * c` or `4 * w` of each id, which are its gradient, and all that comes after
    the first term are only there for a table that is trained; so is what gradients send.

    Args:
        memory_bandwidth: Float above 0. Bytes a second that a rank reads and writes when it looks
            up rows at random. Defaults to 2e10, some cores of a server; a GPU has about 1e12.
        network_bandwidth: Float above 0. Bytes a second of a rank, sent and received ones together.
            Defaults to 2.5e9, a network of 10 Gbit/s in each direction; NVLink has 3e11 and more.
        batch_size: Integer. Samples of a rank in a step. Defaults to 4096.
        table_seconds: Float, not below 0. What each table of a rank takes beside its bytes.
            Defaults to 1e-5: lookup, gradient and update of one id took 8 microseconds on a server.

    Example:
    >>> from keras_sparse.distribute import CostModel, TableSpec
    >>> model = CostModel(memory_bandwidth=1e9, network_bandwidth=1e9, batch_size=1000)
    >>> users = TableSpec("users", rows=10**6, width=16, combiner="sum", hotness=20, num_slots=1)
    >>> model.row_wise(users, num_ranks=4)  # seconds of each rank
    0.008698
    """

    memory_bandwidth: float = 2e10
    network_bandwidth: float = 2.5e9
    batch_size: int = 4096
    table_seconds: float = 1e-5

    def __post_init__(self):
        for name in ("memory_bandwidth", "network_bandwidth"):
            value = checks.number(getattr(self, name), name)
            if value <= 0:
                raise ValueError(f"`{name}` must be above 0. Received: {name}={value}")
            object.__setattr__(self, name, value)
        object.__setattr__(self, "batch_size", checks.positive(self.batch_size, "batch_size"))
        if checks.number(self.table_seconds, "table_seconds") < 0:
            raise ValueError(
                f"`table_seconds` must not be below 0. Received: table_seconds={self.table_seconds}"
            )

    @classmethod
    def measure(cls, batch_size=4096):
        """Makes the model of this machine and its network, in some seconds.

        Rows at random of a table of 256 MiB, which is let go again, are looked up and updated for
        `memory_bandwidth`, tables of one id for `table_seconds`, and 16 MiB a rank are exchanged
        for `network_bandwidth`; each is the median of some times. With one rank there is no
        exchange, and `network_bandwidth` is the default.

        All ranks must call it, as they do at the same time, and all get the same numbers: those of
        the slowest. Two calls give other numbers, and so may lead to other plans: give a model that
        is to be loaded again the one that it was made with, as `get_config` does.

        ```python
        cost_model = CostModel.measure()
        layer = DistributedEmbedding(tables, strategy="auto", cost_model=cost_model)
        ```

        Args:
            batch_size: Integer. Samples of a rank in a step. Defaults to 4096.

        Returns:
            `CostModel`.
        """
        batch_size = checks.positive(batch_size, "batch_size")
        # Only this needs TensorFlow: the planner does without.
        from keras_sparse.distribute.training.measure_speeds import measure_speeds

        return cls(batch_size=batch_size, **measure_speeds())

    def column_slice(self, table, num_columns, num_ranks):
        """Returns the seconds of every rank, and what the rank of the slice takes beside them.

        Args:
            table: `TableSpec`.
            num_columns: Integer. Columns of the slice.
            num_ranks: Integer.
        """
        use = _Use(table, self.batch_size, num_ranks)
        memory = use.lookups(num_ranks * use.ids, num_columns)
        memory += use.updates(use.touched, num_columns)
        if num_ranks == 1:
            return 0.0, self._seconds(memory, 0)
        asked = use.travels(use.answers(self.batch_size), num_columns)
        every_rank = asked / self.network_bandwidth
        return every_rank, self._seconds(memory, (num_ranks - 1) * asked) - every_rank

    def row_wise(self, table, num_ranks):
        """Returns the seconds that each rank takes for a table which is spread by keys."""
        use = _Use(table, self.batch_size, num_ranks)
        memory = use.lookups(use.ids, table.width) + use.updates(
            use.touched / num_ranks, table.width
        )
        parts = use.answers(num_ranks * self.batch_size)
        others = (num_ranks - 1) / num_ranks
        return self._seconds(memory, 2 * others * use.travels(parts, table.width))

    def data_parallel(self, table, num_ranks):
        """Returns the seconds that each rank takes for a static table which every rank has."""
        use = _Use(table, self.batch_size, num_ranks)
        memory = use.lookups(use.ids, table.width)
        if not table.trainable:
            return self._seconds(memory, 0)
        gradient = use.own * FLOAT_BYTES * table.width
        memory += use.updates(use.touched, table.width) + 2 * num_ranks * gradient
        sent = (num_ranks - 1) * (gradient + use.own * _ID_BYTES)
        return self._seconds(memory, 2 * sent)

    def rank_seconds(self, tables, placements, num_ranks):
        """Returns the seconds of each rank: a float64 array of shape `(num_ranks,)`.

        Args:
            tables: List of `TableSpec`.
            placements: List of a `TablePlacement` a table.
            num_ranks: Integer.
        """
        seconds = np.zeros(num_ranks)
        for table, placement in zip(tables, placements, strict=True):
            if placement.kind == "row_wise":
                seconds += self.row_wise(table, num_ranks)
            elif placement.kind == "data_parallel":
                seconds += self.data_parallel(table, num_ranks)
            else:
                for each in placement.slices:
                    every_rank, its_rank = self.column_slice(table, each.num_columns, num_ranks)
                    seconds += every_rank
                    seconds[each.rank] += its_rank
        return seconds

    def of_network_alone(self):
        """Returns a model whose seconds are bytes that ranks send and receive, and nothing else."""
        return dataclasses.replace(
            self, memory_bandwidth=_UNLIMITED, network_bandwidth=1.0, table_seconds=0.0
        )

    def get_config(self):
        """Returns the arguments as a dict that can be written as JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        """Makes the model that `get_config` describes."""
        return cls(**config)

    def _seconds(self, memory_bytes, network_bytes):
        transfers = memory_bytes / self.memory_bandwidth + network_bytes / self.network_bandwidth
        return self.table_seconds + transfers


class _Use:
    """The work of a step in a table: the quantities of the docstring of `CostModel`."""

    def __init__(self, table, batch_size, num_ranks):
        self._table = table
        hotness = table.hotness if isinstance(table.hotness, tuple) else (table.hotness,)
        of_inputs = [batch_size * each for each in hotness]
        self.ids = sum(of_inputs)
        self._distinct = [self._at_most_rows(ids) for ids in of_inputs]
        self.own = self._at_most_rows(self.ids)
        self.touched = self._at_most_rows(num_ranks * self.ids)

    def _at_most_rows(self, ids):
        return ids if self._table.is_dynamic else min(ids, self._table.rows)

    def answers(self, most):
        """Vectors that come back: distinct rows, or `most` pooled ones an input if fewer."""
        if self._table.combiner is None:
            return sum(self._distinct)
        return sum(min(each, most) for each in self._distinct)

    def travels(self, vectors, num_columns):
        """Bytes of ids that are asked for, of vectors that come back and of their gradients."""
        ways = 2 if self._table.trainable else 1
        asked = _ID_BYTES * sum(self._distinct)
        return asked + ways * FLOAT_BYTES * num_columns * vectors

    def lookups(self, ids, num_columns):
        """Bytes of memory of looking ids up, and of adding up their gradients."""
        gradient = FLOAT_BYTES * num_columns if self._table.trainable else 0
        return ids * (_lines(FLOAT_BYTES * num_columns) + gradient)

    def updates(self, rows, num_columns):
        """Bytes of memory of updating rows and their slots."""
        if not self._table.trainable:
            return 0
        return rows * 2 * _lines(FLOAT_BYTES * num_columns * self._table.floats_per_column)


def _lines(num_bytes):
    return -(-num_bytes // _LINE_BYTES) * _LINE_BYTES
