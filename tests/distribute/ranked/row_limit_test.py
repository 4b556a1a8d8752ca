"""A limit of rows over ranks: where one of them is full, none of them makes the step."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd

MAX_ROWS, DIM = 6, 4


def make_model(optimizer, **options):
    tables = [
        keras_sparse.layers.Embedding(None, DIM, "sum", name="limited", **options),
        keras_sparse.layers.Embedding(None, DIM, "sum", name="free"),
    ]
    keys = keras.Input((None,), dtype="int64")
    rows = keras_sparse.layers.DistributedEmbedding(tables)([keys, keys])
    outputs = keras.layers.Dense(1)(keras.layers.Concatenate()(rows))
    model = keras.Model(keys, outputs)
    model.compile(ksd.DistributedOptimizer(optimizer), loss="mse")
    return model


def table_of(model, name):
    (layer,) = (each for each in model.layers if hasattr(each, "tables"))
    return next(table for table in layer.tables if table.name == name)


def rows_of(model):
    rows = {}
    for name in ("limited", "free"):
        for keys, records in table_of(model, name).export():
            for key, record in zip(keys, records, strict=True):
                rows[name, int(key)] = record.tobytes()
    return rows


def dense_of(model):
    return [value.tobytes() for value in model.layers[-1].get_weights()]


def keys_of_rank(rank, first, count):
    """Keys whose rows a rank has."""
    return (np.arange(first, first + count) * ksd.size() + rank).reshape(-1, 1)


def train(model, keys):
    model.train_on_batch(keys, np.ones((len(keys), 1), "float32"))


def several(rate, clipnorm):
    """An optimizer for the full table, which takes its step last, and two others."""
    limited = keras_sparse.optimizers.Adam(rate, clipnorm=clipnorm)
    free = keras_sparse.optimizers.SGD(rate, clipnorm=clipnorm)
    others = keras.optimizers.SGD(rate)
    return keras_sparse.optimizers.MultiOptimizer(
        {"limited": limited, "free": free, "others": others}
    )


MAKERS = [keras_sparse.optimizers.SGD, keras_sparse.optimizers.Adam, several]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("clipnorm", [None, 1.0])
def test_a_rank_without_room_stops_the_step_of_all(make, clipnorm):
    model = make_model(make(0.1, clipnorm=clipnorm), max_rows=MAX_ROWS)
    last = ksd.size() - 1
    train(model, keys_of_rank(last, 0, MAX_ROWS))  # the last rank is full
    before, dense = rows_of(model), dense_of(model)
    says = "max_rows=6 where the table has 6 rows and 1 keys are new"
    if ksd.rank() != last:
        says = r"of each rank must hold the rows of all its keys.* too many keys on 1 other ranks"
    for new in (keys_of_rank(last, MAX_ROWS, 1), np.arange(100, 140).reshape(-1, 1)):
        with pytest.raises(tf.errors.ResourceExhaustedError) as error:
            train(model, new)
        if len(new) == 1:
            assert re.search(says, str(error.value))
        assert rows_of(model) == before
        assert dense_of(model) == dense
        assert int(model.optimizer.iterations) == 1
    train(model, keys_of_rank(last, 0, MAX_ROWS))
    assert int(model.optimizer.iterations) == 2
    assert rows_of(model).keys() == before.keys()


def test_rows_go_on_the_rank_that_needs_room():
    policy = keras_sparse.GlobalStepEvict(steps_to_live=1, at_save=False)
    model = make_model(keras_sparse.optimizers.SGD(0.1), max_rows=MAX_ROWS, eviction=policy)
    for first in range(0, 20, 2):
        for rank in range(ksd.size()):
            train(model, keys_of_rank(rank, first, 2))
    table = table_of(model, "limited")
    assert table.num_rows <= MAX_ROWS
    newest = set(keys_of_rank(ksd.rank(), 18, 2).ravel())
    assert newest <= {key for name, key in rows_of(model) if name == "limited"}
    assert sum(len(keys) for keys, _ in table_of(model, "free").export()) == 20


@pytest.mark.parametrize("policy", [keras_sparse.LruEvict, keras_sparse.LfuEvict])
def test_each_rank_lets_its_first_rows_go(policy):
    options = {"max_rows": MAX_ROWS, "eviction": policy()}
    model = make_model(keras_sparse.optimizers.SGD(0.1), **options)
    steps = {}  # of each key: how many if that counts, and the last one
    by_frequency = policy is keras_sparse.LfuEvict
    rng = np.random.default_rng(4)
    for step in range(12):
        ids = rng.integers(0, 9 * ksd.size(), (ksd.size(), 4))
        train(model, ids[ksd.rank()].reshape(-1, 1))
        mine = set(ids[ids % ksd.size() == ksd.rank()].tolist())
        fits = all(
            len(np.unique(ids[ids % ksd.size() == rank])) <= MAX_ROWS for rank in range(ksd.size())
        )
        assert fits, "or no rank makes the step"
        others = sorted((*at, key) for key, at in steps.items() if key not in mine)
        num_new = len(mine - steps.keys())
        for *_, key in others[: max(0, len(steps) + num_new - MAX_ROWS) if num_new else 0]:
            del steps[key]
        for key in mine:
            steps[key] = (steps.get(key, (0,))[0] + by_frequency, step)
        assert {key for name, key in rows_of(model) if name == "limited"} == steps.keys()
    assert table_of(model, "limited").stats()["evicted_rows"] > 0
