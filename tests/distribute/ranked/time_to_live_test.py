"""Ages in seconds, where each rank has its own clock."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import checks
import keras_sparse
import keras_sparse.distribute as ksd
from keras_sparse import EmbeddingVariable
from keras_sparse import native
from keras_sparse import saving
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.training.broadcast_variables import broadcast_table
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.table_format.table_loader import TableLoader
from keras_sparse.utils.progress_bar import Progress

HOUR = 3600  # no test takes as long
KEYS = np.arange(-20, 20)
POLICY = keras_sparse.TimeToLive(3 * HOUR, at_save=False)


def make_model(seed=0):
    layer = DistributedEmbedding([Embedding(None, 4, "sum", eviction=POLICY, seed=seed)])
    ids = keras.Input((2,), dtype="int64")
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(layer([ids])[0])
    model = keras.Model(ids, outputs)
    optimizer = ksd.DistributedOptimizer(keras_sparse.optimizers.Adam(0.1))
    model.compile(optimizer, loss="mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    return model


def table_of(model):
    return next(v for v in model.variables if isinstance(v, EmbeddingVariable))


def train(model):
    ids = KEYS.reshape(-1, 2)[ksd.rank() :: ksd.size()]
    model.train_on_batch(ids, np.ones((len(ids), 1)))


def age(table):
    """Key `k` becomes `k % 5` hours and a half old, on the rank that has it."""
    records = np.ones((len(KEYS), table.record_floats), np.float32)
    table.import_(KEYS, records, ages=np.uint32(KEYS % 5 * HOUR + HOUR // 2))


def hours_of(table, seconds_more=0):
    return {
        key: (age + seconds_more) // HOUR
        for keys, _, ages in table.export(with_ages=True)
        for key, age in zip(keys.tolist(), ages.tolist(), strict=True)
    }


def of_all_ranks(table):
    return {k: v for each in gather_objects(hours_of(table), "hours") for k, v in each.items()}


def put_ahead(table, num_hours):
    """Gives a table, which loses its rows, a clock that is ahead."""
    with tf.init_scope():
        (history,) = native.export_history([table])
    ahead = np.uint32(int(history.table_step) + num_hours * HOUR)
    native.restore(table, history._replace(table_step=ahead))


@pytest.mark.parametrize("form", ["m.keras", "m.weights.h5", "checkpoint"])
def test_each_rank_lets_its_own_rows_go_also_of_a_file(form, folder):
    model, loaded = make_model(), make_model(seed=5)
    age(table_of(model))
    expected = {int(key): int(key) % 5 for key in KEYS}
    assert of_all_ranks(table_of(model)) == expected
    if form == "checkpoint":
        saving.save_checkpoint(model, folder / form, verbose=False)
        saving.load_checkpoint(loaded, folder / form, verbose=False)
    else:
        model.save(folder / form) if form == "m.keras" else model.save_weights(folder / form)
        loaded.load_weights(folder / form)
    for each in (model, loaded):
        assert of_all_ranks(table_of(each)) == expected
        num_evicted = sum(gather_objects(table_of(each).evict(), "evicted"))
        assert num_evicted == (KEYS % 5 >= 3).sum()
        assert set(of_all_ranks(table_of(each)).values()) == {0, 1, 2}


def test_one_process_takes_parts_whose_clocks_differ_as_they_lay(folder):
    model = make_model()
    table = table_of(model)
    put_ahead(table, ksd.rank())
    train(model)
    saving.save_checkpoint(model, folder / "saved", verbose=False)
    parts = WholeCheckpoint(folder / "saved").tables[0]
    assert len(parts) == ksd.size()
    clocks = [each.table.history.table_step for each in parts]
    assert max(clocks) - min(clocks) >= (ksd.size() - 1.5) * HOUR
    whole = EmbeddingVariable(None, 4, seed=9, eviction=POLICY)
    whole.table.set_rule(table.rule, table.table.rule_constants, table.table.rule_weight_decay)
    loader = TableLoader(whole.table, parts)
    loader.load(Progress(loader.num_records(), "rows", 1))
    # By the latest clock, so that no row lies in its future.
    hours = {int(key): ksd.size() - 1 - int(key) % ksd.size() for key in KEYS}
    assert hours_of(whole, HOUR // 2) == hours  # to the nearest one
    of_parts = {}
    for part in gather_objects(checks.table_content(table), "rows"):
        of_parts |= part
    assert checks.table_content(whole) == of_parts
    assert whole.evict() == 0


def test_a_table_that_is_broadcast_has_the_ages_of_the_root():
    table = EmbeddingVariable(None, 4, eviction=POLICY)
    keras_sparse.optimizers.Adam(0.1).build([table])
    put_ahead(table, 2 - ksd.rank() if ksd.rank() < 2 else 0)
    if ksd.rank() == 0:
        age(table)
    broadcast_table(table.table, 0)
    expected = broadcast_object(hours_of(table), 0, "expected")
    assert hours_of(table) == expected == {int(key): int(key) % 5 for key in KEYS}
    assert table.evict() == (KEYS % 5 >= 3).sum()
