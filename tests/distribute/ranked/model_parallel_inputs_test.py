import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.native import library
from pairwise import each_pair

LAST = ksd.size() - 1
ROWS = 9
WIDTH = 1  # so that no table is cut by columns
BATCH = 12  # of 2, 3 and 4 ranks


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


def test_any_number_of_ranks_takes_the_same_inputs():
    layer = layer_of()
    with pytest.raises(ValueError, match="must give one vector per sample"):
        layer(own_inputs(layer, tf.zeros((BATCH, 1), tf.int64)))
    with pytest.raises(ValueError, match="must give one vector per sample"):
        layer(own_inputs(layer, tf.ragged.constant([[1]] * BATCH)))


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


@pytest.mark.parametrize(
    ("num_tables", "sizes", "words"),
    [
        (1, [BATCH + 1], r"\[rank 0 of {n}\] The batch of dp_input=False is not divisible by"),
        (
            2 * ksd.size(),
            [BATCH, 2 * BATCH if ksd.rank() == LAST else BATCH],
            r"\[rank {last} of {n}\] every input .*: 12 of one input and 24 of another",
        ),
    ],
)
def test_batches_that_ranks_cannot_share_are_an_error_on_all(num_tables, sizes, words):
    lookup = with_unknown_size(layer := layer_of(num_tables))
    sizes = sizes[: len(layer.own_inputs)]
    with pytest.raises(tf.errors.InvalidArgumentError, match=words.format(last=LAST, n=ksd.size())):
        lookup([tf.zeros((size,), tf.int64) for size in sizes])


@each_pair(make=[lambda layer: layer, tf.function], bad=[-1, ROWS, 2**40], combiner=[None, "sum"])
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


@pytest.mark.skipif(ksd.size() == 1, reason="one rank sends nothing")
def test_too_much_for_one_exchange_is_an_error_on_all(monkeypatch):
    layer = layer_of()
    num_samples = BATCH * (2**12 // BATCH + 1)
    ids = own_inputs(layer, tf.zeros((num_samples,), tf.int64))
    layer(ids)
    serve = library.lib.keras_sparse_serve_samples

    def serve_wide_rows(layout, **arguments):  # as they are said to be: there is no memory for such
        layout = list(layout)
        for first in range(2, len(layout), 8):  # of each table, which has one slice
            layout[first + 1] = layout[first + 7] = 2**20
        return serve(layout=layout, **arguments)

    if ksd.rank() == LAST:
        monkeypatch.setattr(library.lib, "keras_sparse_serve_samples", serve_wide_rows)
    wanted = rf"\[rank {LAST} of {LAST + 1}\] a rank may send others fewer than 2\^31"
    with pytest.raises(tf.errors.ResourceExhaustedError, match=wanted):
        layer(ids)
