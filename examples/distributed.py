"""Trains a model on many ranks: its tables spread over them, the rest of it on each.

    python examples/distributed.py                           # one process, without Horovod
    horovodrun --gloo -np 2 python examples/distributed.py   # the same training on two ranks

The data is made up: who clicked on what. Any number of ranks gives the same losses but for
rounding; what differs is the plan that is printed first.
"""

import argparse

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd

NUM_USERS, NUM_ITEMS, NUM_COUNTRIES, NUM_TAGS = 500, 300, 20, 50


def make_clicks(num_samples):
    """Returns features and labels, the same ones on each rank."""
    rng = np.random.default_rng(0)
    user, item = rng.integers(0, NUM_USERS, num_samples), rng.integers(0, NUM_ITEMS, num_samples)
    keys = rng.integers(-(2**63), 2**63 - 1, (2, 500))  # such as hashes of their names
    tags = tf.ragged.constant(
        [rng.choice(NUM_TAGS, rng.integers(0, 5), replace=False) for _ in range(NUM_ITEMS)],
        dtype=tf.int64,
    )
    features = {
        "user": keys[0, user],
        "item": keys[1, item],
        "country": user % NUM_COUNTRIES,
        "tags": tf.gather(tags, item),
    }
    chance = 0.1 + 0.5 * (item % 3 == 0) + 0.3 * (user % NUM_COUNTRIES < 5)
    return features, (rng.random(num_samples) < chance).astype("float32")


def make_model():
    """Returns a model with dynamic tables, a static one, and one of which ids are averaged."""
    inputs = {name: keras.Input((), dtype="int64", name=name) for name in ("user", "item")}
    inputs["country"] = keras.Input((), dtype="int64", name="country")
    inputs["tags"] = keras.Input((None,), dtype="int64", ragged=True, name="tags")
    tables = keras_sparse.layers.DistributedEmbedding(
        {
            "user": keras_sparse.layers.Embedding(None, 16),
            "item": keras_sparse.layers.Embedding(None, 16),
            "country": keras.layers.Embedding(NUM_COUNTRIES, 8),
            "tags": keras_sparse.layers.Embedding(NUM_TAGS, 16, combiner="mean"),
        },
        strategy="memory_balanced",
        data_parallel_threshold=NUM_COUNTRIES * 8,
        output_mode="concat",
        name="tables",
    )
    hidden = keras.layers.Dense(32, activation="relu")(tables(inputs))
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(hidden))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=20_000, help="made up, a tenth for the test")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=256, help="of all ranks together")
    options = parser.parse_args(arguments)

    ksd.init()
    is_first = ksd.rank() == 0  # the only rank that prints
    keras.utils.set_random_seed(0)  # the same weights and the same order of samples on all ranks

    clicks = tf.data.Dataset.from_tensor_slices(make_clicks(options.samples))
    num_train = options.samples * 9 // 10
    # Here the batches are those of one process; each rank takes its part of them.
    train = clicks.take(num_train).shuffle(num_train, seed=0).batch(options.batch_size)
    train = ksd.shard(train, weigh_samples=True).prefetch(2)
    test = ksd.shard(clicks.skip(num_train).batch(options.batch_size))

    model = make_model()
    if is_first:
        model.get_layer("tables").plan.print()
    model.compile(
        ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1)),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    model.fit(
        train,
        epochs=options.epochs,
        shuffle=False,  # the dataset is shuffled already
        callbacks=[ksd.MetricAverage(), keras_sparse.callbacks.BroadcastGlobalVariables()],
        verbose=2 if is_first else 0,
    )
    model.evaluate(test, verbose=0)
    metrics = ksd.average_metrics(model)  # of the whole test, on each rank
    if is_first:
        print(f"Test: loss {metrics['loss']:.4f}, AUC {metrics['auc']:.4f}")
    return metrics


if __name__ == "__main__":
    main()
