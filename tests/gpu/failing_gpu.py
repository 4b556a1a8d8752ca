"""A GPU without room for a table, then one that fails for good. Run by failing_gpu_test.py."""

import ctypes
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
from keras_sparse import native
from keras_sparse.native import library

IDS = np.arange(64).reshape(16, 4)


def make_model(storage_type):
    keras.utils.set_random_seed(3)
    storage = keras_sparse.StorageOption(storage_type)
    ids = keras.Input((4,), dtype="int64")
    rows = [
        keras_sparse.layers.Embedding(input_dim, 4, "sum", storage=storage, name=name)(ids)
        for name, input_dim in (("films", 64), ("users", None))
    ]
    model = keras.Model(ids, keras.layers.Dense(1)(keras.layers.Concatenate()(rows)))
    model.compile(keras_sparse.optimizers.Adagrad(0.1), "mse")
    return model


def fit(model):
    return model.fit(IDS, np.ones(16), batch_size=8, shuffle=False, verbose=0).history["loss"]


def test_memory_that_another_process_has_is_said(monkeypatch):
    assert tf.config.list_logical_devices("GPU")  # it may have some 1.2 GB, and has taken none
    left = 100 << 20
    monkeypatch.setenv("FAKE_BYTES_TAKEN", str((3 << 30) - left))
    words = (
        r"table 'films': a table must fit what is left of the GPU's memory, of which another "
        r"process.*set_memory_growth.*Received: (\d+) bytes more, where (\d+) are left to this "
        r"process, with all of the (\d+) that are free"
    )
    storage = keras_sparse.StorageOption("HBM")
    with pytest.raises(tf.errors.ResourceExhaustedError, match=words) as raised:
        keras_sparse.EmbeddingVariable(1 << 24, 4, storage=storage, name="films")
    found = re.search(words, str(raised.value))
    asked, left_to_us, free = (int(each) for each in found.groups())
    assert asked >= 1 << 28
    assert free <= left_to_us <= left
    small = keras_sparse.EmbeddingVariable(8, 4, storage=storage)
    assert native.lookup([small], [tf.constant([1], tf.int64)])[0].shape == (1, 4)


def test_a_gpu_that_fails_is_an_error_of_its_tables_alone(tmp_path):
    on_gpu, in_memory = make_model("HBM"), make_model("DRAM")
    assert fit(on_gpu) == fit(in_memory)
    keras_sparse.saving.save_checkpoint(on_gpu, tmp_path / "complete")
    # After so many kernels and copies.
    ctypes.CDLL(library.library_path).keras_sparse_emulated_fail_after(10)
    table = on_gpu.get_layer("users").embeddings
    words = (
        "GPU 0 must do all its work, .* end the process, and load the last checkpoint in a new "
        "one.*Received: it could not .*: an illegal memory access"
    )
    for use in (
        lambda: fit(on_gpu),
        lambda: native.lookup([table], [tf.constant([1, 2], tf.int64)]),
        lambda: fit(on_gpu),
        lambda: keras_sparse.saving.save_checkpoint(on_gpu, tmp_path / "none"),
        lambda: on_gpu.save(tmp_path / "none.keras"),
        lambda: on_gpu.export(tmp_path / "exported", verbose=False),
        lambda: list(table.export()),
    ):
        with pytest.raises(tf.errors.FailedPreconditionError, match=words):
            use()
    # All others go on, and what was complete is.
    resumed = make_model("DRAM")
    keras_sparse.saving.load_checkpoint(resumed, tmp_path / "complete")
    np.testing.assert_array_equal(resumed.predict(IDS), in_memory.predict(IDS))
    assert fit(resumed) == fit(in_memory)
