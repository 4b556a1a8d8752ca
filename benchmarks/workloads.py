"""The ids that the benchmarks look up: drawn once, from a fixed seed, for every peer alike.

How often an id occurs follows a bounded Zipf law: the id of rank r of n has a probability in
proportion to r ** -1.05, drawn exactly, by inverting the cumulative distribution. Ranks are
scattered over the table by a random permutation of their own for every table, so that often used
rows do not lie side by side: a vocabulary sorted by frequency would be kinder to caches and page
tables. The keys of a dynamic table are a 64-bit mix of the rank, cut to 63 bits.
"""

import dataclasses
import pathlib
import pickle

import numpy as np

ALPHA = 1.05
BATCH_SIZE = 8192
NUM_BATCHES = 32
SEED = 20_26


@dataclasses.dataclass(frozen=True)
class Workload:
    """Tables of one size, and 32 batches of ids into them.

    Attributes:
        name: Which of `NAMES`.
        num_tables: Integer.
        input_dim: Rows in each table; of a dynamic table, how many keys there are to draw from.
        output_dim: Width of a row.
        dynamic: Whether ids are scrambled 63-bit keys.
        hotness: Ids a sample and table; of a ragged workload, the most there are.
        combiner: `None` or `"sum"`.
        ids: For each batch the ids of each table, int64, flat.
        row_splits: The same for the borders of ragged bags, int64; `None` where not ragged.
        batch_size: Samples in a batch.
    """

    name: str
    num_tables: int
    input_dim: int
    output_dim: int
    dynamic: bool
    hotness: int
    combiner: str | None
    ids: list
    row_splits: list | None
    batch_size: int = BATCH_SIZE

    @property
    def num_rows_out(self):
        """Rows that one table returns for one batch."""
        return self.batch_size * (1 if self.combiner else self.hotness)

    def output_grads(self):
        """The gradient that arrives at each table's output, the same for all batches."""
        generator = np.random.default_rng(SEED)
        shape = (self.num_tables, self.num_rows_out, self.output_dim)
        grads = generator.standard_normal(shape, dtype=np.float32)
        grads *= 0.01
        return list(grads)

    def joined_output_grads(self):
        """The same of all tables side by side."""
        return np.concatenate(self.output_grads(), axis=1)

    def id_matrices(self):
        """The ids of each batch as one array, a sample a row and a table a column."""
        return [np.ascontiguousarray(np.stack(batch, axis=1)) for batch in self.ids]


def zipf_ranks(generator, num_ranks, shape):
    """Draws ranks from 0 to `num_ranks - 1`, rank 0 the most frequent."""
    cumulative = np.cumsum(np.arange(1, num_ranks + 1, dtype=np.float64) ** -ALPHA)
    drawn = generator.random(shape) * cumulative[-1]
    return np.minimum(np.searchsorted(cumulative, drawn, side="right"), num_ranks - 1)


def scramble(ranks):
    """Maps ranks to distinct-looking keys of 63 bits (the finalizer of splitmix64)."""
    mixed = (ranks.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def w1(scale=1.0, num_tables=26):
    """26 static tables, 400,000 x 32, one id each."""
    input_dim = int(400_000 * scale)
    generator = np.random.default_rng(SEED)
    ranks = zipf_ranks(generator, input_dim, (NUM_BATCHES, num_tables, BATCH_SIZE))
    for table in range(num_tables):
        ranks[:, table] = generator.permutation(input_dim)[ranks[:, table]]
    ids = [list(batch) for batch in ranks]
    return Workload("w1", num_tables, input_dim, 32, False, 1, None, ids, None)


def w2(scale=1.0):
    """One static table, 5,000,000 x 64, 1 to 20 ids a sample, summed."""
    input_dim = int(5_000_000 * scale)
    generator = np.random.default_rng(SEED)
    permutation = generator.permutation(input_dim)
    lengths = generator.integers(1, 21, (NUM_BATCHES, BATCH_SIZE))
    splits = [np.concatenate([[0], np.cumsum(row)]) for row in lengths]
    ids = permutation[zipf_ranks(generator, input_dim, lengths.sum())]
    ids = np.split(ids, np.cumsum([row[-1] for row in splits])[:-1])
    ragged = ([[row] for row in ids], [[row] for row in splits])
    return Workload("w2", 1, input_dim, 64, False, 20, "sum", *ragged)


def w3(scale=1.0):
    """One dynamic table, 26 keys a sample drawn from 5,000,000, rows of 64."""
    input_dim = int(5_000_000 * scale)
    generator = np.random.default_rng(SEED)
    ranks = zipf_ranks(generator, input_dim, (NUM_BATCHES, BATCH_SIZE * 26))
    ids = [[row] for row in scramble(ranks)]
    return Workload("w3", 1, input_dim, 64, True, 26, None, ids, None)


def one_table(input_dim):
    """One static table of rows of 16, 26 ids a sample."""
    generator = np.random.default_rng(SEED)
    ranks = zipf_ranks(generator, input_dim, (NUM_BATCHES, BATCH_SIZE * 26))
    ids = generator.permutation(input_dim)[ranks]
    return Workload("one_table", 1, input_dim, 16, False, 26, None, [[row] for row in ids], None)


def dense_features_and_labels(workload):
    """The rest of a click model's batch: 13 numbers a sample, and whether it was clicked."""
    generator = np.random.default_rng(SEED)
    features = generator.standard_normal((workload.batch_size, 13), dtype=np.float32)
    return features, (generator.random(workload.batch_size) < 0.25).astype(np.float32)


NAMES = {"w1": w1, "w2": w2, "w3": w3}


def save(workload, path):
    """Writes a workload to a file, so that every peer's process reads the same ids."""
    path = pathlib.Path(path)
    path.write_bytes(pickle.dumps(workload))
    return path


def load(path):
    """Reads what `save` wrote."""
    return pickle.loads(pathlib.Path(path).read_bytes())
