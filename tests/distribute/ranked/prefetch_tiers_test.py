"""`prefetch_lookups` over ranks whose tables have lower tiers."""

import functools

import pytest

import keras_sparse
from keras_sparse.data import prefetch_lookups
from prefetch_on_ranks import assert_same
from prefetch_on_ranks import make_data
from prefetch_on_ranks import make_model
from prefetch_on_ranks import num_used
from stages import until_used
from table_twins import DIM
from table_twins import small

EPOCHS, BATCHES = 2, 24


def data():
    return make_data(batches=BATCHES, most_keys=9000)  # each rank has rows for all tiers


@functools.cache
def trained_in_memory(name):
    """A model of this optimizer without a stage, and its history."""
    plain = make_model(None, getattr(keras_sparse.optimizers, name)(0.1), DIM)
    return plain, plain.fit(data(), epochs=EPOCHS, shuffle=False, verbose=0).history


@pytest.mark.parametrize(
    ("storage_type", "name", "capacity"),
    [
        ("DRAM_SSDHASH", "Adam", "auto"),
        ("DRAM_LEVELDB", "Adagrad", 2),
        ("DRAM_PMEM_SSDHASH", "Adagrad", 4),
    ],
)
def test_exact_training_is_that_in_memory_bit_for_bit(storage_type, name, capacity, folder):
    plain, expected = trained_in_memory(name)

    def train(patience):
        optimizer = getattr(keras_sparse.optimizers, name)(0.1)
        storage = small(folder / f"after {patience.seconds} s", storage_type)
        model = make_model(storage, optimizer, DIM)
        ahead = prefetch_lookups(data(), model, capacity=capacity)
        fit = {"epochs": EPOCHS, "shuffle": False, "verbose": 0, "callbacks": [patience]}
        assert model.fit(ahead, **fit).history == expected
        assert_same(model, plain)
        tiers = model.get_layer("tables").stats()["rows"]["tiers"]
        assert list(tiers) == storage_type.split("_")
        # What waits to be written is in no tier, and there for a step.
        are_used = all(tier["promotions"] > 0 for tier in tiers.values())
        return num_used(model, EPOCHS * BATCHES) > 0 and are_used

    until_used(train)
