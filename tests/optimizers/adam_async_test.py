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
