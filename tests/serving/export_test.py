"""What exports of models do, refuse and leave as it is."""

import copy
import errno
import os
import re

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import small_disks
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import All2AllSparseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup

IDS = np.random.default_rng(0).integers(0, 60, (8, 3))
LARGE = IDS + 2**40


def model_of(table, ids=IDS):
    inputs = keras.Input((3,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(table(inputs))))
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse")
    model.fit(ids, np.ones((8, 1)), verbose=0)
    return model


def served(path, ids):
    (answer,) = (
        tf.saved_model.load(str(path)).signatures["serving_default"](tf.constant(ids)).values()
    )
    return answer.numpy()


def export(model, path):
    model.export(path, verbose=False)


def save_by_tensorflow(model, path):
    tf.saved_model.save(model, str(path))


def archive(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 3), tf.int64)])
    archive.write_out(path, verbose=False)


WAYS = [export, save_by_tensorflow, archive]


@pytest.mark.parametrize("way", WAYS)
def test_each_export_has_the_table_as_it_is_then_and_changes_nothing(way, tmp_path):
    model = model_of(Embedding(None, 4), LARGE)
    table = model.layers[1].embeddings
    for step in range(2):
        before = [each.copy() for each in next(table.export())]
        way(model, tmp_path / str(step))
        for each, expected in zip(next(table.export()), before, strict=True):
            np.testing.assert_array_equal(each, expected)
        expected = model.predict(LARGE, verbose=0)
        np.testing.assert_allclose(served(tmp_path / str(step), LARGE), expected, rtol=1e-6)
        model.fit(LARGE, np.ones((8, 1)), verbose=0)


def test_functions_that_have_run_are_endpoints_and_go_on(tmp_path):
    """As in the example of Keras: one function calls another, and both have been traced."""
    model = model_of(Embedding(None, 4), LARGE)
    archive = keras.export.ExportArchive()
    spec = tf.TensorSpec((None, 3), tf.int64)
    call_model = archive.track_and_add_endpoint("call_model", model, [spec])

    @tf.function
    def shifted(ids):
        return call_model(ids + 1)

    shifted(tf.constant(LARGE))
    archive.add_endpoint("shifted", shifted)
    archive.write_out(tmp_path / "model", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    for _ in range(2):
        expected = model(LARGE + 1).numpy()
        np.testing.assert_allclose(shifted(tf.constant(LARGE)), expected, rtol=1e-6)
        np.testing.assert_allclose(call_model(tf.constant(LARGE + 1)), expected, rtol=1e-6)
    np.testing.assert_allclose(loaded.shifted(tf.constant(LARGE)), expected, rtol=1e-6)
    np.testing.assert_allclose(loaded.call_model(tf.constant(LARGE + 1)), expected, rtol=1e-6)


def test_arrays_too_large_for_memory_go_through_files(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sparse.serving.file_array._MEMORY_BYTES", 16)
    for name, table in {"dynamic": Embedding(None, 4), "static": Embedding(60, 4)}.items():
        model = model_of(table)
        export(model, tmp_path / name)
        expected = model.predict(IDS, verbose=0)
        np.testing.assert_allclose(served(tmp_path / name, IDS), expected, rtol=1e-6)
        assert sorted(os.listdir(tmp_path / name)) == sorted(
            ["assets", "fingerprint.pb", "saved_model.pb", "variables"]
        )


def test_a_full_disk_is_an_error_and_the_next_export_has_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sparse.serving.file_array._MEMORY_BYTES", 16)
    model = model_of(Embedding(None, 4), LARGE)
    with (
        small_disks.files_of_at_most(64),
        pytest.raises(OSError, match="must have room for its tables twice") as failure,
    ):
        export(model, tmp_path / "full")
    assert failure.value.errno == errno.EFBIG
    assert not (tmp_path / "full" / "saved_model.pb").exists()
    model.fit(LARGE + 7, np.ones((8, 1)), verbose=0)
    export(model, tmp_path / "next")
    expected = model.predict(LARGE + 7, verbose=0)
    np.testing.assert_allclose(served(tmp_path / "next", LARGE + 7), expected, rtol=1e-6)


def test_an_id_outside_of_a_static_table_is_an_error(tmp_path):
    export(model_of(Embedding(60, 4)), tmp_path / "model")
    for wrong in (60, -1):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"id must be in \[0, 60\) for table"
        ):
            served(tmp_path / "model", np.full((1, 3), wrong))


def test_a_subclassed_model_without_a_signature_takes_the_floats_that_are_ids(tmp_path):
    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.rows = Embedding(None, 2, "sum")

        def call(self, ids):
            return self.rows(ids)

    model = Subclassed()
    model(IDS)
    export(model, tmp_path / "model")
    np.testing.assert_allclose(served(tmp_path / "model", np.float32(IDS)), model(IDS), rtol=1e-6)
    for wrong in (0.5, 2.0**24, -(2.0**30), np.nan):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="export the model with `input_sig"
        ):
            served(tmp_path / "model", np.full((1, 3), wrong, np.float32))


def test_an_untrained_table_has_its_initial_rows(tmp_path):
    inputs = keras.Input((3,), dtype="int64")
    model = keras.Model(inputs, Embedding(None, 4)(inputs))
    export(model, tmp_path / "model")
    np.testing.assert_array_equal(served(tmp_path / "model", LARGE), model(LARGE))


def test_copies_of_a_model_that_was_exported_are_exported(tmp_path):
    model = model_of(IntegerLookup(60))
    export(model, tmp_path / "model")
    other = copy.deepcopy(model)
    export(other, tmp_path / "other")
    np.testing.assert_array_equal(served(tmp_path / "other", IDS), served(tmp_path / "model", IDS))


LAYERS = {
    "Embedding": lambda: Embedding(None, 4, "sum"),
    "DistributedEmbedding": lambda: DistributedEmbedding(Embedding(None, 4, "sum")),
    "GroupEmbedding": lambda: GroupEmbedding(Embedding(10, 4, "sum")),
    "All2AllDenseEmbedding": lambda: All2AllDenseEmbedding(9, 4, 1, 1, dynamic_input=True),
    "All2AllSparseEmbedding": lambda: All2AllSparseEmbedding("sum", 9, 4, 1, 2),
    "IntegerLookup": lambda: IntegerLookup(9),
}


@pytest.mark.parametrize("name", LAYERS)
def test_checkpoints_of_tensorflow_are_refused(name, tmp_path):
    shape = () if name == "All2AllDenseEmbedding" else (2,)
    ids = keras.Input(shape, dtype="int64", ragged=name == "All2AllSparseEmbedding" or None)
    model = keras.Model(ids, LAYERS[name]()(ids))
    with pytest.raises(NotImplementedError, match=r"Use `model\.save`"):
        tf.train.Checkpoint(model=model).save(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "make", [lambda: Embedding(60, 4), lambda: Embedding(None, 4), lambda: IntegerLookup(60)]
)
def test_other_formats_are_refused(make, tmp_path):
    model = model_of(make())
    for name in ("litert", "onnx", "openvino"):
        with pytest.raises(NotImplementedError, match='`format` must be "tf_saved_model"'):
            model.export(tmp_path / "model", format=name)


def test_a_table_whose_index_was_not_filled_gives_no_numbers(tmp_path):
    """As in what a converter of TensorFlow makes of the SavedModel."""
    export(model_of(Embedding(None, 4), LARGE), tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    assert np.isfinite(loaded.serve(tf.constant(LARGE + 7))).all()
    (index,) = loaded._misc_assets
    tf.raw_ops.LookupTableRemoveV2(table_handle=index.resource_handle, keys=np.unique(LARGE))
    assert np.isnan(loaded.serve(tf.constant(LARGE))).all()


def test_a_function_that_saved_before_the_package_was_there_is_refused(tmp_path):
    model = model_of(Embedding(None, 4))
    with pytest.raises(RuntimeError, match=re.escape("must be written by `model.export`")):
        tf.saved_model.save.__wrapped__(model, str(tmp_path / "model"))
