"""SparseOperationKit's layers over ranks: the training of one process with the whole batch."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import Embedding
from stages import until_used

BATCH, SLOTS, STEPS = 12, 3, 20
MOST_KEYS = 20  # of a rank
FIRST_KEY = -15


def own_samples():
    """Ranks pass different numbers of samples, and the last one none."""
    bounds = np.linspace(0, BATCH, ksd.size(), dtype=int)  # one part less than ranks
    bounds = [*bounds, BATCH]
    return slice(bounds[ksd.rank()], bounds[ksd.rank() + 1])


def batches(first_key, samples, num_steps=STEPS):
    random = np.random.default_rng(3)
    for _ in range(num_steps):
        keys = first_key + random.integers(0, MOST_KEYS, (BATCH, SLOTS, 2))
        labels = random.normal(size=(BATCH, 1)).astype("float32")
        yield keys[samples], labels[samples]


def model_of(dense, sparse, optimizer, loss_weight=1.0):
    keys = keras.Input((SLOTS, 2), dtype="int64")
    both = keras.layers.Concatenate()([keras.ops.max(dense(keys), 2), sparse(keys)])
    outputs = keras.layers.Flatten()(both)
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.1))(outputs)
    model = keras.Model(keys, outputs)
    loss = keras.losses.MeanSquaredError("sum")
    model.compile(optimizer, loss=loss, loss_weights=[loss_weight])
    return model


def plain_model(optimizer, input_dim):
    # Of names that Keras does not count, as one rank alone makes them.
    dense = Embedding(input_dim, 4, seed=1, name="dense_rows")
    sparse = Embedding(input_dim, 3, "mean", seed=2, name="sparse_rows")
    # Gradients are averaged over ranks.
    return model_of(dense, sparse, optimizer, 1 / ksd.size())


def spread_model(optimizer, use_hashtable, **options):
    options |= {"slot_num": SLOTS, "use_hashtable": use_hashtable}
    dense = All2AllDenseEmbedding(MOST_KEYS, 4, nnz_per_slot=2, seed=1, **options)
    sparse = All2AllSparseEmbedding("mean", MOST_KEYS, 3, max_nnz=2, seed=2, **options)
    return model_of(dense, sparse, ksd.DistributedOptimizer(optimizer)), (dense, sparse)


@pytest.mark.parametrize(
    ("name", "use_hashtable"), [("SGD", False), ("Adam", True), ("LazyAdam", False)]
)
def test_two_layers_train_like_one_process_for_many_steps(name, use_hashtable):
    make = getattr(keras_sparse.optimizers, name)
    first_key = FIRST_KEY if use_hashtable else 0
    model, layers = spread_model(make(0.01), use_hashtable)
    for own in batches(first_key, own_samples()):
        model.train_on_batch(*own)
    expected = None
    if ksd.rank() == 0:  # all would do the same
        plain = plain_model(make(0.01), None if use_hashtable else MOST_KEYS * ksd.size())
        for whole in batches(first_key, slice(None)):
            plain.train_on_batch(*whole)
        assert int(plain.optimizer.iterations) == STEPS
        expected = plain.predict_on_batch(whole[0])
    expected = broadcast_object(expected, 0, "expected")[own_samples()]
    np.testing.assert_allclose(model.predict_on_batch(own[0]), expected, atol=2e-5)
    if use_hashtable:
        for layer in layers:
            (table,) = (each for each in layer.tables if each.name == "embeddings")
            keys = np.concatenate([keys for keys, _ in table.export()])
            assert len(keys) > 0
            assert set(keys % ksd.size()) == {ksd.rank()}, "as many as the remainder says"
    assert int(model.optimizer.iterations) == STEPS


def test_fit_and_prefetch_reach_the_same_rows():
    num_steps = 10
    own = list(batches(FIRST_KEY, slice(ksd.rank(), None, ksd.size()), num_steps))
    keys, labels = (np.concatenate(each) for each in zip(*own, strict=True))
    dataset = tf.data.Dataset.from_tensor_slices((keys, labels)).batch(BATCH // ksd.size())

    def train(patience):
        rows = []
        for mode in (None, "exact"):
            model, layers = spread_model(keras_sparse.optimizers.Adagrad(0.1), True)
            data = dataset
            if mode is not None:
                data = keras_sparse.data.prefetch_lookups(dataset, model, capacity=2, mode=mode)
            model.fit(data, shuffle=False, verbose=0, callbacks=[patience])
            stats = [layer.stats()["embeddings"]["prefetch"] for layer in layers]
            rows.append(model.predict(keys, batch_size=len(keys), verbose=0))
        np.testing.assert_array_equal(rows[1], rows[0])
        assert [each["staged"] for each in stats] == [num_steps] * len(layers)
        assert [each["used"] + each["missed"] for each in stats] == [num_steps] * len(layers)
        return all(each["used"] > 0 for each in stats)

    until_used(train)


def test_dynamic_input_takes_any_number_of_keys_on_each_rank():
    layer = All2AllDenseEmbedding(9, 2, 1, 1, dynamic_input=True, seed=1)
    alone = Embedding(None, 2, seed=1)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(1.0))
    optimizer_alone = keras_sparse.optimizers.SGD(1.0)
    for step in range(5):
        counts = [(rank + step) % 3 * 2 for rank in range(ksd.size())]
        random = np.random.default_rng(step)
        keys = [random.integers(-4, 5, count) for count in counts]
        own = tf.constant(keys[ksd.rank()], tf.int64)
        for table, ids, each in [
            (layer, own, optimizer),
            (alone, tf.constant(np.concatenate(keys), tf.int64), optimizer_alone),
        ]:
            with tf.GradientTape() as tape:
                rows = table(ids)
                # Gradients are averaged over ranks.
                loss = tf.reduce_sum(rows) / (1 if each is optimizer else ksd.size())
            variables = table.trainable_variables
            each.apply(tape.gradient(loss, variables), variables)
    every = tf.range(-4, 5, dtype=tf.int64)
    np.testing.assert_allclose(layer(every), alone(every), atol=1e-6)


def test_a_key_beyond_the_range_of_indexes_is_an_error_on_all_ranks():
    layer = All2AllDenseEmbedding(4, 2, 1, 1, dynamic_input=True, use_hashtable=False)
    last = 4 * ksd.size() - 1
    assert layer(tf.constant([0, last])).shape == (2, 2)
    wrong = last + 1 if ksd.rank() == 0 else 0
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\[0, {last + 1}\)"):
        layer(tf.constant([0, wrong]))


def test_any_key_reads_as_in_one_process_and_reading_makes_no_row():
    keys = tf.constant([[-(2**63), 2**63 - 1], [0, -1], [2**40, 7]])[tf.newaxis]
    _, (dense, sparse) = spread_model(keras_sparse.optimizers.SGD(0.1), True)
    np.testing.assert_array_equal(dense(keys), Embedding(None, 4, seed=1)(keys))
    pooled = Embedding(None, 3, "mean", seed=2)(keys)
    np.testing.assert_allclose(sparse(keys), pooled, atol=1e-7)
    for layer in (dense, sparse):
        assert [each["rows"] for each in layer.stats().values()] == [0]


def test_a_config_of_indexes_keeps_its_rows_on_another_number_of_ranks():
    num_rows = 12 * ksd.size()
    for use_hashtable, most_keys in ((False, 12), (True, num_rows)):
        layer = All2AllDenseEmbedding(num_rows, 2, 1, 1, use_hashtable=use_hashtable)
        again = All2AllDenseEmbedding.from_config({**layer.get_config(), "num_ranks": 1})
        expected = {**layer.get_config(), "max_vocabulary_size_per_gpu": most_keys}
        assert again.get_config() == expected


def test_a_config_of_indexes_that_the_ranks_do_not_divide_is_an_error():
    layer = All2AllDenseEmbedding(ksd.size() + 1, 2, 1, 1, use_hashtable=False)
    words = rf"must run on a number of ranks that divides.*{ksd.size() + 1} rows"
    with pytest.raises(ValueError, match=words):
        All2AllDenseEmbedding.from_config({**layer.get_config(), "num_ranks": 1})
