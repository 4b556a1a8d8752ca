import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.exchange import model_parallel_exchange
from keras_sparse.layers import DistributedEmbedding

LAST = ksd.size() - 1
ROWS = 9
WIDTH = 1  # so that no table is cut by columns
BATCH = 12  # of 2, 3 and 4 ranks

several_ranks = pytest.mark.skipif(ksd.size() == 1, reason="one rank agrees with itself")


def table(start="ones", combiner=None, **options):
    return keras_sparse.layers.Embedding(
        ROWS, WIDTH, combiner, embeddings_initializer=start, **options
    )


def layer_of(num_tables=None, **options):
    """A layer with one table a rank, unless told otherwise."""
    num_tables = num_tables or ksd.size()
    return DistributedEmbedding(
        [table(**options) for _ in range(num_tables)], strategy="basic", dp_input=False
    )


def own_inputs(layer, whole):
    """Those of a whole batch that this rank passes, where all inputs are the same."""
    return [whole] * len(layer.own_inputs)


def own_part(values):
    part = len(values) // ksd.size()
    return values[part * ksd.rank() : part * (ksd.rank() + 1)]


def with_unknown_size(layer):
    """The layer inside a function that is traced for any batch, and then for no other one."""
    spec = [tf.TensorSpec((None,), tf.int64)] * len(layer.own_inputs)
    return tf.function(layer, input_signature=[spec])


# Whether each table is trained: by all ranks, by one of them, with ranks that have no table at all.
@pytest.mark.parametrize(
    "trained", [[True], [False, True], [True, False], [False, False, False, True]]
)
@pytest.mark.parametrize("tape_in_function", [False, True])
def test_a_rank_that_trains_nothing_sends_its_gradients(trained, tape_in_function):
    layer = DistributedEmbedding(
        [table("zeros", trainable=each) for each in trained], strategy="basic", dp_input=False
    )
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    ids = np.arange(BATCH) % 5

    def step(inputs):
        with tf.GradientTape() as tape:
            # The mean over ranks is the sum over all samples.
            loss = ksd.size() * tf.add_n([tf.reduce_sum(each) for each in lookup(inputs)])
        variables = layer.trainable_variables
        optimizer.apply(tape.gradient(loss, variables), variables)

    lookup = layer if tape_in_function else tf.function(layer)
    step = tf.function(step) if tape_in_function else step
    for _ in range(2):
        step(own_inputs(layer, tf.constant(ids)))
    moved = -2.0 * np.bincount(ids, minlength=ROWS)[:, np.newaxis]
    for rows, is_trained in zip(layer.get_weights(all_ranks=True), trained, strict=True):
        np.testing.assert_allclose(rows, np.broadcast_to(moved * is_trained, (ROWS, WIDTH)))


def batches():
    """Whole batches: the ids of each table, and what is wanted."""
    ids = np.random.default_rng(0).integers(0, ROWS, (4, ksd.size(), BATCH, 3))
    return ids, np.cos(ids.sum((1, 3))[..., np.newaxis]).astype(np.float32)


def tables():
    start = keras.initializers.RandomUniform
    return [table(start(seed=i), "mean") for i in range(ksd.size())]


def head():
    return keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotUniform(seed=1))


def rows_of_one_process():
    layers, model_head = tables(), head()
    optimizer = keras_sparse.optimizers.Adagrad(0.1)
    for ids, wanted in zip(*batches(), strict=True):
        with tf.GradientTape() as tape:
            pooled = [layer(each) for layer, each in zip(layers, ids, strict=True)]
            loss = tf.reduce_mean((model_head(tf.concat(pooled, axis=1)) - wanted) ** 2)
        variables = [v for layer in [*layers, model_head] for v in layer.trainable_variables]
        optimizer.apply(tape.gradient(loss, variables), variables)
    return [np.asarray(layer(tf.range(ROWS)[:, tf.newaxis])) for layer in layers]


def test_a_functional_model_fits_like_one_process():
    layer = DistributedEmbedding(tables(), strategy="basic", dp_input=False)
    inputs = [keras.Input((3,), dtype="int64") for _ in layer.own_inputs]
    model = keras.Model(inputs, head()(keras.layers.Concatenate()(layer(inputs))))
    model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1)), loss="mse")
    ids, wanted = batches()
    own = tuple(ids[:, i] for i in layer.own_inputs)
    wanted = np.stack([own_part(each) for each in wanted])
    model.fit(tf.data.Dataset.from_tensor_slices((own, wanted)), shuffle=False, verbose=0)
    expected = rows_of_one_process()
    for rows, theirs in zip(layer.get_weights(all_ranks=True), expected, strict=True):
        np.testing.assert_allclose(rows, theirs, atol=2e-6)


def test_rows_have_the_weights_of_their_ids():
    layer = layer_of()
    weights = np.arange(BATCH, dtype=np.float32)
    rows = layer(
        own_inputs(layer, tf.zeros((BATCH,), tf.int64)), own_inputs(layer, tf.constant(weights))
    )
    for each in rows:
        np.testing.assert_allclose(each, np.repeat(own_part(weights)[:, np.newaxis], WIDTH, axis=1))


def test_any_number_of_ranks_takes_the_same_inputs():
    layer = layer_of()
    with pytest.raises(ValueError, match="must give one vector a sample"):
        layer(own_inputs(layer, tf.zeros((BATCH, 1), tf.int64)))
    with pytest.raises(ValueError, match="must give one vector a sample"):
        layer(own_inputs(layer, tf.ragged.constant([[1]] * BATCH)))


@several_ranks
@pytest.mark.parametrize("make", [lambda layer: layer, tf.function, with_unknown_size])
@pytest.mark.parametrize("num_tables", [None, 1])
def test_another_batch_on_one_rank_is_an_error_on_all_and_then_they_go_on(make, num_tables):
    layer = layer_of(num_tables)
    lookup = make(layer)
    size = 2 * BATCH if ksd.rank() == LAST else BATCH
    ids = own_inputs(layer, tf.zeros((size,), tf.int64))
    if num_tables == 1:  # the others have no batch of their own that might differ
        assert lookup(ids)[0].shape == (BATCH // ksd.size(), WIDTH)
        return
    both = rf"\[rank {LAST} of {LAST + 1}\] .*Received: 24 samples, and 12 on rank 0"
    with pytest.raises(tf.errors.InvalidArgumentError, match=both):
        lookup(ids)
    good = lookup(own_inputs(layer, tf.zeros((BATCH,), tf.int64)))
    np.testing.assert_array_equal(good[0], np.ones((BATCH // ksd.size(), WIDTH)))


@several_ranks
def test_a_batch_that_ranks_cannot_share_is_an_error_on_all():
    lookup = with_unknown_size(layer := layer_of(1))
    wanted = rf"\[rank 0 of {LAST + 1}\] The batch of dp_input=False is not divisible by"
    with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
        lookup(own_inputs(layer, tf.zeros((BATCH + 1,), tf.int64)))


@several_ranks
def test_inputs_of_different_sizes_on_one_rank_are_an_error_on_all():
    lookup = with_unknown_size(layer := layer_of(2 * ksd.size()))
    sizes = [BATCH, 2 * BATCH if ksd.rank() == LAST else BATCH]
    assert len(layer.own_inputs) == 2
    wanted = rf"\[rank {LAST} of {LAST + 1}\] every input .*: 12 of one input and 24 of another"
    with pytest.raises(tf.errors.InvalidArgumentError, match=wanted):
        lookup([tf.zeros((size,), tf.int64) for size in sizes])


@pytest.mark.parametrize("make", [lambda layer: layer, tf.function])
@pytest.mark.parametrize("bad", [-1, ROWS, 2**40])
@pytest.mark.parametrize("combiner", [None, "sum"])
def test_a_bad_id_on_one_rank_is_an_error_on_all_and_then_they_go_on(make, bad, combiner):
    lookup = make(layer := layer_of(combiner=combiner))
    ids = np.full((BATCH,) if combiner is None else (BATCH, 2), 3)
    ids.flat[7] = bad if ksd.rank() == LAST else 3
    named = rf"\[rank {LAST} of {LAST + 1}\] " if ksd.size() > 1 else ""
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"{named}id must be in \[0, 9\).* {bad}\b"
    ):
        lookup(own_inputs(layer, tf.constant(ids)))
    good = lookup(own_inputs(layer, tf.fill(ids.shape, tf.constant(3, tf.int64))))
    np.testing.assert_array_equal(good[0], np.full((BATCH // ksd.size(), WIDTH), ids[0].size))


def test_ids_outside_may_read_as_zeros():
    layer = layer_of(out_of_range="zero")
    rows = layer(own_inputs(layer, tf.constant([-1, 3] * (BATCH // 2))))
    expected = own_part(np.array([[0], [1]] * (BATCH // 2)))
    np.testing.assert_array_equal(rows[0], expected)


@several_ranks
def test_too_much_for_one_exchange_is_an_error_on_all(monkeypatch):
    layer = layer_of()
    ids = own_inputs(layer, tf.zeros((BATCH,), tf.int64))
    layer(ids)
    if ksd.rank() == LAST:
        monkeypatch.setattr(model_parallel_exchange, "_MOST_WORDS", 9)
    wanted = rf"\[rank {LAST} of {LAST + 1}\] a rank may send others fewer than 2\^31"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=wanted):
        layer(ids)
