"""Group embeddings in both modes: the training of one process with the whole batch."""

import functools
import os

import keras
import numpy as np
import pytest

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import runtime
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding
from oracle import check
from oracle_cases import Case
from prefetch_on_ranks import assert_same

KINDS = ["weighted", "ragged", "dense", "dense"]
STATIC = [(11, 4, "sum"), (7, 1, "mean"), (30, 8, None), (7, 3, "sqrtn")]
MIXED = [(None, 4, "mean"), (11, 3, "sqrtn"), (None, 5, None), (None, 2, "sqrtn")]


def tables(sizes=STATIC):
    return [Embedding(*size, seed=i, name=f"table_{i}") for i, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("mode", "sizes", "kinds", "optimizer"),
    [
        ("collective", STATIC, KINDS, "Adam"),
        ("localized", STATIC, KINDS, "Adagrad"),
        ("collective", MIXED, ["weighted", "weighted", "ragged", "weighted"], "Adam"),
    ],
)
def test_trains_like_one_process(mode, sizes, kinds, optimizer):
    spread = functools.partial(GroupEmbedding, mode=mode)
    case = Case(sizes, list(enumerate(kinds)), {}, spread=spread)
    (training,) = check(case, optimizers=[optimizer], num_steps=6)
    kinds = {placement.kind for placement in training.tables[0].layer.plan.placements}
    assert (kinds == {"data_parallel"}) == (mode == "localized")


@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_a_model_of_a_scope_goes_on_from_a_file_as_if_never_stopped(mode, folder):
    inputs = [keras.Input((None,), dtype="int64") for _ in STATIC[::3]]
    with group_embedding_scope(mode=mode):
        rows = [table(ids) for table, ids in zip(tables(STATIC[::3]), inputs, strict=True)]
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adam(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    ids = np.random.default_rng(ksd.rank()).integers(0, 7, (2, 4, 3))
    model.train_on_batch(list(ids), np.ones((4, 1)))
    model.save(folder / "a.keras")
    loaded = keras.models.load_model(folder / "a.keras")
    (group,) = (layer for layer in loaded.layers if isinstance(layer, GroupEmbedding))
    assert group.mode == mode
    assert_same(loaded, model)
    for each in (model, loaded):
        each.train_on_batch(list(ids), np.ones((4, 1)))
    assert_same(loaded, model)


def test_localized_refuses_dynamic_tables_of_several_ranks():
    tables = {"items": Embedding(None, 4, "sum")}
    with pytest.raises(ValueError, match=r"copies of a dynamic table.*dynamic table 'items'"):
        GroupEmbedding(tables, "localized")


@pytest.mark.parametrize("mode", ["collective", "localized"])
def test_config_makes_the_same_layer(mode):
    layer = GroupEmbedding(tables(), mode, name="group", wire_dtype="bfloat16")
    again = GroupEmbedding.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    assert again.mode == mode
    assert again.plan == layer.plan


def test_refuses_places_beside_localized_and_other_modes():
    with pytest.raises(ValueError, match='`strategy` must be left out with `mode="localized"`'):
        GroupEmbedding(tables(), "localized", strategy="basic")
    with pytest.raises(ValueError, match="`mode` must be one of"):
        GroupEmbedding(tables(), "distributed")


def test_init_may_be_called_again_and_takes_what_sok_takes(monkeypatch):
    launched = (int(os.environ.get("HOROVOD_RANK", 0)), int(os.environ.get("HOROVOD_SIZE", 1)))
    if ksd.size() > 1:
        horovod = runtime.horovod()
        assert (horovod.rank(), horovod.size()) == launched

        def join_again():
            raise AssertionError("the ranks have joined")

        monkeypatch.setattr(horovod, "init", join_again)
    for arguments in ({"global_batch_size": 64}, {"global_batch_size": 65}, {}):
        assert keras_sparse.init(**arguments) is None
        assert (ksd.rank(), ksd.size()) == launched
        assert gather_objects(ksd.rank(), "rank") == list(range(launched[1]))
    with pytest.raises(TypeError, match="batch_size"):
        keras_sparse.init(batch_size=64)
