"""A table over tiers beside one in memory alone that gets the same gradients."""

import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.native import library

KINDS = [f"DRAM_{tier}" for tier in ("SSDHASH", "PMEM", "LEVELDB") if tier in library.LOWER_TIERS]
# Every stack of tiers of this build, the one between memory and a disk being of persistent memory.
STACKS = [
    *KINDS,
    *(kind.replace("_", "_PMEM_") for kind in KINDS if "DRAM_PMEM" in KINDS and "PMEM" not in kind),
]
if library.CUDA_VERSION and tf.config.get_visible_devices("GPU"):
    STACKS += ["HBM_DRAM", *(f"HBM_{stack}" for stack in STACKS)]
each_stack = pytest.mark.parametrize("storage_type", STACKS)
DIM = 64
RECORD_BYTES = 2 * 4 * DIM  # a row and Adagrad's accumulator


def small(path, storage_type="DRAM_SSDHASH"):
    """Tiers whose first one holds some 150 rows, whose lower ones write files of 64 KiB.

    Those between the first and the last hold some 390.
    """
    tiers = storage_type.split("_")
    missing = set(tiers[1:]) - {"DRAM", *library.LOWER_TIERS}
    if missing:
        pytest.skip(f"this build has no {missing}")
    sizes = [100_000, *[200_000] * (len(tiers) - 2), 4 << 20]
    return keras_sparse.StorageOption(storage_type, path, sizes)


class Twins:
    """Both tables are trained by `train`, the tiered one first.

    A step that fails on the tiered table is not made on the other: what `check` finds equal shows
    that it has changed nothing.

    Args:
        storage: `StorageOption`.
        make_optimizer: Callable. Defaults to one that makes an Adagrad.
        kwargs: What both tables have besides.
    """

    def __init__(self, storage, make_optimizer=None, **kwargs):
        self.tiered, self.plain = (
            keras_sparse.EmbeddingVariable(None, DIM, seed=1, storage=each, **kwargs)
            for each in (storage, None)
        )
        self.optimizers = [(make_optimizer or _adagrad)() for _ in range(2)]
        for table, optimizer in zip(self.tables, self.optimizers, strict=True):
            optimizer.build([table])
        self.rng = np.random.default_rng(0)
        self.num_ids = 1

    @property
    def tables(self):
        return self.tiered, self.plain

    def train(self, ids):
        """One step."""
        self.num_ids = max(self.num_ids, max(ids) + 1)
        grads = tf.constant(self.rng.normal(size=(len(ids), DIM)), tf.float32)
        grads = tf.IndexedSlices(grads, tf.constant(ids, tf.int64), (self.num_ids, DIM))
        for table, optimizer in zip(self.tables, self.optimizers, strict=True):
            optimizer.apply([grads], [table])

    def train_some(self, steps, num_ids=3000):
        """Steps of 200 of the ids each."""
        for _ in range(steps):
            self.train(self.rng.choice(num_ids, 200, replace=False))

    def wait_until_written(self):
        """Returns when nothing waits any more, or can be, to be written in the background."""
        return self.tiered.stats()

    def check_each_tier_has_rows(self):
        tiers = self.tiered.stats()["tiers"]
        assert all(tier["rows"] > 0 for tier in tiers.values()), tiers

    def check(self, but=()):
        """Every row reads alike in both, and is exported alike if none is left out."""
        ids = np.setdiff1d(np.arange(-5, self.num_ids + 5), but)
        self.rng.shuffle(ids)
        rows = [keras_sparse.ops.lookup([table], [ids])[0] for table in self.tables]
        np.testing.assert_array_equal(*rows)
        if not len(but):
            for ours, expected in zip(*map(_export, self.tables), strict=True):
                np.testing.assert_array_equal(ours, expected)


def _adagrad():
    return keras_sparse.optimizers.Adagrad(0.1)


def _export(table):
    keys, records = (np.concatenate(parts) for parts in zip(*table.export(), strict=True))
    order = np.argsort(keys)
    return keys[order], records[order]
