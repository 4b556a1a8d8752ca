"""A saved static table in a larger one, or in a dynamic one."""

import keras
import numpy as np
import pytest

from checkpoint_cases import load
from checkpoint_cases import save
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.saving import load_weights
from optimizer_cases import read
from optimizer_cases import tables_of

ROWS, DIM = 5, 2
IDS = np.array([[0, 3], [1, 1], [4, 3], [2, 0]])
NEW = {"larger": 8, "dynamic": None}


def make_model(input_dim, optimizer=None, seed=1, output_dim=DIM, initializer="uniform"):
    keras.utils.set_random_seed(seed)
    ids = keras.Input((2,), dtype="int64")
    options = {"embeddings_initializer": initializer, "seed": seed}
    one = Embedding(input_dim, output_dim, "sum", name="one", **options)(ids)
    tables = [Embedding(input_dim, output_dim, "sum", name="two", **options)]
    (two,) = DistributedEmbedding(tables, name="several")([ids])
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.concatenate([one, two])))
    if optimizer is not None:
        model.compile(optimizer, loss="mse", run_eagerly=True)
        model.optimizer.build(model.trainable_variables)
    return model


def train(model, ids=IDS):
    for batch in (ids[:2], ids[2:]) * 3:
        model.train_on_batch(batch, np.ones((2, 1)))


@pytest.mark.parametrize(
    ("way", "make", "input_dim"),
    [
        ("keras", Adagrad, 8),
        ("weights.h5", Adam, None),
        ("checkpoint", Adagrad, None),
        ("checkpoint", Adam, 8),
    ],
)
def test_goes_on_as_one_that_had_the_ids_from_the_start(way, make, input_dim, tmp_path):
    saved, whole = make_model(ROWS, make(0.1)), make_model(input_dim, make(0.1))
    for model in (saved, whole):
        train(model)
    path = save(saved, tmp_path, way)
    grown = make_model(input_dim, make(0.1), seed=1)
    if way == "keras":  # into a model whose step has been traced
        grown.compile(grown.optimizer, loss="mse")
    train(grown, IDS + (3 if input_dim else 90))  # what it had before is gone
    load(grown, path, grow=True)
    ids = np.arange(8)
    for number in range(2):
        for ours, theirs in zip(tables_of(grown), tables_of(whole), strict=True):
            np.testing.assert_allclose(read(ours, ids), read(theirs, ids), rtol=0, atol=1e-6)
            if input_dim is None:
                assert ours.num_rows == [ROWS, 8][number]
        train(grown, IDS + 3)
        train(whole, IDS + 3)


def test_new_ids_have_the_initial_rows_of_the_model(tmp_path):
    path = save(make_model(ROWS), tmp_path, "weights.h5")

    def ramp(shape, dtype=None):
        return np.arange(np.prod(shape), dtype="float32").reshape(shape)

    for initializer, rows in (("ones", np.ones((8, DIM))), (ramp, ramp((8, DIM)))):
        model = make_model(8, initializer=initializer)
        load(model, path, grow=True)
        for table in tables_of(model):
            np.testing.assert_array_equal(table.numpy()[ROWS:], rows[ROWS:])


@pytest.mark.parametrize("input_dim", NEW.values(), ids=[*NEW])
def test_takes_the_weights_of_a_table_of_keras(input_dim, tmp_path):
    def make(layer, rows):
        return keras.Sequential([keras.Input((2,), dtype="int64"), layer(rows, DIM)])

    stock, ours = make(keras.layers.Embedding, ROWS), make(Embedding, input_dim)
    stock.save_weights(tmp_path / "a.weights.h5")
    load_weights(ours, tmp_path / "a.weights.h5", grow=True)
    (table,) = tables_of(ours)
    np.testing.assert_array_equal(read(table, np.arange(ROWS)), stock.get_weights()[0])
    with pytest.raises(ValueError, match=r"must be loaded into a static table.*input_dim=4, outp"):
        load_weights(make(Embedding, 4), tmp_path / "a.weights.h5", grow=True)


@pytest.mark.filterwarnings("ignore:Skipping nested container")
@pytest.mark.parametrize("way", ["weights.h5", "checkpoint"])
@pytest.mark.parametrize(
    ("saved", "ours", "grow", "words"),
    [
        ((ROWS, DIM), (8, DIM), False, r"must.*(Give|same shapes. With) `grow=True`"),
        ((8, DIM), (ROWS, DIM), False, r"(many ids at most|same shapes\. Received)"),
        ((8, DIM), (ROWS, DIM), True, r"as many ids at most.*saved input_dim=8"),
        (
            (ROWS, DIM),
            (ROWS, 4),
            True,
            r"(many ids at most|same shapes).*(output_dim=2 for|\(5, 2\))",
        ),
        ((None, DIM), (ROWS, DIM), True, "not be dynamic. Make the layer.*saved input_dim=None"),
    ],
)
def test_refuses_what_is_no_growth(way, saved, ours, grow, words, tmp_path):
    path = save(make_model(saved[0], output_dim=saved[1]), tmp_path, way)
    model = make_model(ours[0], output_dim=ours[1], seed=2)
    before = [table.numpy().tolist() for table in tables_of(model)]
    with pytest.raises(ValueError, match=words):
        load(model, path, grow=grow)
    assert [table.numpy().tolist() for table in tables_of(model)] == before
    with pytest.raises(TypeError, match=r"`grow` must be True or False. Received: grow=1"):
        load(model, path, grow=1)
