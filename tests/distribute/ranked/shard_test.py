import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives


def parts_of(dataset):
    """All ranks' parts of each batch: a list of batches, each a list of arrays."""
    mine = [np.asarray(part) for part in ksd.shard(dataset)]
    return list(zip(*collectives.gather_objects(mine, "parts"), strict=True))


@pytest.mark.parametrize("batch_size", [1, 3, 4, 7])
def test_takes_every_sample_once_and_as_many_steps_on_every_rank(batch_size):
    dataset = tf.data.Dataset.range(23).batch(batch_size)
    batches = parts_of(dataset)
    assert len(batches) == len(dataset) == len(ksd.shard(dataset))
    np.testing.assert_array_equal(np.concatenate([np.concatenate(b) for b in batches]), range(23))
    for batch in batches:
        lengths = [len(part) for part in batch]
        assert max(lengths) - min(lengths) <= 1


def test_takes_parts_of_all_that_fit_takes():
    rows = tf.RaggedTensor.from_row_lengths(tf.range(15, dtype=tf.int64), [0, 1, 2, 3, 4, 5])
    batch = (
        {
            "dense": tf.reshape(tf.range(12.0), (6, 2)),
            "ragged": rows,
            "short": rows.with_row_splits_dtype(tf.int32),
            "sparse": rows.to_sparse(),
        },
        tf.range(6),
    )
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(6).repeat(2)
    begin, end = (r * 6 // ksd.size() for r in (ksd.rank(), ksd.rank() + 1))
    for x, y in ksd.shard(dataset):
        np.testing.assert_array_equal(x["dense"], batch[0]["dense"][begin:end])
        assert x["ragged"].to_list() == x["short"].to_list() == rows[begin:end].to_list()
        assert type(x["sparse"]) is tf.SparseTensor
        expected = tf.sparse.to_dense(batch[0]["sparse"], -1)[begin:end]
        np.testing.assert_array_equal(tf.sparse.to_dense(x["sparse"], -1), expected)
        np.testing.assert_array_equal(y, range(begin, end))


def test_keeps_shapes_that_are_known():
    dataset = tf.data.Dataset.from_tensors(tf.zeros((12, 5))).repeat(3)
    assert ksd.shard(dataset).element_spec.shape == (12 // ksd.size(), 5)
    assert ksd.shard(dataset.unbatch().batch(12)).element_spec.shape.as_list() == (
        [None, 5]  # the last batch may be shorter
    )


@pytest.mark.parametrize("batch_size", [1, 3, 8])
def test_weights_make_the_average_of_losses_that_of_the_batch(batch_size):
    rng = np.random.default_rng(5)
    x, y, weights = rng.random((8, 3)), rng.random((8, 1)), rng.random(8)
    loss = keras.losses.MeanSquaredError()
    for arrays in [(x, y), (x, y, weights)]:
        whole = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
        for batch, part in zip(whole, ksd.shard(whole, weigh_samples=True), strict=True):
            of_part = loss(part[1], part[0][:, :1], *part[2:]) if len(part[0]) else tf.constant(0.0)
            (mean,) = collectives.average_of([tf.cast(of_part, tf.float32)], "loss")
            expected = loss(batch[1], batch[0][:, :1], *batch[2:])
            np.testing.assert_allclose(mean, expected, rtol=1e-5)


@pytest.mark.parametrize(("drop_remainder", "eagerly"), [(False, True), (True, False)])
def test_fit_and_evaluate_take_steps_without_samples(drop_remainder, eagerly):
    ids = keras.Input((2,), dtype="int64")
    rows = keras_sparse.layers.Embedding(5, 3, combiner="sum")(ids)
    model = keras.Model(ids, keras.layers.Dense(1)(rows))
    optimizer = keras_sparse.optimizers.Adam()
    model.compile(optimizer, "mse", metrics=["mae", "auc"], run_eagerly=eagerly)
    dataset = tf.data.Dataset.from_tensor_slices((np.ones((3, 2), np.int64), np.ones((3, 1))))
    parts = ksd.shard(dataset.batch(1, drop_remainder), weigh_samples=True)
    history = model.fit(parts, epochs=2, shuffle=False, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    assert all(np.isfinite(each).all() for each in model.get_weights())
    assert np.isfinite(model.evaluate(parts, verbose=0)).all()
    assert int(optimizer.iterations) == 6


def test_refuses_what_has_no_samples():
    with pytest.raises(TypeError, match=r"`dataset` must be a `tf\.data\.Dataset` of batches"):
        ksd.shard([1, 2])
    dataset = tf.data.Dataset.range(4)
    with pytest.raises(ValueError, match=r"\(x, y\) or \(x, y, sample_weight\)"):
        ksd.shard(dataset.batch(2), weigh_samples=True)


def test_weights_are_there_on_any_number_of_ranks():
    dataset = tf.data.Dataset.from_tensor_slices((tf.range(4), tf.range(4))).batch(4)
    ((x, y, weights),) = ksd.shard(dataset, weigh_samples=True)
    assert x.shape == y.shape == weights.shape
    np.testing.assert_allclose(weights, ksd.size() * len(x) / 4)


@pytest.mark.skipif(ksd.size() == 1, reason="one rank takes batches as they are")
def test_refuses_components_of_different_lengths():
    dataset = tf.data.Dataset.range(4)
    with pytest.raises(ValueError, match=r"\[rank \d of \d\] Every component .* axis of samples"):
        ksd.shard(dataset)
    known = tf.data.Dataset.from_tensors((tf.zeros(4), tf.zeros(3)))
    with pytest.raises(ValueError, match="All components of a batch must have the same number"):
        ksd.shard(known)
    unknown = tf.data.Dataset.zip(
        tf.data.Dataset.range(12).batch(4), tf.data.Dataset.range(9).batch(3)
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[rank \d of \d\] All components"):
        list(ksd.shard(unknown))
