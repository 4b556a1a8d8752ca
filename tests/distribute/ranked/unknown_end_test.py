"""A step that finds its dataset at an end that was not known leaves no exchange open."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import SGD
from keras_sparse.optimizers.support.step_count import all_that_count

N, R = ksd.size(), ksd.rank()
NUM_STEPS = 3
BATCH = 2 * N


class Regularized(keras.Model):
    """Each rank has a part of the table's regularization, which needs no data."""

    def __init__(self):
        super().__init__()
        tables = [Embedding(50, 4, embeddings_regularizer="l2"), Embedding(60, 4)]
        self.spread = DistributedEmbedding(tables)
        self.head = keras.layers.Dense(1)

    def call(self, ids):
        return self.head(tf.concat(self.spread([ids, ids]), 1))

    def data(self):
        ids = np.arange(NUM_STEPS * BATCH)
        whole = tf.data.Dataset.from_tensor_slices((ids, np.cos(ids)[:, None])).batch(BATCH)
        return ksd.shard(without_end(whole))


class WithoutTable(keras.Model):
    """All ranks but one pass nothing to their layer."""

    def __init__(self):
        super().__init__()
        self.spread = DistributedEmbedding([Embedding(60, 1)], dp_input=False)
        self.spread.build()
        self.head = keras.layers.Dense(1)

    def call(self, x):
        numbers, ids = x
        return self.head(tf.concat([numbers, *self.spread(list(ids))], 1))

    def data(self):
        ids = np.arange(NUM_STEPS * BATCH)
        own = np.sin(ids).reshape(NUM_STEPS, BATCH, 1)[:, 2 * R : 2 * R + 2].astype("float32")
        own, whole = (
            tf.data.Dataset.from_tensor_slices(own),
            tf.data.Dataset.from_tensor_slices(ids.reshape(NUM_STEPS, BATCH)),
        )
        has_table = bool(self.spread.own_inputs)
        batches = tf.data.Dataset.zip(own, whole).map(
            lambda x, ids: ((x, (ids,) if has_table else ()), x)
        )
        return without_end(batches)


class SeveralOptimizers(Regularized):
    """Each optimizer has a table of one rank, and no variable on the others."""

    def __init__(self):
        keras.Model.__init__(self)
        tables = [Embedding(50, 4, name=f"table_{i}") for i in range(2)]
        self.spread = DistributedEmbedding(tables, column_slice_threshold=10_000)
        self.head = keras.layers.Dense(1)


def without_end(batches):
    return batches.filter(lambda *batch: True)


def several(rate):
    optimizers = {f"table_{i}": SGD(rate, gradient_accumulation_steps=2) for i in range(2)}
    others = keras_sparse.optimizers.Adagrad(rate, gradient_accumulation_steps=2)
    return keras_sparse.optimizers.MultiOptimizer({**optimizers, "others": others})


def fit(model):
    averaging, ends = ksd.MetricAverage(), []
    counting = keras.callbacks.LambdaCallback(
        on_train_batch_end=lambda batch, logs: ends.append(batch)
    )
    model.fit(model.data(), epochs=2, shuffle=False, verbose=0, callbacks=[averaging, counting])
    model.evaluate(model.data(), verbose=0, callbacks=[averaging])
    counts = [int(each._iterations) for each in all_that_count(model.optimizer)]
    assert counts == [len(ends)] * len(counts)
    return len(ends) / 2


def own_loop(model):
    """A function that takes its batch itself."""
    batches = iter(model.data())

    @tf.function
    def step():
        model.train_step(next(batches))

    number = 0
    try:
        while True:
            step()
            number += 1
    except tf.errors.OutOfRangeError:
        return number


@pytest.mark.filterwarnings("ignore:.*ran out of data")  # Keras says it of every such end
@pytest.mark.parametrize("train", [fit, own_loop])
@pytest.mark.parametrize(
    ("make_model", "make_optimizer"),
    [(Regularized, SGD), (WithoutTable, SGD), (SeveralOptimizers, several)],
)
def test_ends_with_the_data(make_model, make_optimizer, train):
    keras.utils.set_random_seed(0)
    model = make_model()
    model.compile(ksd.DistributedOptimizer(make_optimizer(0.1)), "mse")
    assert train(model) == NUM_STEPS
    assert collectives.gather_objects("here", "after the end") == ["here"] * N
