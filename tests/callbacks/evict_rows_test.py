import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
from checkpoint_cases import Send
from eviction_cases import each_policy
from eviction_cases import fit
from eviction_cases import IDS
from eviction_cases import make_model
from eviction_cases import table_of
from eviction_cases import TARGETS
from keras_sparse.callbacks import Checkpoint
from keras_sparse.callbacks import EvictRows
from pairwise import each_pair


class Record(keras.callbacks.Callback):
    """Notes at which steps rows had gone by the end of a batch or an epoch."""

    def __init__(self):
        super().__init__()
        self.steps, self._evicted = [], 0

    def _look(self):
        evicted = table_of(self.model).stats()["evicted_rows"]
        if evicted > self._evicted:
            self.steps.append(int(self.model.optimizer.iterations))
        self._evicted = evicted

    def on_train_batch_end(self, batch, logs=None):
        self._look()

    def on_epoch_end(self, epoch, logs=None):
        self._look()


# 16 steps an epoch. By then there are always some rows of that age.
@pytest.mark.parametrize(
    ("every", "steps_per_execution", "steps"),
    [
        ("epoch", 1, [16, 32]),
        (5, 1, [5, 10, 15, 20, 25, 30]),
        (100, 1, []),
        (5, 4, [8, 12, 16, 20, 28, 32]),
    ],
)
def test_evicts_after_each_epoch_or_so_many_steps(every, steps_per_execution, steps):
    eviction = keras_sparse.GlobalStepEvict(1)
    model, record = make_model(eviction, steps_per_execution=steps_per_execution), Record()
    fit(model, 0, 256, epochs=2, callbacks=[EvictRows(every=every), record])
    assert record.steps == steps


@each_policy
def test_a_model_that_goes_on_from_its_file_evicts_at_the_same_steps(case, tmp_path):
    whole, model = make_model(case.make(at_save=False)), make_model(case.make(at_save=False))
    fit(whole, 0, 256, callbacks=[EvictRows(every=3)])
    fit(model, 0, 112, callbacks=[EvictRows(every=3)])
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    fit(loaded, 112, 256, callbacks=[EvictRows(every=3)])
    checks.assert_same_tables(table_of(loaded), table_of(whole))
    assert table_of(whole).stats()["evicted_rows"] > 50


@each_pair(every=["epoch", 4], is_first=[True, False], every_steps=[4, 8, None])
def test_a_killed_training_has_evicted_what_it_had(every, is_first, every_steps, tmp_path):
    """Rows that `EvictRows` evicts after the checkpoint of the same step, too."""

    class Kill(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if int(self.model.optimizer.iterations) == 11:
                raise KeyboardInterrupt

    def train(*callbacks):
        model = make_model(keras_sparse.GlobalStepEvict(2, at_save=False))
        save = Checkpoint(tmp_path, every_steps=every_steps, verbose=False)
        pair = [EvictRows(every), save]
        if not callbacks:
            pair.remove(save)
        fit(model, 0, 128, epochs=3, callbacks=[*(pair if is_first else pair[::-1]), *callbacks])
        return model

    whole = train()
    with pytest.raises(KeyboardInterrupt):
        train(Kill())
    resumed = train(keras.callbacks.Callback())
    checks.assert_same_tables(table_of(resumed), table_of(whole))
    assert table_of(whole).stats()["evicted_rows"] > 20


@pytest.mark.usefixtures("handlers_of_before")
@pytest.mark.filterwarnings("ignore:Your input ran out of data", "ignore:.*without a step")
@pytest.mark.parametrize(
    ("every", "is_first", "num_calls", "every_steps", "steps_per_execution", "is_length_known"),
    [
        *itertools.product(["epoch", 4], [True, False], [4, 8, -1], [None], [1], [True]),
        ("epoch", False, 8, 5, 1, False),
        (4, False, 4, 5, 1, False),
        ("epoch", False, 3, None, 3, True),
        (4, False, 2, 5, 3, False),
    ],
)
def test_a_training_that_a_signal_stopped_has_evicted_what_it_had(
    every, is_first, num_calls, every_steps, steps_per_execution, is_length_known, tmp_path
):
    """In the step in which the signal came, or after the last step of an epoch."""

    def train(*callbacks):
        eviction = keras_sparse.GlobalStepEvict(2, at_save=False)
        model = make_model(eviction, steps_per_execution=steps_per_execution)
        data = tf.data.Dataset.from_tensor_slices((IDS[:128], TARGETS[:128])).batch(16)
        data = data if is_length_known else data.filter(lambda *batch: True)
        model.fit(data, epochs=3, shuffle=False, verbose=0, callbacks=callbacks)
        return model

    def pair():
        save = Checkpoint(tmp_path, every_steps, on_signal="SIGTERM", verbose=False)
        return [EvictRows(every), save][:: 1 if is_first else -1]

    num_calls %= 1 + 3 * -(-8 // steps_per_execution)  # the last one of the training
    whole = train(EvictRows(every))
    with pytest.raises(SystemExit):
        train(*pair(), Send("on_train_batch_begin", num_calls))
    resumed = train(*pair())
    checks.assert_same_tables(table_of(resumed), table_of(whole))
    assert table_of(whole).stats()["evicted_rows"] > 20


def test_tells_what_went_if_asked_to(capsys):
    model = make_model(keras_sparse.GlobalStepEvict(1))
    fit(model, 0, 64, callbacks=[EvictRows(verbose=1)])
    stats = table_of(model).stats()
    assert capsys.readouterr().out == (
        f"Step 4: {stats['evicted_rows']:,} rows of 'items/embeddings' evicted, "
        f"{stats['rows']:,} left\n"
    )


def test_leaves_tables_without_a_policy_alone():
    ids = keras.Input((2,), dtype="int64")
    layers = [
        keras_sparse.layers.Embedding(None, 2, "sum", eviction=eviction)
        for eviction in (keras_sparse.L2WeightEvict(1e9), None)
    ]
    model = keras.Model(ids, keras.layers.Dense(1)(layers[0](ids) + layers[1](ids)))
    model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    model.fit(np.ones((4, 2)), np.ones((4, 1)), verbose=0, callbacks=[EvictRows()])
    assert [layer.embeddings.num_rows for layer in layers] == [0, 1]


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"every": 0}, ValueError, "`every` must be above 0"),
        ({"every": "batch"}, TypeError, "`every` must be \"epoch\", or an integer: .*'batch'"),
        ({"every": True}, TypeError, '`every` must be "epoch", or an integer'),
        ({"every": None}, TypeError, '`every` must be "epoch", or an integer: .*None'),
        ({"verbose": 2}, ValueError, "`verbose` must be one of"),
    ],
)
def test_refuses(kwargs, error, message):
    with pytest.raises(error, match=message):
        EvictRows(**kwargs)


def test_refuses_a_model_without_a_policy():
    model = make_model(None)
    with pytest.raises(ValueError, match="must be given to a model with an eviction policy"):
        fit(model, 0, 16, callbacks=[EvictRows()])
