import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import native
from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.training import broadcast_variables as broadcasts
from ranked_training import assert_same_on_all_ranks
from ranked_training import sorted_rows

IDS = np.array([[1, 2], [3, 4], [2, 9]])
TARGETS = np.ones((3, 1))
needs_ranks = pytest.mark.skipif(ksd.size() == 1, reason="one rank agrees with itself")


def make_model(input_dim=20, admission=None):
    """A model of a seed that each rank has for itself."""
    keras.utils.set_random_seed(100 + ksd.rank())
    ids = keras.Input((2,), dtype="int64")
    rows = keras_sparse.layers.Embedding(input_dim, 3, combiner="sum", admission=admission)(ids)
    outputs = keras.layers.Dense(1)(keras.layers.Dropout(0.2)(rows))
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.Adam(0.1), "mse", run_eagerly=True)
    return model


@pytest.mark.parametrize("root", sorted({0, ksd.size() - 1}))
def test_dense_variables_get_the_values_of_the_root(root, monkeypatch):
    module = sys.modules["keras_sparse.distribute.training.broadcast_variables"]
    monkeypatch.setattr(module, "_GROUP_BYTES", 20)
    dtypes = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint32", "bool"]
    variables = [keras.Variable(np.full((2, 3), ksd.rank() % 2), dtype=dtype) for dtype in dtypes]
    variables += [tf.Variable(float(ksd.rank())), tf.Variable(tf.zeros((0, 2)))]
    ksd.broadcast_variables(variables, root)
    for variable in variables[:-2]:
        np.testing.assert_array_equal(np.asarray(variable, np.float32), np.full((2, 3), root % 2))
    assert float(variables[-2]) == root


@pytest.mark.parametrize("input_dim", [20, None])
def test_ranks_go_on_alike_from_the_root(input_dim):
    model = make_model(input_dim)
    for _ in range(ksd.rank() + 2):  # other rows, slots and steps on every rank
        model.train_on_batch(IDS + ksd.rank() if input_dim is None else IDS, TARGETS)
    ksd.broadcast_variables([*model.variables, *model.optimizer.variables])
    table = model.layers[1].embeddings
    assert_same_on_all_ranks([*sorted_rows(table), model.optimizer.iterations])
    assert len(sorted_rows(table)[0]) == (5 if input_dim is None else 20)
    for _ in range(2):
        model.train_on_batch(IDS, TARGETS)
    assert_same_on_all_ranks([*sorted_rows(table), *model.layers[-1].get_weights()])
    assert_same_on_all_ranks([model.predict_on_batch(IDS)])  # of ids without a row too
    assert_same_on_all_ranks([native.lookup([table], [tf.constant([8], tf.int64)])[0]])


def test_tables_go_in_pieces_and_take_their_filter_along(monkeypatch):
    monkeypatch.setattr(broadcasts, "CHUNK_BYTES", 100)
    model = make_model(None, keras_sparse.CounterFilter(2))
    ids = np.arange(2000).reshape(-1, 2) if ksd.rank() == 0 else IDS
    for _ in range(2):
        model.train_on_batch(ids, np.ones((len(ids), 1)))
    model.train_on_batch(np.array([[5000, 5000 + ksd.rank()]]), np.ones((1, 1)))
    ksd.broadcast_variables([*model.variables, *model.optimizer.variables])
    table = model.layers[1].embeddings
    assert table.num_rows == 2000
    assert_same_on_all_ranks(sorted_rows(table))
    assert table.stats()["waiting_keys"] == 1


def test_parts_of_a_table_stay():
    table = keras_sparse.EmbeddingVariable(4 + ksd.rank(), 2, initializer="ones")
    table.table.part = "a part"
    table.assign(np.full((4 + ksd.rank(), 2), ksd.rank()))
    ksd.broadcast_variables([table] * (1 + ksd.rank()))
    np.testing.assert_array_equal(table.numpy(), np.full((4 + ksd.rank(), 2), ksd.rank()))


@needs_ranks
def test_names_the_first_difference_and_its_ranks():
    mine = keras.Variable(np.zeros((2, 3 if ksd.rank() else 2)), name="kernel")
    ranks = ", ".join(map(str, range(1, ksd.size())))
    with pytest.raises(ValueError, match="same order, shapes, dtypes and settings") as error:
        ksd.broadcast_variables([keras.Variable(0.0), mine])
    assert str(error.value).startswith(f"[rank {ksd.rank()} of {ksd.size()}] Variables must")
    assert str(error.value).endswith(
        f"variables[1]: float64 (2, 2) 'kernel' on rank 0; float64 (2, 3) 'kernel' on rank {ranks}"
    )
    with pytest.raises(ValueError, match=r"variables\[0\]: int32 \(\) '.*' on rank 0; missing on"):
        ksd.broadcast_variables([] if ksd.rank() else [keras.Variable(0, dtype="int32")])
    table = keras_sparse.EmbeddingVariable(None, 2)
    if ksd.rank():
        keras_sparse.optimizers.Adagrad().build([table])
    with pytest.raises(ValueError, match=r"rule=None.* on rank 0; table\(.*rule=adagrad"):
        ksd.broadcast_variables([table])


def test_refuses_what_is_no_variable_of_numbers():
    with pytest.raises(ValueError, match="`root_rank` must be below the number of ranks"):
        ksd.broadcast_variables([], ksd.size())
    with pytest.raises(TypeError, match="must be Keras or TensorFlow variables"):
        ksd.broadcast_variables([np.zeros(2)])
    with pytest.raises(TypeError, match="must hold numbers"):
        ksd.broadcast_variables([tf.Variable("text")])
    with pytest.raises(RuntimeError, match=r"outside of a `tf\.function`"):
        tf.function(lambda: ksd.broadcast_variables([]))()


def test_the_callback_lets_ranks_begin_alike():
    model = make_model()
    before = np.asarray(collectives.broadcast(tf.constant(model.get_weights()[0]), 0, "before"))
    seen = []

    class Seen(keras.callbacks.Callback):
        def on_train_batch_begin(self, batch, logs=None):
            seen.extend([model.get_weights()[0], model.predict_on_batch(IDS)])

    callbacks = [keras_sparse.callbacks.BroadcastGlobalVariables(), Seen()]
    model.fit(IDS, TARGETS, batch_size=3, verbose=0, callbacks=callbacks)
    np.testing.assert_array_equal(seen[0], before)
    model.fit(IDS + ksd.rank(), TARGETS, batch_size=3, verbose=0, callbacks=callbacks[:1])
    assert_same_on_all_ranks(seen)
    mine = model.get_weights()[0]
    first = collectives.broadcast(tf.constant(mine), 0, "after")
    # It broadcasts once: what a rank has learned by itself since then stays.
    assert np.array_equal(mine, first) == (ksd.rank() == 0)


def test_the_callback_needs_a_built_model():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    callback = keras_sparse.callbacks.BroadcastGlobalVariables()
    with pytest.raises(ValueError, match="must be given to a built model"):
        model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0, callbacks=[callback])
