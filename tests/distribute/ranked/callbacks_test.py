import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives

IDS = np.arange(64).reshape(32, 2)
BATCHES = tf.data.Dataset.from_tensor_slices((IDS, np.ones((32, 1), np.float32))).batch(4)
IS_ALONE = ksd.size() == 1


def make_model(**kwargs):
    keras.utils.set_random_seed(5)
    ids = keras.Input((2,), dtype="int64")
    table = keras_sparse.layers.Embedding(None, 4, "sum", name="items", **kwargs)
    rows = keras_sparse.layers.DistributedEmbedding([table])([ids])[0]
    model = keras.Model(ids, keras.layers.Dense(1)(rows))
    model.compile(ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1)), "mse")
    return model


def fit(model, *callbacks, epochs=1):
    batches = ksd.shard(BATCHES)
    model.fit(batches, epochs=epochs, shuffle=False, verbose=0, callbacks=[*callbacks])


def test_each_rank_writes_the_statistics_of_its_tiers_to_a_folder_of_its_own(folder):
    fit(make_model(), keras_sparse.callbacks.TierStats(folder))
    collectives.gather_objects(None, "written")
    runs = [folder / f"rank-{rank}-of-{ksd.size()}" for rank in range(ksd.size())]
    for run in [folder] if IS_ALONE else runs:
        assert len(list(run.glob("*.tiers"))) == 1
    assert len(list(folder.iterdir())) == ksd.size()


def test_lines_about_evicted_rows_name_the_rank(capsys):
    model = make_model(eviction=keras_sparse.GlobalStepEvict(1))
    fit(model, keras_sparse.callbacks.EvictRows(verbose=1))
    prefix = "" if IS_ALONE else f"[rank {ksd.rank()} of {ksd.size()}] "
    assert capsys.readouterr().out.startswith(f"{prefix}Step 8: ")


@pytest.fixture(name="model", scope="module")
def one_model():
    """Of tests to which its rows are all one."""
    return make_model()


class StopAlone(keras.callbacks.Callback):
    """Stops the last rank at a batch or the end of an epoch; notes the batches that there were."""

    def __init__(self, epoch, batch=None):
        super().__init__()
        self._at, self._epoch, self.batches = (epoch, batch), 0, []

    def _look(self, at):
        if at == self._at and ksd.rank() == ksd.size() - 1:
            self.model.stop_training = True

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((self._epoch, batch))
        self._look((self._epoch, batch))

    def on_epoch_end(self, epoch, logs=None):
        self._look((epoch, None))


@pytest.mark.parametrize(
    ("every", "stop", "last"),
    [
        ("epoch", (0, None), (0, 7)),
        ("epoch", (1, 2), (1, 7)),
        (1, (1, 2), (1, 2)),
        (3, (1, 3), (1, 5)),
        (3, (0, 7), (0, 7)),  # the end of an epoch
    ],
)
def test_all_ranks_stop_when_one_wants_to(every, stop, last, model):
    alone, together = StopAlone(*stop), ksd.StopTogether(every)
    fit(model, ksd.MetricAverage(), alone, together, epochs=3)
    if IS_ALONE:  # it stops at once, as without the callback
        last = (stop[0], 7 if stop[1] is None else stop[1])
    assert alone.batches[-1] == last
    fit(model, together)  # which begins anew
    assert not model.stop_training


def test_keras_backup_of_tables_over_ranks_is_refused(folder, model):
    backup = keras.callbacks.BackupAndRestore(folder / "backup")
    if IS_ALONE:
        fit(model, backup)
        return
    with pytest.raises(NotImplementedError, match=r"keras_sparse\.callbacks\.Checkpoint\(folder\)"):
        fit(model, backup)
    assert not (folder / "backup").exists()
