import keras
import numpy as np
import pytest

import numpy_rules
from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import Ftrl
from optimizer_cases import Case
from optimizer_cases import dense
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import NumpyModel
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices

OPTIONS = {"l1_regularization_strength": 0.01, "l2_regularization_strength": 0.1, "beta": 0.2}


def both(arguments, rows, batches, keys):
    """Returns the rows of ours and those of Keras after batches of (ids, rate)."""
    table, reference = make_table(keys, rows), keras.Variable(rows)
    optimizers = Ftrl(**arguments), keras.optimizers.Ftrl(**arguments)
    rng = np.random.default_rng(0)
    for ids, rate in batches:
        values = rng.normal(size=(len(ids), rows.shape[1])).astype("float32")
        for optimizer in optimizers:
            optimizer.learning_rate = rate
        optimizers[0].apply([slices(keys[np.array(ids, int)], values)], [table])
        optimizers[1].apply([dense(ids, values, len(rows))], [reference])
    return read(table, keys), reference.numpy()


@pytest.mark.parametrize("options", [{}, OPTIONS, {**OPTIONS, "learning_rate_power": -0.3}])
@pytest.mark.parametrize("keys", [np.arange(8), KEYS[:8]], ids=["static", "dynamic"])
def test_equals_keras_from_zeros_at_a_constant_rate(keys, options):
    rng = np.random.default_rng(1)
    batches = [(rng.integers(0, 4, 3), 0.01) for _ in range(10)]
    batches += [([7, 7], 0.01), *[([], 0.01)] * 40, ([0, 7], 0.01)]
    arguments = {"learning_rate": 0.01, **options}
    ours, expected = both(arguments, np.zeros((8, 3), "float32"), batches, keys)
    np.testing.assert_allclose(ours, expected, rtol=0, atol=2e-6)
    assert np.all(expected[[0, 7]] != 0)


def test_rows_outside_the_batch_keep_what_they_began_with_where_keras_has_zeros():
    ours, theirs = both({}, np.ones((3, 1), "float32"), [([1], 0.01)], np.arange(3))
    np.testing.assert_array_equal(ours[[0, 2]], [[1], [1]])
    np.testing.assert_array_equal(theirs[[0, 2]], [[0], [0]])
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=2e-6)


def test_rows_outside_the_batch_do_not_follow_the_rate_where_keras_does():
    batches = [([0, 1], 0.01), ([1], 0.02)]
    first, _ = both({}, np.zeros((2, 1), "float32"), batches[:1], np.arange(2))
    ours, theirs = both({}, np.zeros((2, 1), "float32"), batches, np.arange(2))
    np.testing.assert_array_equal(ours[0], first[0])
    assert abs(theirs[0, 0] - first[0, 0]) > 1e-3
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=2e-6)


def test_rows_outside_the_batch_do_not_go_on_shrinking_where_keras_does():
    """By `l2_shrinkage`: what a row is shrunk by at its next gradient is one step's worth."""
    arguments = {"l2_shrinkage_regularization_strength": 0.5}
    numbers = {"learning_rate": 0.1, **arguments}
    case = Case(Ftrl, None, numpy_rules.ftrl, numbers, lazy=True, first_slot=0.1)
    batches = [([0, 1, 2], 0.1), *[([1], 0.1)] * 20]
    start = random_rows(3, 2)
    first, _ = both(arguments, start, batches[:1], np.arange(3))
    ours, theirs = both(arguments, start, batches, np.arange(3))
    np.testing.assert_array_equal(ours[[0, 2]], first[[0, 2]])
    assert np.all(np.abs(theirs[[0, 2]] - first[[0, 2]]) > 1e-2)
    np.testing.assert_allclose(ours[1], theirs[1], rtol=0, atol=2e-6)
    batches.append(([0], 0.1))
    later, theirs = both(arguments, start, batches, np.arange(3))
    model, rng = NumpyModel(case, start), np.random.default_rng(0)
    for ids, _ in batches:
        model.apply(ids, rng.normal(size=(len(ids), 2)).astype("float32"))
    np.testing.assert_allclose(later, model.rows, rtol=0, atol=2e-6)
    assert np.all(np.abs(theirs[0] - later[0]) > 1e-2)


def test_a_small_gradient_leaves_a_row_at_zero_with_l1():
    table = EmbeddingVariable(2, 1, initializer="ones")
    optimizer = Ftrl(0.1, l1_regularization_strength=100.0)
    optimizer.apply([slices([0], np.ones((1, 1), "float32"))], [table])
    np.testing.assert_array_equal(table.numpy(), [[0], [1]])
