"""The tokens of keys, the same on all ranks."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import IntegerLookup
from prefetch_on_ranks import assert_same
from prefetch_on_ranks import state_of


def vocabulary_of_all(layer):
    """The vocabulary, after a check that it is that of every rank."""
    of_ranks = gather_objects(layer.get_vocabulary(), "vocabulary")
    assert all(each == of_ranks[0] for each in of_ranks)
    return of_ranks[0]


def test_new_keys_of_all_ranks_get_tokens_in_the_order_of_ranks():
    layer = IntegerLookup(2 * ksd.size() + 1)
    mine = 10 * ksd.rank()
    tokens = layer([99, mine, 99, mine + 1, mine], training=True)
    expected = [-1, 99, *(10 * r + i for r in range(ksd.size()) for i in range(2))]
    assert vocabulary_of_all(layer) == expected
    np.testing.assert_array_equal(
        tokens, [expected.index(key) for key in (99, mine, 99, mine + 1, mine)]
    )
    assert layer.counts.sum() == 5  # this rank's own
    np.testing.assert_array_equal(layer([99, mine, 1000]), [1, tokens[1], 0])


def test_ranks_without_a_key_and_full_vocabularies_take_part():
    layer = IntegerLookup(3)
    keys = tf.range(4 * ksd.rank(), dtype=tf.int64)  # none on rank 0
    layer(keys, training=True)
    layer(keys + 100, training=True)
    assert len(vocabulary_of_all(layer)) == (1 if ksd.size() == 1 else 4)


def test_a_model_of_two_lookups_trains_for_many_steps():
    keras.utils.set_random_seed(1)
    ids = [keras.Input((2,), dtype="int64") for _ in range(2)]
    shared, other = IntegerLookup(40), IntegerLookup(60)
    tokens = [shared(ids[0]), shared(ids[1]), other(ids[0])]
    layers = [Embedding(61, 4, "sum", seed=i) for i in range(3)]
    rows = keras.layers.Concatenate()(DistributedEmbedding(layers)(tokens))
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer="ones")(rows))
    model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.05)), loss="mse")
    random = np.random.default_rng(ksd.rank())
    inputs = [random.integers(0, 90, (240, 2)) for _ in range(2)]
    history = model.fit(inputs, np.ones((240, 1)), 8, 3, 0, shuffle=False).history["loss"]
    assert history[-1] < history[0]
    assert len(vocabulary_of_all(shared)) == 41
    assert len(vocabulary_of_all(other)) == 61
    assert shared.counts.sum() == 2 * other.counts.sum() == 2 * 3 * 480


def test_ranks_may_have_made_other_layers_before():
    if ksd.rank() == 0:
        IntegerLookup(5)  # after it Keras gives the next one another name than on other ranks
    layer = IntegerLookup(9)
    add = tf.function(lambda keys: layer(keys, training=True))
    for keys in ([3, 4], [4, 3], [5, 5]):
        add(tf.constant(keys, tf.int64) + ksd.rank())
    ranks = range(ksd.size())
    in_order = [key + r for keys in ([3, 4], [5]) for r in ranks for key in keys]
    assert vocabulary_of_all(layer) == [-1, *dict.fromkeys(in_order)][:10]


def test_a_vocabulary_of_one_rank_is_broadcast_before_training():
    ids = keras.Input((2,), dtype="int64")
    tokens = IntegerLookup(9, name="lookup")(ids)
    rows = DistributedEmbedding([Embedding(10, 4, "sum", seed=1)])([tokens])[0]
    model = keras.Model(ids, keras.layers.Dense(1)(rows))
    model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.SGD(0.1)), loss="mse")
    layer = model.get_layer("lookup")
    if ksd.rank() == 0:  # as if it alone had loaded a file
        layer.set_vocabulary([-1, 70, 80])
    callback = keras_sparse.callbacks.BroadcastGlobalVariables(0)
    inputs = np.array([[80, 7], [8, 7]])
    model.fit(inputs, np.ones((2, 1)), 2, verbose=0, shuffle=False, callbacks=[callback])
    assert vocabulary_of_all(layer) == [-1, 70, 80, 7, 8]


def make_model(seed=1):
    ids = keras.Input((2,), dtype="int64")
    tokens = IntegerLookup(400, name="lookup")(ids)
    rows = DistributedEmbedding([Embedding(401, 4, "sum", seed=seed)])([tokens])[0]
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer="ones")(rows))
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    model.optimizer.build(model.trainable_variables)
    return model


def fit_part(model, part):
    random = np.random.default_rng(ksd.rank())
    ids, targets = random.integers(0, 200, (48, 2)) * (2**40 + 1), random.normal(size=(48, 1))
    for batch in zip(np.split(ids[part], 6), np.split(targets[part], 6), strict=True):
        model.train_on_batch(*batch)


def test_training_goes_on_from_a_file_with_its_tokens(folder):
    model, other = make_model(), make_model(seed=5)
    fit_part(model, slice(24))
    lookup = model.get_layer("lookup")
    vocabulary, counts = vocabulary_of_all(lookup), gather_objects(lookup.counts.tolist(), "counts")
    keras_sparse.saving.save_checkpoint(model, folder / "a", verbose=False)
    model.save_weights(folder / "a.weights.h5")
    model.save(folder / "a.keras")
    fit_part(model, slice(24, None))
    for form in ("checkpoint", "weights", "keras"):
        if form == "checkpoint":
            keras_sparse.saving.load_checkpoint(other, folder / "a", verbose=False)
        elif form == "weights":
            other.load_weights(folder / "a.weights.h5")
        else:
            other = keras.models.load_model(folder / "a.keras")
        loaded = other.get_layer("lookup")
        assert vocabulary_of_all(loaded) == vocabulary
        assert loaded.counts.tolist() == counts[0], "those of rank 0"
        fit_part(other, slice(24, None))
        assert len(vocabulary_of_all(loaded)) > len(vocabulary)
        assert vocabulary_of_all(loaded) == vocabulary_of_all(lookup)
        assert_same(other, state_of(model))
