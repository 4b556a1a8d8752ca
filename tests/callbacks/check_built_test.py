"""Callbacks that need a model's variables say so of a model that has none yet."""

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse import callbacks

IDS = np.array([[1, 2], [3, 4]])
EVICTION = keras_sparse.GlobalStepEvict(1)


class OwnModel(keras.Model):
    def __init__(self):
        super().__init__()
        self.rows = keras_sparse.layers.Embedding(None, 4, "sum", eviction=EVICTION)
        self.out = keras.layers.Dense(1)

    def call(self, ids):
        return self.out(self.rows(ids))


@pytest.mark.parametrize(
    "make_model", [OwnModel, lambda: keras.Sequential([OwnModel().rows, keras.layers.Dense(1)])]
)
@pytest.mark.parametrize(
    "make",
    [
        callbacks.Checkpoint,
        lambda folder: callbacks.TierStats(folder),
        lambda _: callbacks.EvictRows(),
        lambda _: callbacks.BroadcastGlobalVariables(),
    ],
)
def test_an_unbuilt_model_is_refused_and_trains_once_it_is_built(make, make_model, tmp_path):
    model, folder = make_model(), tmp_path / "run"
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)

    def fit(callback):
        model.fit(IDS, np.ones((2, 1)), verbose=0, callbacks=[callback])

    words = f"given to a built model, .* on a batch before `fit`.*unbuilt model '{model.name}'"
    with pytest.raises(ValueError, match=words):
        fit(make(folder))
    assert not folder.exists()
    model(IDS)
    fit(make(folder))
    assert int(model.optimizer.iterations) == 1


def test_a_checkpoint_that_nothing_goes_on_from_needs_no_built_model(tmp_path):
    model = OwnModel()
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse", run_eagerly=True)
    callback = callbacks.Checkpoint(tmp_path / "run", resume=False)
    model.fit(IDS, np.ones((2, 1)), verbose=0, callbacks=[callback])
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["step-000000001"]
