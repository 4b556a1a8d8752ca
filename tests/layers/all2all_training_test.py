"""SparseOperationKit's layers in training: Keras' results, limits, admission, eviction, files."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding

VOCABULARY, BATCHES, BATCH_SIZE = 20, 6, 16
OPTIMIZERS = {
    "SGD": {"learning_rate": 1.0},
    "momentum": {"learning_rate": 0.1, "momentum": 0.9},
    "Adagrad": {"learning_rate": 0.1},
    "Adamax": {"learning_rate": 0.01},
    "Adadelta": {"learning_rate": 1.0},
    "Ftrl": {"learning_rate": 0.1},
    "Adam": {"learning_rate": 0.01},
}


class DenseLookup(keras.layers.Layer):
    """`keras.layers.Embedding` with a dense gradient: Keras' sparse one adds up squares by key."""

    def build(self, input_shape):
        self.table = self.add_weight((VOCABULARY, 4), "uniform")

    def call(self, keys):
        return keras.ops.matmul(keras.ops.one_hot(keys, VOCABULARY), self.table)


def batches(num_batches=BATCHES, most_keys=VOCABULARY):
    """Few keys many times over; the last batch is smaller."""
    random = np.random.default_rng(5)
    for i in range(num_batches):
        size = 5 if i == num_batches - 1 else BATCH_SIZE
        yield random.integers(0, most_keys, (size, 3, 2)), random.normal(size=(size, 1))


def model_of(embedding, optimizer, pool=False, **compile_options):
    keys = keras.Input((3, 2), dtype="int64")
    rows = embedding(keys)
    rows = keras.ops.sum(rows, 2) if pool else rows
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.1))(
        keras.layers.Flatten()(rows)
    )
    model = keras.Model(keys, outputs)
    model.compile(optimizer, loss="mse", **compile_options)
    return model


def make_optimizer(module, name):
    return getattr(module, "SGD" if name == "momentum" else name)(**OPTIMIZERS[name])


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_trains_like_a_dense_table_of_keras(kind, name):
    stock = DenseLookup()
    eagerly = {"run_eagerly": True}
    optimizer = make_optimizer(keras.optimizers, name)
    expected = model_of(stock, optimizer, pool=kind == "sparse", **eagerly)
    options = {"slot_num": 3, "use_hashtable": False}
    if kind == "dense":
        layer = All2AllDenseEmbedding(VOCABULARY, 4, nnz_per_slot=2, **options)
    else:
        layer = All2AllSparseEmbedding("sum", VOCABULARY, 4, **options)
    model = model_of(layer, make_optimizer(keras_sparse.optimizers, name), **eagerly)
    layer.set_weights(stock.get_weights())
    every_row = np.arange(VOCABULARY).repeat(6).reshape(-1, 3, 2)
    for keys, targets in batches():
        # Ftrl resets the rows that Keras' step does not touch, and ours leaves them.
        if name == "Ftrl":
            keys, targets = every_row, np.resize(targets, (VOCABULARY, 1))
        losses = [each.train_on_batch(keys, targets) for each in (expected, model)]
        np.testing.assert_allclose(losses[1], losses[0], rtol=1e-5)
    np.testing.assert_allclose(layer.get_weights()[0], stock.get_weights()[0], atol=5e-6)


def three_steps(optimizer):
    """Rows of keys 0 and 1, from 0, after each of three steps; key 1 has no gradient in the second.

    In step 1 key 0 comes twice: its gradient is 1 + 2.
    """
    layer = All2AllDenseEmbedding(9, 1, 1, 1, dynamic_input=True, embedding_initializer="zeros")
    rows = []
    for keys, grads in [([0, 1, 0], [1.0, -1.0, 2.0]), ([0], [1.0]), ([0, 1], [1.0, 1.0])]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant(keys))[:, 0] * grads)
        optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
        rows.append(layer(tf.constant([0, 1])).numpy()[:, 0])
    return np.array(rows)


def adam_by_hand(is_lazy):
    """The rules of Adam in float64: beta_1 .5, beta_2 .75, no epsilon, a rate of .1."""
    row, m, v = np.zeros(2), np.zeros(2), np.zeros(2)
    rows = []
    for t, grad in enumerate([[3, -1], [1, 0], [1, 1]], 1):
        touched = np.array([True, t != 2]) if is_lazy else np.array([True, True])
        m = np.where(touched, 0.5 * m + 0.5 * np.array(grad), m)
        v = np.where(touched, 0.75 * v + 0.25 * np.array(grad) ** 2, v)
        moves = 0.1 * np.sqrt(1 - 0.75**t) / (1 - 0.5**t) * m / np.sqrt(v)
        row = np.where(touched, row - moves, row)
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("is_lazy", [False, True])
def test_adam_moves_all_rows_and_lazy_adam_the_touched_ones(is_lazy):
    make = keras_sparse.optimizers.LazyAdam if is_lazy else keras_sparse.optimizers.Adam
    rows = three_steps(make(0.1, beta_1=0.5, beta_2=0.75, epsilon=1e-12))
    # By hand, the first step: m / (1 - beta_1) is g, the root of v / (1 - beta_2) is |g|.
    np.testing.assert_allclose(rows[0], [-0.1, 0.1], atol=1e-6)
    np.testing.assert_allclose(rows, adam_by_hand(is_lazy), atol=1e-6)
    assert (rows[1, 1] == rows[0, 1]) == is_lazy


def test_more_keys_than_the_vocabulary_has_room_for_are_an_error_that_changes_nothing():
    layer = All2AllDenseEmbedding(10, 4, 3, 2)
    model = model_of(layer, keras_sparse.optimizers.Adagrad(0.1))
    keys = np.arange(6).reshape(1, 3, 2)
    model.train_on_batch(keys, np.ones((1, 1)))
    (table,) = layer.tables
    before = dict(zip(*next(iter(table.export())), strict=True))
    message = "`max_rows` of table '.*embeddings' must hold.*`max_vocabulary_size_per_gpu` in SOK's"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=message):
        model.train_on_batch(np.arange(12).reshape(2, 3, 2), np.ones((2, 1)))
    after = dict(zip(*next(iter(table.export())), strict=True))
    assert before.keys() == after.keys()
    for key, record in before.items():
        np.testing.assert_array_equal(after[key], record)
    model.train_on_batch(keys + 4, np.ones((1, 1)))
    assert layer.tables[0].num_rows == 10
    # Reading needs no room.
    assert np.isfinite(model.predict(np.arange(600).reshape(100, 3, 2), verbose=0)).all()
    assert layer.tables[0].num_rows == 10


def test_a_file_with_more_rows_than_the_limit_is_loaded_whole(tmp_path):
    model = model_of(All2AllDenseEmbedding(12, 4, 3, 2), keras_sparse.optimizers.Adam(0.1))
    keys = np.arange(12).reshape(2, 3, 2)
    model.train_on_batch(keys, np.ones((2, 1)))
    model.save_weights(tmp_path / "model.weights.h5")
    layer = All2AllDenseEmbedding(5, 4, 3, 2)
    smaller = model_of(layer, keras_sparse.optimizers.Adam(0.1))
    smaller.optimizer.build(smaller.trainable_variables)
    smaller.load_weights(tmp_path / "model.weights.h5")
    for each in (model, smaller):
        each.train_on_batch(keys, np.zeros((2, 1)))
    assert layer.tables[0].num_rows == 12
    np.testing.assert_array_equal(smaller(keys), model(keys))
    with pytest.raises(tf.errors.ResourceExhaustedError, match="max_rows=5 where the table has 12"):
        smaller.train_on_batch(keys + 1, np.zeros((2, 1)))


def test_a_full_vocabulary_evicts_what_its_policy_lets_go_and_counts():
    layer = All2AllDenseEmbedding(18, 4, 3, 2, eviction=keras_sparse.GlobalStepEvict(1))
    model = model_of(layer, keras_sparse.optimizers.Adam(0.1))
    for step in range(20):
        model.train_on_batch(np.arange(6).reshape(1, 3, 2) + 6 * step, np.ones((1, 1)))
        assert layer.tables[0].num_rows <= 18
    (stats,) = layer.stats().values()
    assert stats["rows"] + stats["evicted_rows"] == stats["created_rows"] == 120
    with pytest.raises(tf.errors.ResourceExhaustedError, match="and 24 keys are new"):
        model.train_on_batch(np.arange(24).reshape(4, 3, 2) - 50, np.ones((4, 1)))
    assert layer.tables[0].num_rows == 18
    with pytest.raises(tf.errors.ResourceExhaustedError, match="eviction policy lets 6 go, and 18"):
        model.train_on_batch(np.arange(18).reshape(3, 3, 2) - 50, np.ones((3, 1)))


@pytest.mark.parametrize("p", [0.25, 1.0])
def test_a_probability_filter_admits_its_part_of_the_keys(p):
    admission = keras_sparse.ProbabilityFilter(p, seed=3)
    layer = All2AllDenseEmbedding(3000, 2, 3, 2, admission=admission)
    model = model_of(layer, keras_sparse.optimizers.SGD(0.1))
    model.train_on_batch(np.arange(3000).reshape(-1, 3, 2), np.ones((500, 1)))
    spread = 4 * np.sqrt(3000 * p * (1 - p))
    assert abs(layer.tables[0].num_rows - 3000 * p) <= spread


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_mixed_precision_stays_near_float32(kind):
    keys = next(batches())[0]
    predictions = []
    for dtype in ("float32", "mixed_float16"):
        if kind == "dense":
            layer = All2AllDenseEmbedding(50, 4, 3, 2, seed=1, dtype=dtype)
        else:
            layer = All2AllSparseEmbedding("mean", 50, 4, 3, seed=1, dtype=dtype)
        model = model_of(layer, keras_sparse.optimizers.Adagrad(0.5))
        first = model(keys).numpy()
        for each, targets in batches():
            model.train_on_batch(each, targets)
        assert layer(keys).dtype == ("float32" if dtype == "float32" else "float16")
        predictions.append(model(keys).numpy())
    np.testing.assert_allclose(predictions[1], predictions[0], atol=1e-2)
    assert np.abs(predictions[1] - first).max() > 0.1


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_fits_and_goes_on_from_a_file_as_if_never_stopped(run_eagerly, tmp_path):
    def make():
        layer = All2AllSparseEmbedding("mean", 50, 4, 3, seed=1)
        return model_of(layer, keras_sparse.optimizers.Adam(0.05), run_eagerly=run_eagerly)

    data = list(batches(4))
    whole, first = make(), make()
    for model, steps in [(whole, data), (first, data[:2])]:
        dataset = tf.data.Dataset.from_generator(
            lambda steps=steps: iter(steps),
            output_signature=(
                tf.TensorSpec((None, 3, 2), tf.int64),
                tf.TensorSpec((None, 1), tf.float32),
            ),
        )
        model.fit(dataset, steps_per_epoch=len(steps), shuffle=False, verbose=0)
    first.save(tmp_path / "model.keras")
    resumed = keras.saving.load_model(tmp_path / "model.keras")
    for keys, targets in data[2:]:
        resumed.train_on_batch(keys, targets)
    assert int(resumed.optimizer.iterations) == 4
    np.testing.assert_array_equal(
        resumed.predict(data[0][0], verbose=0), whole.predict(data[0][0], verbose=0)
    )


def test_lookups_are_prefetched(tmp_path):
    keys, targets = (
        np.concatenate(each)
        for each in zip(*[each for each in batches(13) if len(each[0]) == BATCH_SIZE], strict=True)
    )
    dataset = tf.data.Dataset.from_tensor_slices((keys, targets)).batch(BATCH_SIZE)
    rows = {}
    for mode in (None, "exact", "stale"):
        storage = keras_sparse.StorageOption("DRAM_SSDHASH", str(tmp_path / str(mode)), [4096])
        layer = All2AllSparseEmbedding("mean", 50, 4, 3, seed=1, storage=storage)
        model = model_of(layer, keras_sparse.optimizers.Adam(0.05))
        staged = dataset
        if mode is not None:
            staged = keras_sparse.data.prefetch_lookups(dataset, model, capacity=2, mode=mode)
        model.fit(staged, epochs=2, shuffle=False, verbose=0)
        rows[mode] = layer(keys).numpy()
        (stats,) = layer.stats().values()
        assert (stats["prefetch"]["staged"] > 0) == (mode is not None)
    np.testing.assert_array_equal(rows["exact"], rows[None])
