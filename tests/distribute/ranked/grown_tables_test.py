"""Saved static tables in larger ones and in dynamic ones, whose parts are on other ranks."""

import keras
import numpy as np
import pytest

import keras_sparse.distribute as ksd
from keras_sparse import saving
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import Adagrad

ROWS, DIM = 7, 4
IDS = np.arange(12).reshape(6, 2)
ROW_WISE = {"row_slice_threshold": 1}
COLUMN_WISE = {"column_slice_threshold": 8, "row_slice_threshold": 10**6}
COPIED = {"data_parallel_threshold": 10**6}


def make_model(input_dim, place):
    ids = keras.Input((2,), dtype="int64")
    tables = [Embedding(input_dim, DIM, "sum", seed=3, name="users")]
    (rows,) = DistributedEmbedding(tables, **place)([ids])
    kernel = keras.initializers.GlorotUniform(3)
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer=kernel)(rows))
    model.compile(ksd.DistributedOptimizer(Adagrad(0.1)), loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


def train(model, ids):
    for _ in range(2):
        model.train_on_batch(ids, np.ones((len(ids), 1)))


@pytest.mark.parametrize(
    ("way", "input_dim", "places"),
    [
        ("weights", 12, (COPIED, ROW_WISE)),
        ("weights", None, (ROW_WISE, ROW_WISE)),
        ("checkpoint", 12, (COLUMN_WISE, ROW_WISE)),
        ("checkpoint", None, (ROW_WISE, ROW_WISE)),
        ("checkpoint", None, (COLUMN_WISE, ROW_WISE)),
    ],
)
def test_ids_that_are_new_begin_on_their_ranks(way, input_dim, places, folder):
    saved, whole, grown = (
        make_model(*each)
        for each in ((ROWS, places[0]), (input_dim, places[1]), (input_dim, places[1]))
    )
    for model in (saved, whole):
        train(model, IDS[:3])
    if way == "weights":
        saved.save_weights(folder / "a.weights.h5")
        saving.load_weights(grown, folder / "a.weights.h5", grow=True)
    else:
        saving.save_checkpoint(saved, folder / "a", verbose=False)
        saving.load_checkpoint(grown, folder / "a", verbose=False, grow=True)
    for _ in range(2):
        np.testing.assert_allclose(grown(IDS), whole(IDS), rtol=0, atol=1e-6)
        for model in (grown, whole):
            train(model, IDS)


def features(names, place):
    """A model of a table a name, whose rows are on all ranks."""
    ids = [keras.Input((2,), dtype="int64") for _ in names]
    tables = [Embedding(None, DIM, "sum", seed=3, name=name) for name in names]
    rows = DistributedEmbedding(tables, **place, name=f"of_{len(names)}")(ids)
    model = keras.Model(ids, keras.layers.Dense(1, name="out")(keras.layers.Add()(rows)))
    model.compile(ksd.DistributedOptimizer(Adagrad(0.1)), loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    model.train_on_batch([IDS + i for i in range(len(ids))], np.ones((6, 1)))
    return model


@pytest.mark.parametrize("way", ["weights", "checkpoint"])
@pytest.mark.parametrize("places", [(ROW_WISE, {}), ({}, ROW_WISE)])
def test_tables_of_another_layer_are_loaded_by_their_names(way, places, folder):
    saved = features(["users", "items"], places[0])
    model = features(["city", "items", "users"], places[1])
    if way == "weights":
        saved.save_weights(folder / "a.weights.h5")
        with pytest.warns(UserWarning, match="of_3/city: not in the file"):
            model.load_weights(folder / "a.weights.h5", skip_mismatch=True)
    else:
        saving.save_checkpoint(saved, folder / "a", verbose=False)
        with pytest.warns(UserWarning, match="of_3/city: not in the file"):
            info = saving.load_checkpoint(model, folder / "a", verbose=False, skip_mismatch=True)
        assert info.report.loaded == ("of_3/items", "of_3/users", "out", "optimizer")
    for name in ("users", "items"):
        mine, theirs = (
            layer.find(np.arange(14), table=name)
            for layer in (model.get_layer("of_3"), saved.get_layer("of_2"))
        )
        np.testing.assert_array_equal(mine.rows, theirs.rows)
        np.testing.assert_array_equal(mine.slots["accumulator"], theirs.slots["accumulator"])


@pytest.mark.parametrize("way", ["weights", "checkpoint"])
@pytest.mark.parametrize("place", [ROW_WISE, {}])
def test_all_ranks_refuse_the_rows_of_a_table_of_another_name(way, place, folder):
    saved, model = features(["users", "films"], place), features(["users", "items"], place)
    before = [model.get_layer("of_2").find(np.arange(14), table=n).rows for n in ("users", "items")]
    words = "Name the layer 'films'.*films.* for '.*items"
    if way == "weights":
        saved.save_weights(folder / "a.weights.h5")
        with pytest.raises(ValueError, match=words):
            model.load_weights(folder / "a.weights.h5")
    else:
        saving.save_checkpoint(saved, folder / "a", verbose=False)
        with pytest.raises(ValueError, match=words):
            saving.load_checkpoint(model, folder / "a", verbose=False)
    after = [model.get_layer("of_2").find(np.arange(14), table=n).rows for n in ("users", "items")]
    np.testing.assert_array_equal(after, before)
