import dataclasses

import numpy as np

from keras_sparse.utils import checks

_ID_BYTES = 8
_FLOAT_BYTES = 4  # of gradients, and of what ranks send
_LINE_BYTES = 64
_UNLIMITED = 1e300  # bytes per second that take no time


@dataclasses.dataclass(frozen=True)
class CostModel:
    """Predicts the seconds that each rank spends on tables in a training step.

    The time of a rank is the bytes that it reads and writes in memory, divided by
    `memory_bandwidth`; plus the bytes that it sends and receives, divided by `network_bandwidth`;
    plus `table_seconds` for each table that it holds a part or a copy of. Costs that are equal in
    all placements, such as the rest of the model, are left out: use the predictions to compare
    plans.

    Each of `n` ranks has a batch of `b = batch_size` samples. An input with `h` ids per sample has
    `b * h` ids, of which at most `d = min(b * h, rows)` are distinct, as if ids hardly repeated.
    For a table of width `w`, with sums over its inputs:

        ids     = sum(b * h)
        asked   = sum(d)                ids are deduplicated before the exchange
        answers = sum(min(b, d))        pooled vectors or distinct rows, whichever are fewer;
                  sum(d)                without a combiner always rows
        touched = min(n * ids, rows)    upper bound of the rows that the whole batch updates

    A slice of `c` columns is read in lines of 64 bytes: `row(c)` is the bytes of its row rounded up
    to whole lines, and `record(c)` the bytes of row and slots. In float32 these are `4 * c` and
    `4 * c * (1 + num_slots)` bytes. `t` is 2 for a trained table, whose gradients return the way of
    the answers, and 1 otherwise.

    `table_wise` and `column_wise`. The rank of a slice looks up the ids of all ranks. Each of the
    other `n - 1` ranks sends it ids and receives answers:

        memory of the rank  = n * ids * (row(c) + 4 * c) + touched * 2 * record(c)
        network of another  = 8 * asked + t * 4 * c * answers
        network of the rank = (n - 1) * network of another

    `row_wise`. Each rank looks up an `n`-th of all ids, and asks every other rank for an `n`-th of
    its own ids. For a bag, each rank returns its rows or their sum, whichever are fewer:
    `parts = sum(min(d, n * b))`, or `sum(d)` without a combiner. Bytes count both where they are
    sent and where they are received:

        memory  = ids * (row(w) + 4 * w) + touched / n * 2 * record(w)
        network = 2 * (n - 1) / n * (8 * asked + t * 4 * w * parts)

    `data_parallel`. Each rank looks up its own ids and sends its merged gradient to all others:
    `own = min(ids, rows)` rows and their ids. A rank writes and reads the gradients of all ranks,
    and updates the rows that they touch:

        memory  = ids * (row(w) + 4 * w) + touched * 2 * record(w) + n * own * 2 * 4 * w
        network = 2 * (n - 1) * own * (8 + 4 * w)

    Only a trained table has the memory terms for gradients (`4 * c` or `4 * w` of each id), all
    memory terms after the first, and the network terms for gradients.

    Args:
        memory_bandwidth: Float above 0, in bytes per second. Speed at which a rank reads and writes
            random rows in memory. Defaults to 2e10, some cores of a server; a GPU has about 1e12.
        network_bandwidth: Float above 0, in bytes per second. Speed of a rank's network, sent and
            received bytes together. Defaults to 2.5e9, a network of 10 Gbit/s in each direction;
            NVLink has 3e11 and more.
        batch_size: Integer. Number of samples of a rank in a step. Defaults to 4096.
        table_seconds: Float, at least 0, in seconds. Fixed cost of each table of a rank. Defaults
            to 1e-5: lookup, gradient and update of one id took 8 microseconds on a server.

    Raises:
        TypeError: An argument has a wrong type.
        ValueError: An argument is out of its range.

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
        """Measures the speeds of this machine and its network, in a few seconds.

        Looks up and updates random rows of a temporary table of 256 MiB for `memory_bandwidth`,
        tables of one id for `table_seconds`, and exchanges 16 MiB per rank for `network_bandwidth`.
        Each result is the median of several runs. On one rank nothing is exchanged, and
        `network_bandwidth` is the default.

        All ranks must call it together, and all receive the numbers of the slowest rank. Two calls
        give different numbers and may lead to different plans. To load a model again, create it
        with the cost model of its first creation, as `get_config` stores it.

        ```python
        cost_model = CostModel.measure()
        layer = DistributedEmbedding(tables, strategy="auto", cost_model=cost_model)
        ```

        Args:
            batch_size: Integer. Number of samples of a rank in a step. Defaults to 4096.

        Returns:
            `CostModel`.
        """
        batch_size = checks.positive(batch_size, "batch_size")
        # Only this needs TensorFlow: the planner does without.
        from keras_sparse.distribute.training.measure_speeds import measure_speeds

        return cls(batch_size=batch_size, **measure_speeds())

    def column_slice(self, table, num_columns, num_ranks):
        """Returns the predicted seconds of a column slice.

        Args:
            table: `TableSpec`.
            num_columns: Integer. Number of columns of the slice.
            num_ranks: Integer. Number of ranks.

        Returns:
            `(every_rank, extra)`: floats, the seconds of every rank, and the additional seconds of
            the rank that holds the slice.
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
        """Returns the predicted seconds of each rank for a table sharded by rows."""
        use = _Use(table, self.batch_size, num_ranks)
        memory = use.lookups(use.ids, table.width) + use.updates(
            use.touched / num_ranks, table.width
        )
        parts = use.answers(num_ranks * self.batch_size)
        others = (num_ranks - 1) / num_ranks
        return self._seconds(memory, 2 * others * use.travels(parts, table.width))

    def data_parallel(self, table, num_ranks):
        """Returns the predicted seconds of each rank for a replicated static table."""
        use = _Use(table, self.batch_size, num_ranks)
        memory = use.lookups(use.ids, table.width)
        if not table.trainable:
            return self._seconds(memory, 0)
        gradient = use.own * _FLOAT_BYTES * table.width
        memory += use.updates(use.touched, table.width) + 2 * num_ranks * gradient
        sent = (num_ranks - 1) * (gradient + use.own * _ID_BYTES)
        return self._seconds(memory, 2 * sent)

    def rank_seconds(self, tables, placements, num_ranks):
        """Returns the predicted seconds of each rank for all tables.

        Args:
            tables: List of `TableSpec`.
            placements: List of `TablePlacement`, one per table.
            num_ranks: Integer. Number of ranks.

        Returns:
            float64 array of shape `(num_ranks,)`.
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
        """Returns a model whose seconds are the bytes that ranks send and receive."""
        return dataclasses.replace(
            self, memory_bandwidth=_UNLIMITED, network_bandwidth=1.0, table_seconds=0.0
        )

    def get_config(self):
        """Returns the arguments as a JSON-serializable dict."""
        return dataclasses.asdict(self)

    @classmethod
    def from_config(cls, config):
        """Creates the model that `get_config` describes."""
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
        return asked + ways * _FLOAT_BYTES * num_columns * vectors

    def lookups(self, ids, num_columns):
        """Bytes of memory of looking ids up, and of adding up their gradients."""
        gradient = _FLOAT_BYTES * num_columns if self._table.trainable else 0
        return ids * (_lines(self._table.row_bytes(num_columns)) + gradient)

    def updates(self, rows, num_columns):
        """Bytes of memory of updating rows and their slots."""
        if not self._table.trainable:
            return 0
        return rows * 2 * _lines(self._table.record_bytes(num_columns))


def _lines(num_bytes):
    return -(-num_bytes // _LINE_BYTES) * _LINE_BYTES
