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


def test_trains_as_without_the_scope_in_one_lookup():
    grouped, alone = functional(True), functional(False)
    results = [trained(model, run_eagerly=model is alone) for model in (grouped, alone)]
    np.testing.assert_allclose(results[0], results[1], atol=1e-6)
    assert num_lookups(grouped, tf.constant(IDS)) == 1
    assert num_lookups(alone, tf.constant(IDS)) == 4


def test_layers_that_are_called_with_tensors_look_up_by_themselves():
    results = [trained(Subclassed(in_scope)) for in_scope in (True, False)]
    np.testing.assert_array_equal(*results)
    ids = keras.Input((3,), dtype="int64")
    with group_embedding_scope(name="group"):
        rows = Embedding(20, 2, "sum")(ids)
        outputs = Subclassed(False)(ids)  # a layer whose own layers see tensors
    model = keras.Model(ids, [rows, outputs])
    assert model.get_layer("group").templates.num_inputs == 1


def test_a_functional_model_has_one_layer_in_their_place_and_saves_it(tmp_path):
    model = functional(True)
    (group,) = (layer for layer in model.layers if isinstance(layer, GroupEmbedding))
    assert group.templates.names == ["table_0", "table_1", "table_2"]
    expected = trained(model, run_eagerly=True)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded.predict(IDS, verbose=0), expected)
    clone = keras.models.clone_model(model)
    assert [type(each) for each in clone.layers] == [type(each) for each in model.layers]


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_lookups_of_a_group_are_prefetched(mode):
    rows = []
    for ahead in (False, True) if mode == "exact" else (True,):
        model = functional(True)
        model.compile(keras_sparse.optimizers.Adam(0.1), loss="mse")
        dataset = tf.data.Dataset.from_tensor_slices((IDS, TARGETS)).batch(4)
        if ahead:
            dataset = keras_sparse.data.prefetch_lookups(dataset, model, capacity=2, mode=mode)
        model.fit(dataset, epochs=2, shuffle=False, verbose=0)
        rows.append(model(IDS).numpy())
        (group,) = (layer for layer in model.layers if isinstance(layer, GroupEmbedding))
    staged = [each["prefetch"]["staged"] for each in group.stats().values()]
    # In the memory of one rank there is nothing that exact lookups could have ready.
    assert sum(staged) == (6 if mode == "stale" else 0)
    assert mode == "stale" or np.array_equal(*rows)


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
    ids = keras.Input((3,), dtype="int64")
    with group_embedding_scope():
        first, second = (Embedding(20, 4, "sum")(ids) for _ in range(2))
        total = keras.ops.add(first, second)
        third, fourth = (Embedding(20, 4, "sum")(ids, training=True) for _ in range(2))
    model = keras.Model(ids, keras.ops.add(total, keras.ops.add(third, fourth)))
    groups = [layer for layer in model.layers if isinstance(layer, GroupEmbedding)]
    assert [len(group.templates.layers) for group in groups] == [2, 2]


def test_scopes_in_a_scope_group_by_themselves():
    ids = keras.Input((3,), dtype="int64")
    first, second, third = make_layers()
    with group_embedding_scope(name="outer"):
        rows = first(ids)
        with group_embedding_scope(name="inner"):
            others = [second(ids), third(ids)]
    assert (first.group, second.group, third.group) == ("outer", "inner", "inner")
    assert keras.Model(ids, [rows, *others])(IDS)[2].shape == (12, 3, 5)


def test_refuses_a_layer_that_has_its_table_elsewhere():
    ids = keras.Input((3,), dtype="int64")
    layer, built = Embedding(20, 4, "sum", name="shared"), Embedding(20, 4, "sum", name="built")
    built.build((None, 3))

    def call_in_a_scope(layer, **options):
        with group_embedding_scope(**options):
            layer(ids)

    call_in_a_scope(layer, name="first")
    message = "must be called in the `group_embedding_scope`.*belongs to layer 'first'"
    with pytest.raises(ValueError, match=message):
        layer(ids)
    with pytest.raises(ValueError, match="'shared', which has its table in layer 'first'"):
        call_in_a_scope(layer)
    with pytest.raises(ValueError, match="'built', which has its table of its own"):
        call_in_a_scope(built)
    with pytest.raises(ValueError, match="`mode` must be one of"):
        call_in_a_scope(layer, mode="distributed")


def test_after_an_error_nothing_is_looked_up_and_no_scope_stays_open():
    ids = keras.Input((3,), dtype="int64")
    layer, same = Embedding(20, 4, "sum", name="a"), Embedding(20, 4, "sum", name="a")
    outputs = []

    def fail_in_a_scope():
        with group_embedding_scope():
            outputs.append(layer(ids))
            raise ZeroDivisionError

    def two_of_one_name():
        with group_embedding_scope():
            outputs.append(layer(ids))
            same(ids)

    with pytest.raises(ZeroDivisionError):
        fail_in_a_scope()
    with pytest.raises(ValueError, match="Each table must have a unique name"):
        two_of_one_name()
    for output in outputs:
        with pytest.raises(RuntimeError, match="an error has ended must not be used"):
            keras.layers.Dense(1)(output)
    # Keras is left as it was: without an argument nothing is training.
    dropout = keras.layers.Dropout(0.5)
    dropout(np.ones(9), training=True)
    np.testing.assert_array_equal(dropout(np.ones(9)), np.ones(9))
    assert keras.Model(ids, layer(ids))(IDS).shape == (12, 4)
