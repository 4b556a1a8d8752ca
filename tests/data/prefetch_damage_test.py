"""What a stage cannot read is the error of the step that needs it, and says of which batch."""

import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import prefetch_cases as cases
from keras_sparse.data import prefetch_lookups
from stages import keep_stages
from table_twins import DIM
from table_twins import RECORD_BYTES
from table_twins import small

STRIDE = RECORD_BYTES + 12  # docs/formats/ssdhash.md


def make_model(folder):
    ids = keras.Input((1,), dtype="int64")
    rows = keras_sparse.layers.Embedding(None, DIM, "sum", seed=1, storage=small(folder))(ids)
    kernel = keras.initializers.GlorotUniform(1)
    model = keras.Model(ids, keras.layers.Dense(1, kernel_initializer=kernel)(rows))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return model


def batches_of(ids, size=20):
    ids = np.reshape(ids, (-1, 1))
    return tf.data.Dataset.from_tensor_slices((ids, np.ones(ids.shape, np.float32))).batch(size)


def flip(path, place):
    """Flips a bit of a byte of a file; again, and it is as before."""
    with path.open("r+b") as file:
        file.seek(place)
        (byte,) = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("place_in_entry", [0, 8, STRIDE - 1], ids=["key", "checksum", "record"])
@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_a_flipped_byte_of_the_disk_is_an_error_that_names_the_batch(
    mode, place_in_entry, tmp_path, monkeypatch
):
    model = make_model(tmp_path)
    (table,) = cases.tables_of(model)
    model.fit(batches_of(np.arange(600), 100), verbose=0, shuffle=False)
    assert table.stats()["tiers"]["SSDHASH"]["rows"] > 0, "and all is written that was to be"
    (path,) = tmp_path.rglob("000000.seg")
    begin = 64 + 5 * STRIDE
    key = int.from_bytes(path.read_bytes()[begin : begin + 8], "little")
    ids = np.arange(5000, 5120)  # new ones, 20 a batch
    ids[67] = key
    before = cases.contents(model)
    flip(path, begin + place_in_entry)
    words = (
        f"batch 3 of prefetch_lookups: .*the entry at byte {begin} of '{re.escape(str(path))}' "
        "must be what was written"
    )
    stages = keep_stages(monkeypatch)
    ahead = prefetch_lookups(batches_of(ids), model, 2, 4, mode)
    with pytest.raises(tf.errors.DataLossError, match=words):
        model.fit(ahead, verbose=0, shuffle=False, callbacks=stages)
    flip(path, begin + place_in_entry)
    after = cases.contents(model)
    assert len(after[0]) == len(before[0]) + 60, "the rows of the three batches before"
    model.fit(ahead, verbose=0, shuffle=False)
    assert table.stats()["rows"] == 600 + 119
