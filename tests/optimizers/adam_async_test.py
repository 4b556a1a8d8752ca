import numpy as np
import pytest

from checkpoint_cases import reloaded
from keras_sparse import EmbeddingVariable
from keras_sparse.optimizers import AdamAsync
from optimizer_cases import make_model
from optimizer_cases import slices
from optimizer_cases import tables_of

ONE = np.ones((1, 1), "float32")


def zeros_table(name="embeddings"):
    return EmbeddingVariable(3, 1, initializer="zeros", name=name)


def steps_of(optimizer):
    return [int(v) for v in optimizer.variables if v.name.endswith("_step")]


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_counts_the_steps_of_each_table_by_itself():
    often, rarely, alone = (zeros_table() for _ in range(3))
    optimizer, other = AdamAsync(0.25), AdamAsync(0.25)
    for step in range(6):
        has_gradient = step % 3 == 0
        gradient = slices([1], ONE)
        optimizer.apply([gradient, gradient if has_gradient else None], [often, rarely])
        if has_gradient:
            other.apply([gradient], [alone])
    assert steps_of(optimizer) == [6, 2]
    np.testing.assert_array_equal(rarely.numpy(), alone.numpy())


def test_corrects_bias_by_the_tables_own_step():
    early, late = zeros_table(), zeros_table()
    optimizer = AdamAsync(0.25, beta_1=0.5, beta_2=0.75, epsilon=0.0)
    optimizer.build([early, late])
    optimizer.apply([slices([0], ONE)], [early])
    optimizer.apply([slices([0], ONE), slices([0], ONE)], [early, late])
    np.testing.assert_allclose(late.numpy(), [[-0.25], [0], [0]], rtol=1e-6)
    # momentum 3/4 over the root of velocity 7/16; the correction is the root of 7/16 over 3/4
    np.testing.assert_allclose(early.numpy(), [[-0.5], [0], [0]], rtol=1e-6)


def test_an_empty_batch_is_a_step():
    table, optimizer = zeros_table(), AdamAsync(0.25)
    optimizer.apply([slices([], np.zeros((0, 1), "float32"))], [table])
    assert steps_of(optimizer) == [1]
    np.testing.assert_array_equal(table.numpy(), np.zeros((3, 1)))


def test_the_rmsprop_variant_has_momentum_and_no_bias_correction():
    table = zeros_table()
    optimizer = AdamAsync(1.0, beta_1=0.5, beta_2=0.75, epsilon=0.75, apply_sparse_rmsprop=True)
    optimizer.apply([slices([1, 1], np.float32([[0.5], [0.5]]))], [table])
    # velocity 1/4, momentum 1 / sqrt(1/4 + 3/4)
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records, [[0, 0, 0], [-1, 0.25, 1], [0, 0, 0]])
    optimizer.apply([slices([1], 0 * ONE)], [table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records[1], [-1.5, 0.1875, 0.5])
    assert table.rule == "lazy_rmsprop"
    assert table.slot_names == ("velocity", "momentum")


def test_the_rmsprop_variant_without_beta_1_keeps_no_momentum():
    table = zeros_table()
    optimizer = AdamAsync(1.0, beta_1=0.0, beta_2=0.75, epsilon=0.75, apply_sparse_rmsprop=True)
    optimizer.apply([slices([1], ONE)], [table])
    ((_, records),) = table.export()
    np.testing.assert_array_equal(records, [[0, 0], [-1, 0.25], [0, 0]])


@pytest.mark.parametrize("form", ["keras", "weights.h5"])
def test_counters_are_saved_and_come_back(form, tmp_path):
    ids, targets = np.arange(16).reshape(8, 2) % 5, np.ones((8, 1), "float32")
    model = make_model(AdamAsync(0.01), 5, run_eagerly=True)
    for _ in range(3):
        model.train_on_batch(ids, targets)
    model.optimizer.apply([slices([0], np.ones((1, 3), "float32"))], tables_of(model)[:1])

    def other():
        other = make_model(AdamAsync(0.01), 5, seed=4, run_eagerly=True)
        other.optimizer.build(other.trainable_variables)
        return other

    loaded = reloaded(model, other, tmp_path, form)
    assert steps_of(loaded.optimizer) == steps_of(model.optimizer) == [4, 3]


def test_refuses_what_is_no_boolean():
    with pytest.raises(TypeError, match="`apply_sparse_rmsprop` must be True or False"):
        AdamAsync(apply_sparse_rmsprop=1)
