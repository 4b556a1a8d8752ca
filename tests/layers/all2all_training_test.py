"""Training of SparseOperationKit's layers by each form of keys, beside numpy and Keras."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import slot_cases as cases
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import Embedding
from pairwise import each_pair

SAMPLES, SLOTS, MOST = 5, 3, 4
EVERY_KEY, WIDTH = np.arange(-6, 6), 4
LEARNING_RATE = 0.5


def batches(num_steps=4):
    """Keys and weights by slot and place, and gradients."""
    random = np.random.default_rng(4)
    for _ in range(num_steps):
        of_slots = cases.draw(random, EVERY_KEY, SAMPLES * SLOTS, MOST)
        yield *of_slots, random.normal(size=(SAMPLES, SLOTS, WIDTH))


def train_in_numpy(rows, combiner, is_weighted):
    """SGD of the sum of `grads * pooled`, in float64: the gradient of a row is a sum of those."""
    for keys, weights, grads in batches():
        weights = weights if is_weighted else (weights > 0).astype(float)
        of_slots = keys - EVERY_KEY[0], cases.shares(weights, combiner)
        gradient = cases.gradient_of_rows(rows, *of_slots, grads.reshape(-1, WIDTH))
        rows = rows - LEARNING_RATE * gradient
    return rows


def initial_rows():
    """Rows of all keys, of the seed that layers here have, as float64."""
    return np.float64(Embedding(None, WIDTH, seed=1)(EVERY_KEY))


@each_pair(combiner=["sum", "mean", "sqrtn"], is_weighted=[False, True])
def test_trains_by_sparse_rows_of_slots(combiner, is_weighted):
    # More keys than `max_nnz` and `max_feature_num` are all pooled.
    layer = All2AllSparseEmbedding(combiner, 50, WIDTH, SLOTS, 1, 1, seed=1)
    first = initial_rows()
    optimizer = keras_sparse.optimizers.SGD(LEARNING_RATE)

    @tf.function(autograph=False)
    def step(keys, weights, grads):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(keys, weights) * grads)
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    layer.build()
    optimizer.build(layer.trainable_variables)
    for keys, weights, grads in batches():
        is_there = weights > 0
        given = cases.as_sparse(weights.astype("float32"), is_there) if is_weighted else None
        step(cases.as_sparse(keys, is_there), given, grads.astype("float32"))
    (table,) = layer.trainable_variables
    found = keras_sparse.ops.embedding_lookup(table, EVERY_KEY)
    expected = train_in_numpy(first, combiner, is_weighted)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(expected - first).max() > 0.5


def test_lists_of_any_length_are_prefetched(tmp_path):
    """With a model for which a sample is a key, in batches of other lengths."""
    random = np.random.default_rng(1)
    lengths = [8, 8, 3, 8, 5, 8, 1, 8]
    batches = [
        (random.integers(-9, 9, each), random.normal(size=(each, 1)).astype("float32"))
        for each in lengths
    ]
    signature = (tf.TensorSpec((None,), tf.int64), tf.TensorSpec((None, 1), tf.float32))
    dataset = tf.data.Dataset.from_generator(lambda: iter(batches), output_signature=signature)
    predictions = {}
    for mode in (None, "exact", "stale"):
        keys = keras.Input((), dtype="int64")
        storage = keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path / str(mode)), [512])
        layer = All2AllDenseEmbedding(50, WIDTH, 1, 1, True, seed=1, storage=storage)
        outputs = keras.layers.Dense(1, kernel_initializer="ones")(layer(keys))
        model = keras.Model(keys, outputs)
        model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
        staged = dataset
        if mode is not None:
            staged = keras_sparse.data.prefetch_lookups(dataset, model, capacity=2, mode=mode)
        model.fit(staged, epochs=2, steps_per_epoch=4, shuffle=False, verbose=0)
        predictions[mode] = model.predict(np.arange(-9, 9), verbose=0)
        (stats,) = layer.stats().values()
        assert (stats["prefetch"]["staged"] > 0) == (mode is not None)
    np.testing.assert_array_equal(predictions["exact"], predictions[None])


@pytest.mark.parametrize("form", ["dense", "sparse", "ragged"])
def test_fits_rows_of_slots_which_are_more_than_the_targets(form):
    kind = {} if form == "dense" else {form: True}
    inputs = keras.Input((None if form == "ragged" else MOST,), dtype="int64", **kind)
    layer = All2AllSparseEmbedding("sum", 50, WIDTH, SLOTS, max_nnz=1, seed=1)
    head = keras.layers.Dense(1, use_bias=False, kernel_initializer="ones", trainable=False)
    model = keras.Model(inputs, head(keras.layers.Flatten()(layer(inputs))))
    model.compile(keras_sparse.optimizers.SGD(0.05), loss="mse")
    rows, losses, steps = initial_rows(), [], []
    for keys, weights, grads in batches():
        is_there = np.full(keys.shape, True) if form == "dense" else weights > 0
        targets = grads[:, 0, :1]
        steps.append((keys, is_there, targets))
        of_slots = keys - EVERY_KEY[0], is_there.astype(float)
        error = cases.pool(rows, *of_slots).reshape(SAMPLES, -1).sum(1) - targets[:, 0]
        losses.append((error**2).mean())
        # Each number of a sample's slots counts once in its output.
        grads = np.tile(2 * error.repeat(SLOTS)[:, np.newaxis] / SAMPLES, WIDTH)
        rows = rows - 0.05 * cases.gradient_of_rows(rows, *of_slots, grads)
    keys, is_there, targets = map(np.concatenate, zip(*steps, strict=True))
    convert = {"dense": lambda keys, _: keys, "sparse": cases.as_sparse, "ragged": cases.as_ragged}
    slots = tf.data.Dataset.from_tensor_slices(convert[form](keys, is_there)).batch(SAMPLES * SLOTS)
    targets = tf.data.Dataset.from_tensor_slices(targets).batch(SAMPLES)
    dataset = tf.data.Dataset.zip(slots, targets)
    history = model.fit(dataset, shuffle=False, verbose=0).history
    np.testing.assert_allclose(history["loss"], [np.mean(losses)], rtol=1e-5)
    found = keras_sparse.ops.embedding_lookup(layer.tables[0], EVERY_KEY)
    np.testing.assert_allclose(found, rows, atol=1e-5)
    assert np.abs(rows - initial_rows()).max() > 0.1
    assert model.predict(dataset, verbose=0).shape == (len(losses) * SAMPLES, 1)


class DenseLookup(keras.layers.Layer):
    """`keras.layers.Embedding` with a dense gradient: Keras' sparse one adds up squares by key."""

    def build(self, input_shape):
        self.table = self.add_weight((20, WIDTH), "uniform")

    def call(self, keys):
        return keras.ops.matmul(keras.ops.one_hot(keys, 20), self.table)


@pytest.mark.parametrize("name", ["SGD", "Adagrad", "Adam"])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_trains_like_a_dense_table_of_keras(kind, name):
    stock, options = DenseLookup(), {"slot_num": SLOTS, "use_hashtable": False}
    if kind == "dense":
        layer = All2AllDenseEmbedding(20, WIDTH, nnz_per_slot=2, **options)
    else:
        layer = All2AllSparseEmbedding("sum", 20, WIDTH, **options)
    models = []
    for embedding, optimizers in ((stock, keras.optimizers), (layer, keras_sparse.optimizers)):
        keys = keras.Input((SLOTS, 2), dtype="int64")
        rows = embedding(keys)
        rows = keras.ops.sum(rows, 2) if embedding is stock and kind == "sparse" else rows
        head = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.1))
        models.append(keras.Model(keys, head(keras.layers.Flatten()(rows))))
        models[-1].compile(getattr(optimizers, name)(0.1), loss="mse", run_eagerly=True)
    layer.set_weights(stock.get_weights())
    random = np.random.default_rng(5)
    for size in (16, 16, 5):
        keys, targets = random.integers(0, 20, (size, SLOTS, 2)), random.normal(size=(size, 1))
        losses = [model.train_on_batch(keys, targets) for model in models]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(layer.get_weights()[0], stock.get_weights()[0], atol=5e-6)
