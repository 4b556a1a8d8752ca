"""Layers that are called in a scope: one lookup for all, and the results that they give alone."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import Embedding
from keras_sparse.layers import group_embedding_scope
from keras_sparse.layers import GroupEmbedding

IDS = np.random.default_rng(0).integers(0, 20, (12, 3))
TARGETS = np.random.default_rng(1).normal(size=(12, 1)).astype("float32")
TABLES = [(20, 4, "sum"), (None, 3, "mean"), (20, 5, None)]


def make_layers():
    return [Embedding(*table, seed=i, name=f"table_{i}") for i, table in enumerate(TABLES)]


def scope(is_open):
    return group_embedding_scope() if is_open else contextlib.nullcontext()


def num_lookups(function, *args):
    graph = tf.function(function).get_concrete_function(*args).graph
    return sum(op.type == "KerasSparseLookup" for op in graph.get_operations())


def functional(in_scope):
    ids = keras.Input((3,), dtype="int64")
    layers = make_layers()
    with scope(in_scope):
        rows = [layer(ids) for layer in layers]
        rows.append(layers[1](ids[:, :2]))  # a table with two inputs
    rows[2] = keras.layers.Flatten()(rows[2])
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(keras.layers.Concatenate()(rows))
    return keras.Model(ids, outputs)


class Subclassed(keras.Model):
    def __init__(self, in_scope):
        super().__init__()
        self.in_scope = in_scope
        self.embeddings = make_layers()
        self.dense = keras.layers.Dense(1, kernel_initializer="ones")

    def call(self, ids):
        with scope(self.in_scope):
            rows = [layer(ids) for layer in self.embeddings]
        rows[2] = keras.ops.reshape(rows[2], (-1, 15))
        return self.dense(keras.ops.concatenate(rows, axis=1)) + rows[0][:, :1] / 2


def trained(model, **options):
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", **options)
    model.fit(IDS, TARGETS, batch_size=4, epochs=3, shuffle=False, verbose=0)
    return model.predict(IDS, verbose=0)


@pytest.mark.parametrize("run_eagerly", [False, True])
@pytest.mark.parametrize("make", [functional, Subclassed])
def test_trains_as_without_the_scope_in_one_lookup(make, run_eagerly):
    grouped, alone = make(True), make(False)
    results = [trained(model, run_eagerly=run_eagerly) for model in (grouped, alone)]
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
    assert num_lookups(grouped, tf.constant(IDS)) == 1
    assert num_lookups(alone, tf.constant(IDS)) == (4 if make is functional else 3)


def test_a_functional_model_has_one_layer_in_their_place_and_saves_it(tmp_path):
    model = functional(True)
    (group,) = (layer for layer in model.layers if isinstance(layer, GroupEmbedding))
    assert group.templates.names == ["table_0", "table_1", "table_2"]
    expected = trained(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), expected)
    clone = keras.models.clone_model(model)
    assert [type(each) for each in clone.layers] == [type(each) for each in model.layers]


def test_ragged_ids_weights_masks_and_mixed_precision_go_through_a_functional_model():
    ragged = keras.Input((None,), dtype="int64", ragged=True)
    dense, weights = keras.Input((3,), dtype="int64"), keras.Input((3,))
    with group_embedding_scope(name="group"):
        pooled = Embedding(20, 4, "sum", seed=1, dtype="mixed_float16")(ragged)
        masked = Embedding(20, 4, mask_zero=True, seed=2)(dense)
        weighted = Embedding(20, 4, "mean", seed=3)(dense, weights=weights)
        averaged = keras.layers.GlobalAveragePooling1D()(masked)  # uses the mask, and the rows
    model = keras.Model([ragged, dense, weights], [pooled, averaged, weighted])
    ids, counts = IDS % 3, np.abs(np.random.default_rng(2).normal(size=IDS.shape))
    bags = tf.RaggedTensor.from_tensor(tf.constant(IDS), lengths=np.arange(12) % 4)
    pooled, averaged, weighted = model([bags, tf.constant(ids), tf.constant(counts, tf.float32)])
    assert pooled.dtype == "float16"
    np.testing.assert_allclose(pooled, Embedding(20, 4, "sum", seed=1)(bags), atol=1e-3)
    rows = Embedding(20, 4, seed=2)(ids).numpy()
    kept = (ids != 0)[..., np.newaxis]
    expected = (rows * kept).sum(1) / np.maximum(kept.sum(1), 1)
    np.testing.assert_allclose(averaged, expected, atol=1e-6)
    expected = Embedding(20, 4, "mean", seed=3)(ids, weights=counts.astype("float32"))
    np.testing.assert_allclose(weighted, expected, atol=1e-6)


def test_the_first_use_looks_up_what_has_been_called_so_far():
    def call(ids):
        with group_embedding_scope():
            first, second = layers[0](ids), layers[1](ids)
            total = tf.reduce_sum(first)
            return total + tf.reduce_sum(layers[0](ids)) + tf.reduce_sum(second)

    layers = make_layers()
    call(tf.constant(IDS))
    assert num_lookups(call, tf.constant(IDS)) == 2


USES = {
    "add": lambda rows: rows + 1.0,
    "reversed": lambda rows: tf.constant([2.0]) * rows,
    "slice": lambda rows: rows[1:, :2],
    "tf": lambda rows: tf.concat([rows, rows], 0),
    "stack": lambda rows: tf.stack([rows, rows]),
    "matmul": lambda rows: rows @ tf.ones((4, 2)),
    "einsum": lambda rows: tf.einsum("ij,ij->i", rows, rows),
    "keras_ops": lambda rows: keras.ops.concatenate([rows, rows], axis=1),
    "keras_layer": lambda rows: keras.layers.Concatenate()([rows, rows]),
    "method": lambda rows: tf.constant(rows.shape.rank, tf.float32) * rows,
}


@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("use", USES)
def test_an_output_is_used_as_a_tensor_and_lets_gradients_through(use, in_graph):
    layer = Embedding(20, 4, "sum", seed=1)
    layer.build((None, 3))

    def run(in_scope, use=USES[use]):
        with tf.GradientTape() as tape:
            with scope(in_scope):
                rows = layer(tf.constant(IDS))
            loss = tf.reduce_sum(use(rows) ** 2)
        (gradient,) = tape.gradient(loss, layer.trainable_variables)
        return loss, tf.math.unsorted_segment_sum(gradient.values, gradient.indices, 20)

    run = tf.function(run, autograph=False) if in_graph else run
    for found, expected in zip(run(True), run(False), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_an_output_that_nobody_used_is_still_a_tensor_afterwards():
    layer = Embedding(20, 4, "sum", seed=1)
    with group_embedding_scope():
        rows = layer(IDS)
        assert repr(rows) == "<LateRows>"
        assert rows.shape == (12, 4)
        assert rows.dtype == tf.float32
    np.testing.assert_array_equal(rows.numpy(), layer(IDS))
    assert len(rows) == 12
    np.testing.assert_array_equal(np.asarray(rows), layer(IDS))
    returned = tf.function(lambda: {"rows": rows})()
    assert isinstance(returned["rows"], tf.Tensor)


def test_sequences_of_ragged_ids_do_not_wait():
    layer = Embedding(20, 4, seed=1)
    ids = tf.ragged.constant([[1, 2], [3]])
    with group_embedding_scope():
        rows = layer(ids)
        assert isinstance(rows, tf.RaggedTensor)
    np.testing.assert_array_equal(rows.values, layer(ids).values)


def test_scopes_in_a_scope_group_by_themselves():
    layers = make_layers()
    for layer in layers:
        layer.build((None, 3))

    def call(ids):
        with group_embedding_scope():
            outer = layers[0](ids)
            with group_embedding_scope():
                inner = [layers[1](ids), layers[2](ids)]
            return tf.reduce_sum(outer) + sum(tf.reduce_sum(each) for each in inner)

    assert num_lookups(call, tf.constant(IDS)) == 2


def test_refuses_a_layer_that_has_its_table_elsewhere():
    ids = keras.Input((3,), dtype="int64")
    layer, built = Embedding(20, 4, "sum", name="shared"), Embedding(20, 4, "sum", name="built")
    built.build((None, 3))
    with group_embedding_scope(name="first"):
        layer(ids)
    message = "must be called in the `group_embedding_scope`.*one of layer 'first'"
    with pytest.raises(ValueError, match=message):
        layer(ids)
    with pytest.raises(ValueError, match="'shared', which has its table in layer 'first'"):  # noqa: SIM117
        with group_embedding_scope():
            layer(ids)
    with pytest.raises(ValueError, match="'built', which has its table of its own"):  # noqa: SIM117
        with group_embedding_scope():
            built(ids)
    with pytest.raises(ValueError, match="`mode` must be one of"):  # noqa: SIM117
        with group_embedding_scope(mode="distributed"):
            pass


def test_after_an_error_nothing_is_looked_up_and_no_scope_stays_open():
    layer = Embedding(20, 4, "sum", seed=1)
    outputs = []

    def fail_in_a_scope():
        with group_embedding_scope():
            outputs.append(layer(IDS))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_in_a_scope()
    with pytest.raises(RuntimeError, match="an error has ended is never looked up"):
        tf.convert_to_tensor(outputs[0])
    assert isinstance(layer(IDS), tf.Tensor)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[0, 20\)"):  # noqa: SIM117
        with group_embedding_scope():
            layer([[20]])
    assert isinstance(layer(IDS), tf.Tensor)
