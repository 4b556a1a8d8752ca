import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding

LAST = ksd.size() - 1
ALONE = ksd.size() == 1  # where fewer graphs are made: none has an exchange in it
ROWS = 30


def embeddings(combiner="mean"):
    start = keras.initializers.RandomUniform
    return [
        keras_sparse.layers.Embedding(
            rows, width, combiner, embeddings_initializer=start(seed=width), name=f"table{width}"
        )
        for rows, width in [(ROWS, 8), (None, 4), (ROWS, 6)]
    ]


def samples():
    """33 samples, in batches of 10: the last one is small, and leaves a fourth rank without any."""
    ids = np.random.default_rng(0).integers(0, ROWS, (33, 3, 2))
    return [ids[:, 0], ids[:, 1], ids[:, 2]], np.cos(ids.sum((1, 2))[:, None]).astype(np.float32)


def batches():
    inputs, wanted = samples()
    for begin in range(0, 33, 10):
        batch = slice(begin, begin + 10)
        yield [each[batch] for each in inputs], wanted[batch]


def dataset(weigh_samples=True):
    inputs, wanted = samples()
    whole = tf.data.Dataset.from_tensor_slices((tuple(inputs), wanted)).batch(10)
    return ksd.shard(whole, weigh_samples=weigh_samples)


def head():
    return keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=1))


def functional_model(**options):
    inputs = [keras.Input((2,), dtype="int64") for _ in range(3)]
    pooled = DistributedEmbedding(embeddings(), **options)(inputs)
    return keras.Model(inputs, head()(keras.layers.Concatenate()(pooled)))


class Subclassed(keras.Model):
    def __init__(self, **options):
        super().__init__()
        self.embeddings = DistributedEmbedding(embeddings(), **options)
        self.head = head()

    def call(self, inputs):
        return self.head(keras.ops.concatenate(self.embeddings(list(inputs)), axis=1))


def sequential_model(**options):
    layers = [DistributedEmbedding(embeddings(), **options), keras.layers.Concatenate(), head()]
    return keras.Sequential(layers)


def rows_of(layer):
    """All rows of a layer's first and last table, and some of its dynamic one."""
    ids = tf.range(ROWS)[:, tf.newaxis]
    return [np.asarray(each) for each in layer([ids, ids, ids])]


@functools.cache
def reference_rows():
    """What one process gets, with layers of one table each."""
    layers = embeddings()
    model_head = head()
    optimizer = keras_sparse.optimizers.Adagrad(0.1)
    for _ in range(2):
        for inputs, wanted in batches():
            with tf.GradientTape() as tape:
                pooled = [layer(ids) for layer, ids in zip(layers, inputs, strict=True)]
                outputs = model_head(tf.concat(pooled, axis=1))
                loss = tf.reduce_mean((outputs - wanted) ** 2)
            variables = [v for layer in [*layers, model_head] for v in layer.trainable_variables]
            optimizer.apply(tape.gradient(loss, variables), variables)
    ids = tf.range(ROWS)[:, tf.newaxis]
    return [np.asarray(layer(ids)) for layer in layers]


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (functional_model, {"row_slice_threshold": 1}),
        (Subclassed, {"column_slice_threshold": 60}),
        (sequential_model, {}),
    ],
)
def test_fits_like_one_process(make, options):
    model = make(**options)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=ALONE and make is not functional_model)
    model.fit(dataset(), epochs=2, shuffle=False, verbose=0)
    (layer,) = [each for each in model.layers if isinstance(each, DistributedEmbedding)]
    for rows, expected in zip(rows_of(layer), reference_rows(), strict=True):
        np.testing.assert_allclose(rows, expected, atol=2e-6)


def test_evaluates_and_predicts_without_changing_a_table():
    model = functional_model(row_slice_threshold=200, column_slice_threshold=60)
    kinds = [placement.kind for placement in model.layers[3].plan.placements]
    assert ksd.size() == 1 or kinds == ["row_wise", "row_wise", "column_wise"]
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adam(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=ALONE)
    model.fit(dataset(), shuffle=False, verbose=0)
    before = records_of(model.layers[3])
    model.evaluate(dataset(weigh_samples=False), verbose=0)
    model.predict(dataset(weigh_samples=False).map(lambda x, y: (x,)), verbose=0)
    for table, as_before in zip(records_of(model.layers[3]), before, strict=True):
        for array, array_before in zip(table, as_before, strict=True):
            np.testing.assert_array_equal(array, array_before)


def records_of(layer):
    """All that this rank has: of each table the keys of all rows, and the rows with their slots."""
    of_tables = [list(variable.export(1000)) for variable in layer.tables]
    return [[array for piece in pieces for array in piece] for pieces in of_tables]


def test_takes_dicts_of_layers_and_inputs():
    users, items = embeddings()[::2]
    layer = DistributedEmbedding(
        {"users": users, "items": items},
        input_table_map={"user": "users", "item": "items", "last_item": "items"},
        column_slice_threshold=30,
    )
    ids = tf.constant([[ksd.rank(), 3]])
    outputs = layer({"user": ids, "last_item": ids, "item": ids})
    assert {name: tuple(each.shape) for name, each in outputs.items()} == {
        "user": (1, 8),
        "item": (1, 6),
        "last_item": (1, 6),
    }
    np.testing.assert_array_equal(outputs["item"], outputs["last_item"])


def test_a_functional_model_takes_dicts_of_weights():
    tables = {name: keras_sparse.layers.Embedding(9, 2, "sum", "ones") for name in "ab"}
    ids = {name: keras.Input((2,), dtype="int64") for name in "ab"}
    weight = keras.Input((2,))
    outputs = DistributedEmbedding(tables)(ids, weights={"a": None, "b": weight})
    model = keras.Model([ids, weight], outputs)
    given = {name: np.array([[ksd.rank(), 3]]) for name in "ab"}
    rows = model([given, np.array([[2.0, 3.0]])])
    np.testing.assert_array_equal(rows["a"], [[2, 2]])
    np.testing.assert_array_equal(rows["b"], [[5, 5]])
    again = keras.Model.from_config(model.get_config())
    np.testing.assert_array_equal(again([given, np.array([[2.0, 3.0]])])["b"], [[5, 5]])


def test_ranks_may_train_none_of_what_others_do():
    layers = embeddings()
    layers[0].trainable = False
    layer = DistributedEmbedding(layers[:1] + layers[2:])
    before = rows_of_two(layer)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1))

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each) for each in layer(ids)])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    for _ in range(2):
        step([tf.constant([[1]]), tf.constant([[1]])])
    after = rows_of_two(layer)
    np.testing.assert_array_equal(after[0], before[0])
    np.testing.assert_allclose(after[1][1], before[1][1] - 0.2, atol=1e-6)


def rows_of_two(layer):
    ids = tf.range(ROWS)[:, tf.newaxis]
    return [np.asarray(each) for each in layer([ids, ids])]


def test_a_frozen_layer_exchanges_no_gradients_and_can_be_unfrozen():
    layer = DistributedEmbedding(embeddings())
    ids = [tf.constant([[1]])] * 3
    before = rows_of(layer)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1))
    for trainable, move in [(False, 0.0), (True, 0.1)]:
        layer.trainable = trainable
        with tf.GradientTape() as tape:
            loss = tf.add_n([tf.reduce_sum(each) for each in layer(ids)])
        if layer.trainable_variables:
            grads = tape.gradient(loss, layer.trainable_variables)
            optimizer.apply(grads, layer.trainable_variables)
        assert bool(layer.trainable_variables) == trainable
        np.testing.assert_allclose(rows_of(layer)[0][1], before[0][1] - move, atol=1e-6)


@pytest.mark.parametrize("dtype_policy", ["mixed_float16", "mixed_bfloat16"], indirect=True)
def test_trains_in_mixed_precision(dtype_policy):
    model = functional_model(column_slice_threshold=60)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    # Small enough for a part of one sample, whose gradient counts most: no step is left out.
    optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2**8)
    model.compile(optimizer, loss="mse", run_eagerly=ALONE and dtype_policy == "mixed_bfloat16")
    model.fit(dataset(), epochs=2, shuffle=False, verbose=0)
    assert model.layers[3].compute_dtype == dtype_policy.removeprefix("mixed_")
    for rows, expected in zip(rows_of(model.layers[3]), reference_rows(), strict=True):
        np.testing.assert_allclose(rows, expected, atol=0.005)


def test_its_config_makes_it_again():
    layer = DistributedEmbedding(
        embeddings(),
        "memory_balanced",
        column_slice_threshold=60,
        input_table_map=[0, 1, 2, 2],
        memory_budget="1GB",
        hotness=[1, 2, 3, 4],
    )
    again = DistributedEmbedding.from_config(layer.get_config())
    assert again.plan == layer.plan
    assert again.get_config() == layer.get_config()
    for mine, theirs in zip(layer.templates.layers, again.templates.layers, strict=True):
        assert mine.get_config() == theirs.get_config()


def test_masks_are_those_of_its_layers():
    layers = [keras.layers.Embedding(5, 2, mask_zero=True), keras.layers.Embedding(5, 2)]
    layer = DistributedEmbedding(layers)
    rows, others = layer([tf.constant([[0, 3]]), tf.constant([[0, 3]])])
    np.testing.assert_array_equal(rows._keras_mask, [[False, True]])
    assert getattr(others, "_keras_mask", None) is None


@pytest.mark.parametrize("threshold", [None, "column_slice_threshold", "row_slice_threshold"])
def test_equal_tables_keep_their_own_first_rows(threshold):
    starts = ["zeros", "ones", keras.initializers.RandomUniform(seed=3), "zeros"]
    table = keras_sparse.layers.Embedding
    layer = DistributedEmbedding(
        [table(ROWS, 8, embeddings_initializer=start) for start in starts],
        **({threshold: 60} if threshold else {}),
    )
    ids = tf.range(ROWS)
    rows = [np.asarray(each) for each in layer([ids] * 4)]
    assert [each.min() for each in (rows[0], rows[1], rows[3])] == [0, 1, 0]
    assert [each.max() for each in (rows[0], rows[1], rows[3])] == [0, 1, 0]
    whole = table(ROWS, 8, embeddings_initializer=keras.initializers.RandomUniform(seed=3))
    np.testing.assert_array_equal(rows[2], whole(ids))


def rows_by_shape(shape, dtype=None):
    """An initializer of one's own, in no file, whose rows depend on the size of the table."""
    return np.arange(np.prod(shape), dtype=dtype).reshape(shape) / shape[0]


@pytest.mark.parametrize(
    "threshold", ["data_parallel_threshold", "column_slice_threshold", "row_slice_threshold"]
)
@pytest.mark.parametrize("table", [keras.layers.Embedding, keras_sparse.layers.Embedding])
def test_an_own_initializer_sees_the_whole_table(threshold, table):
    start = {"embeddings_initializer": rows_by_shape}
    layer = DistributedEmbedding([table(ROWS, 8, **start), table(9, 4, **start)], **{threshold: 60})
    rows = layer([tf.range(ROWS), tf.range(9)])
    np.testing.assert_array_equal(rows[0], rows_by_shape((ROWS, 8), "float32"))
    np.testing.assert_array_equal(rows[1], rows_by_shape((9, 4), "float32"))


@pytest.mark.skipif(ksd.size() == 1, reason="one rank asks no other")
@pytest.mark.parametrize("refusing", [LAST, 0])
def test_replies_of_too_many_words_are_an_error_on_all(refusing):
    if refusing == 0 and ksd.size() == 2:
        pytest.skip("what one rank sends two others get")
    layer = DistributedEmbedding([keras_sparse.layers.Embedding(None, 2**20, name="wide")])
    most = 2**11  # rows of 2^31 floats
    if refusing == LAST:  # which gets too much of all others
        asked = range(LAST) if ksd.rank() == LAST else []
        keys = [ksd.size() * np.arange(most // LAST + 1) + each for each in asked]
    else:  # which sends too much to all others
        keys = [ksd.size() * np.arange(most // LAST + 1)]
    wanted = rf"\[rank {refusing} of \d\] a rank may send others fewer than 2\^31 words"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=wanted):
        layer([tf.constant(np.concatenate([[0], *keys]))])


@pytest.mark.parametrize("combiner", [None, "mean"])
@pytest.mark.parametrize("threshold", [None, "column_slice_threshold", "row_slice_threshold"])
def test_padding_is_nothing_on_any_rank(threshold, combiner):
    options = [(ROWS, 8), (None, 4)]
    make = functools.partial(keras_sparse.layers.Embedding, combiner=combiner, padding_id=-1)
    ids = np.random.default_rng(ksd.rank()).integers(-1, ROWS, (6, 3))
    ids[0] = -1
    layer = DistributedEmbedding(
        [make(*each, seed=i) for i, each in enumerate(options)],
        **({threshold: 60} if threshold else {}),
    )
    outputs = layer([ids, ids])
    for i, (each, found) in enumerate(zip(options, outputs, strict=True)):
        np.testing.assert_allclose(found, make(*each, seed=i)(ids), rtol=1e-6)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1))
    with tf.GradientTape() as tape:
        loss = tf.add_n([tf.reduce_sum(each) for each in layer([ids, ids])])
    optimizer.apply(tape.gradient(loss, layer.trainable_variables), layer.trainable_variables)
    keys = {key for table in layer.tables for keys, _ in table.export() for key in keys}
    assert keys <= set(range(ROWS))
    for table in layer.templates.names:
        assert layer.contains([-1, 3], table=table)[0] == np.False_
        found = layer.find([3, -1], table=table)
        assert not found.exist[1]
        assert not found.rows[1].any()
        with pytest.raises(ValueError, match="must not have the layer's padding_id=-1"):
            layer.assign([3, -1], np.zeros((2, found.rows.shape[1])), table=table)
    if ksd.size() > 1:
        with pytest.raises(ValueError, match="on all ranks with the same `keys`"):
            layer.find([-1] * (1 + (ksd.rank() == 0)), table=layer.templates.names[1])
