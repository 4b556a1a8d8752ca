"""Steps on tables of which each rank has a part, beside those of a rank that has all of them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import SGD
from pairwise import each_pair
from ranked_training import assert_close
from ranked_training import assert_same_on_all_ranks
from ranked_training import ColumnPart
from ranked_training import RowPart

IDS = [7, 0, 3, 7, 2]
ROWS = np.arange(96, dtype="float32").reshape(8, 12) / 100


def slices(random, width):
    values = tf.constant(random.normal(size=(len(IDS), width)).astype("float32"))
    return tf.IndexedSlices(values, tf.constant(IDS, tf.int64), tf.constant([8, width]))


def eager(function):
    return function


class Ranks:
    """Tables by rows, by columns, on one rank and on all; with a dense variable."""

    def __init__(self, optimizer):
        self.parts = [RowPart("a", ROWS), ColumnPart("b", ROWS)]
        if ksd.rank() == ksd.size() - 1:
            self.parts.append(ColumnPart("c", ROWS, num_slices=1))
        self.copy = keras_sparse.EmbeddingVariable(8, 2, initializer="zeros")
        self.kernel = keras.Variable([1.0, -1.0])
        self.optimizer = ksd.DistributedOptimizer(optimizer)

    def step(self, grads, of_copy, of_kernel):
        ours = [part.gradient(grad) for part, grad in zip(self.parts, grads, strict=False)]
        variables = [*(part.variable for part in self.parts), self.copy, self.kernel]
        # What ranks have of their own adds up to what one rank has.
        share = 2 * (ksd.rank() + 1) / (ksd.size() + 1)
        of_copy = tf.IndexedSlices(of_copy.values * share, of_copy.indices, of_copy.dense_shape)
        self.optimizer.apply([*ours, of_copy, of_kernel * share], variables)


class OneRank:
    """The same variables, whole."""

    def __init__(self, optimizer):
        self.tables = [keras_sparse.EmbeddingVariable(8, 12) for _ in range(3)]
        for table in self.tables:
            table.assign(ROWS)
        self.copy = keras_sparse.EmbeddingVariable(8, 2, initializer="zeros")
        self.kernel = keras.Variable([1.0, -1.0])
        self.optimizer = optimizer

    def step(self, grads, of_copy, of_kernel):
        variables = [*self.tables, self.copy, self.kernel]
        self.optimizer.apply([*grads, of_copy, of_kernel], variables)


# Norms are about 8 of a table, 15 of all, and 3 of the copy: some are clipped and some not.
@pytest.mark.parametrize(
    ("make", "options", "decorate"),
    [
        (SGD, {}, eager),
        (Adagrad, {}, eager),
        (Adam, {}, eager),
        (SGD, {"clipnorm": 4.0}, tf.function),
        (SGD, {"clipnorm": 4.0}, eager),
        (SGD, {"global_clipnorm": 2.0}, eager),
        (SGD, {"clipvalue": 0.5}, tf.function),
        (Adagrad, {"global_clipnorm": 1000.0}, eager),
        (SGD, {"global_clipnorm": 2.0, "loss_scale_factor": 4.0}, tf.function),
    ],
)
def test_parts_are_updated_as_the_whole_tables(make, options, decorate):
    ranks, one = Ranks(make(0.1, **options)), OneRank(make(0.1, **options))
    random = np.random.default_rng(0)
    step = decorate(lambda *grads: ranks.step(*grads))
    for number in range(5):
        grads = [slices(random, 12) for _ in range(3)]
        others = slices(random, 2), tf.constant([0.5, number - 2.0])
        step(grads, *others)
        one.step(grads, *others)
    for part, table in zip(ranks.parts, one.tables, strict=False):
        assert_close([part.variable.numpy()], [part.of(table.numpy())])
    copies = [ranks.copy.numpy(), ranks.kernel.numpy()]
    assert_close(copies, [one.copy.numpy(), one.kernel.numpy()])
    assert_same_on_all_ranks(copies)


@each_pair(
    clipping=[{"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {}],
    others=["a dense variable", "nothing"],
    decorate=[tf.function, eager],
)
def test_some_ranks_may_have_no_part(others, clipping, decorate):
    optimizer = ksd.DistributedOptimizer(SGD(1.0, **clipping))
    table, kernel = keras_sparse.EmbeddingVariable(8, 2, initializer="zeros"), keras.Variable([0.0])
    table.table.part = RowPart("a", np.zeros((8, 2))).variable.part
    dense = ([kernel], [tf.constant([0.0])]) if others == "a dense variable" else ([], [])
    variables = dense[0] + ([table] if ksd.rank() == 0 else [])
    rows, shape = tf.constant([[3.0, 4.0]]), (table.part or table).shape

    @decorate
    def step():
        mine = [tf.IndexedSlices(rows, tf.constant([1], tf.int64), shape)]
        optimizer.apply(dense[1] + (mine if ksd.rank() == 0 else []), variables)

    step()
    step()
    assert int(optimizer.iterations) == 2
    if ksd.rank() == 0:
        moved = 2 * rows.numpy() / (5 if clipping else 1)
        np.testing.assert_allclose(table.numpy()[1:2], -moved, rtol=1e-6)


def test_two_tables_of_one_name_have_no_norm():
    part = RowPart("a", np.ones((8, 4), "float32"))
    other = RowPart("a", np.ones((8, 4), "float32"))
    optimizer = ksd.DistributedOptimizer(SGD(0.1, clipnorm=1.0))
    grads = [part.gradient(slices(np.random.default_rng(0), 4))] * 2
    with pytest.raises(ValueError, match=r"must have different names.*several tables 'a'"):
        optimizer.apply(grads, [part.variable, other.variable])
