"""What exports of models do, refuse and leave as it is."""

import concurrent.futures
import copy
import errno
import os
import pathlib
import re
import tempfile

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import keras_sparse
import layer_cases
import small_disks
from keras_sparse import native
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.layers import IntegerLookup
from keras_sparse.saved_model.initial_rows import initial_rows
from layer_cases import export
from layer_cases import EXPORTS
from layer_cases import save_by_tensorflow
from layer_cases import served

IDS = np.random.default_rng(0).integers(0, 60, (8, 3))
LARGE = IDS + 2**40


def model_of(table, ids=IDS, run_eagerly=True):
    inputs = keras.Input((3,), dtype="int64")
    model = keras.Model(inputs, keras.layers.Dense(1)(keras.layers.Flatten()(table(inputs))))
    model.compile(keras_sparse.optimizers.Adagrad(0.5), loss="mse", run_eagerly=run_eagerly)
    model.train_on_batch(ids, np.ones((8, 1)))
    return model


@pytest.mark.parametrize("way", EXPORTS)
def test_each_export_has_the_table_as_it_is_then_and_changes_nothing(way, tmp_path):
    # One whose functions have been traced: TensorFlow's follows whatever a model has.
    model = model_of(Embedding(None, 4), LARGE, run_eagerly=way is not save_by_tensorflow)
    table = model.layers[1].embeddings
    for step in range(2):
        before = [each.copy() for each in next(table.export())]
        way(model, tmp_path / str(step))
        for each, expected in zip(next(table.export()), before, strict=True):
            np.testing.assert_array_equal(each, expected)
        expected = model.predict_on_batch(LARGE)
        np.testing.assert_allclose(served(tmp_path / str(step), LARGE), expected, rtol=1e-6)
        model.train_on_batch(LARGE, np.ones((8, 1)))


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


def test_what_memory_has_no_room_for_goes_through_files(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sparse.saved_model.saved_model_scope._MEMORY_BYTES", 90)
    files, make = [], tempfile.TemporaryFile
    monkeypatch.setattr("tempfile.TemporaryFile", lambda dir: files.append(dir) or make(dir=dir))
    tables = [Embedding(60, 4), Embedding(None, 4), Embedding(5, 4, "sum")]
    ids = keras.Input((3,), dtype="int64")
    outputs = [keras.layers.Flatten()(table(ids % 5)) for table in tables]
    model = keras.Model(ids, keras.layers.Concatenate()(outputs))
    export(model, tmp_path / "model")
    np.testing.assert_allclose(served(tmp_path / "model", IDS), model(IDS), rtol=1e-6)
    # The rows of the first and the last, for which what is left is too little by then.
    assert len(files) == 2
    assert all(tmp_path in pathlib.Path(each).parents for each in files)
    names = ["assets", "fingerprint.pb", "saved_model.pb", "variables"]
    assert sorted(os.listdir(tmp_path / "model")) == names


def test_a_full_disk_is_an_error_and_the_next_export_has_all_rows(tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sparse.saved_model.saved_model_scope._MEMORY_BYTES", 16)
    model = model_of(Embedding(None, 4), LARGE)
    with (
        small_disks.files_of_at_most(64),
        pytest.raises(OSError, match="must have room for its tables twice") as failure,
    ):
        export(model, tmp_path / "full")
    assert failure.value.errno == errno.EFBIG
    assert not (tmp_path / "full" / "saved_model.pb").exists()
    model.train_on_batch(LARGE + 7, np.ones((8, 1)))
    export(model, tmp_path / "next")
    expected = model(LARGE + 7)
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
    signature = tf.saved_model.load(str(tmp_path / "model")).signatures["serving_default"]
    (answers,) = signature(tf.constant(np.float32(IDS))).values()
    np.testing.assert_allclose(answers, model(IDS), rtol=1e-6)
    for wrong in (0.5, 2.0**24, -(2.0**30), np.nan):
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="export the model with `input_sig"
        ):
            signature(tf.fill((1, 3), wrong))


def test_keys_without_rows_have_those_of_their_own_table(tmp_path):
    """Rows of a kind are made for all tables at once: with other seeds, numbers and lengths."""
    makers = [
        {"embeddings_initializer": keras.initializers.RandomUniform(-0.5, 1.5), "seed": 2**62},
        {"embeddings_initializer": keras.initializers.RandomUniform(3.0, -3.0), "seed": -7},
        {"embeddings_initializer": keras.initializers.RandomNormal(1.0, 2.0), "seed": 1},
        {"embeddings_initializer": keras.initializers.TruncatedNormal(-4.0, 0.5), "seed": 2},
        {"embeddings_initializer": keras.initializers.RandomNormal(9.0, 0.1), "seed": 3},
        {"embeddings_initializer": keras.initializers.Constant(-0.0)},
        {"admission": keras_sparse.CounterFilter(3, default_value_no_permission=0.75)},
        {"embeddings_initializer": keras.initializers.Constant(2.5)},
    ]
    widths = [4, 4, 3, 3, 3, 4, 4, 4]
    layers = [Embedding(None, width, **each) for width, each in zip(widths, makers, strict=True)]
    inputs = [keras.Input((i,), dtype="int64") for i in range(1, 9)]
    model = keras.Model(inputs, GroupEmbedding(layers)(inputs))
    keys = [np.random.default_rng(i).integers(-(2**63), 2**63 - 1, (5, i)) for i in range(1, 9)]
    for table, each in zip(model.trainable_variables, keys, strict=True):
        table.import_(each[-1], np.ones((len(each[-1]), table.output_dim)))
    expected = model(keys)
    export(model, tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    for samples in (slice(5), slice(4, 5), slice(0)):  # of the last one all keys have rows
        answers = loaded.serve([tf.constant(each[samples]) for each in keys])
        for answer, rows in zip(answers, expected, strict=True):
            assert answer.numpy().tobytes() == rows[samples].numpy().tobytes()


def test_another_table_adds_few_nodes(tmp_path):
    counts = []
    for number in (2, 4):
        layers = [Embedding(None, 4, "sum", seed=i) for i in range(number)]
        ids = keras.Input((number,), dtype="int64")
        model = keras.Model(ids, GroupEmbedding(layers, output_mode="concat")(ids))
        export(model, tmp_path / str(number))
        proto = saved_model_pb2.SavedModel()
        proto.ParseFromString((tmp_path / str(number) / "saved_model.pb").read_bytes())
        graph = proto.meta_graphs[0].graph_def
        functions = graph.library.function
        counts.append(len(graph.node) + sum(len(each.node_def) for each in functions))
    assert (counts[1] - counts[0]) / 2 < 60


@pytest.mark.parametrize("make", [lambda: IntegerLookup(60), lambda: Embedding(None, 4)])
def test_copies_of_a_model_that_was_exported_are_exported(make, tmp_path):
    model = model_of(make())
    export(model, tmp_path / "model")
    other = copy.deepcopy(model)
    export(other, tmp_path / "other")
    np.testing.assert_array_equal(served(tmp_path / "other", IDS), served(tmp_path / "model", IDS))


@pytest.mark.parametrize("case", layer_cases.LAYERS)
def test_checkpoints_of_tensorflow_are_refused(case, tmp_path):
    with pytest.raises(NotImplementedError, match=r"Use `model\.save`"):
        tf.train.Checkpoint(model=layer_cases.functional(case)).save(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    "make", [lambda: Embedding(60, 4), lambda: Embedding(None, 4), lambda: IntegerLookup(60)]
)
def test_other_formats_are_refused(make, tmp_path):
    model = model_of(make())
    for name in ("litert", "onnx", "openvino"):
        with pytest.raises(NotImplementedError, match='`format` must be "tf_saved_model"'):
            model.export(tmp_path / "model", format=name)


@pytest.mark.parametrize("make", [lambda: Embedding(None, 4), lambda: IntegerLookup(60)])
def test_what_an_index_that_was_not_filled_gives_shows(make, tmp_path):
    """As in what a converter of TensorFlow makes of the SavedModel."""
    layer = make()
    ids = keras.Input((3,), dtype="int64")
    model = keras.Model(ids, layer(ids))
    layer(LARGE, training=True) if isinstance(layer, IntegerLookup) else layer.embeddings.import_(
        np.unique(LARGE), np.ones((len(np.unique(LARGE)), 4))
    )
    export(model, tmp_path / "model")
    loaded = tf.saved_model.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.serve(tf.constant(LARGE + 7)), model(LARGE + 7))
    (index,) = loaded._misc_assets
    tf.raw_ops.LookupTableRemoveV2(table_handle=index.resource_handle, keys=np.unique(LARGE))
    answers = loaded.serve(tf.constant(LARGE))
    assert np.all(answers == -1) if isinstance(layer, IntegerLookup) else np.isnan(answers).all()


def test_a_converter_of_tensorflow_takes_it(tmp_path):
    export(model_of(Embedding(None, 4)), tmp_path)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.SELECT_TF_OPS]
    assert converter.convert()


@pytest.mark.parametrize("input_dim", [60, None])
def test_keras_loads_it_as_a_layer(input_dim, tmp_path):
    model = model_of(Embedding(input_dim, 4))
    export(model, tmp_path / "model")
    layer = keras.layers.TFSMLayer(tmp_path / "model", call_endpoint="serve")
    np.testing.assert_allclose(layer(tf.constant(IDS)), model(IDS), rtol=1e-6)
    for outside in (60, -1) if input_dim else ():
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"in \[0, 60\) for table"):
            layer(tf.fill((1, 3), np.int64(outside)))


def test_what_is_computed_while_a_model_is_traced_is_as_ever(tmp_path):
    class Shifted(keras.layers.Layer):
        def build(self, input_shape):
            self.table = Embedding(None, 4)
            self.table.build()

        def call(self, ids):
            with tf.init_scope():
                shift = self.table(np.array([[1]]))[0].numpy()
            return self.table(ids) + shift

    model = model_of(Shifted())
    export(model, tmp_path / "model")
    np.testing.assert_allclose(served(tmp_path / "model", IDS), model(IDS), rtol=1e-6)


def test_threads_export_a_model_at_once(tmp_path):
    model = model_of(Embedding(None, 4))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(lambda i: export(model, tmp_path / str(i)), range(2)))
    for i in range(2):
        np.testing.assert_allclose(served(tmp_path / str(i), IDS), model(IDS), rtol=1e-6)


def test_models_of_keras_alone_are_exported_as_without_this_package(tmp_path):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])

    @tf.function
    def scaled(x, factor=1.0):
        for _ in tf.range(2):  # rewritten by AutoGraph
            x = x * factor
        return model(x)

    for batch, factor in ((1, 1.0), (4, 1.0), (4, 2.0)):
        scaled(tf.ones((batch, 3)), factor)
    outputs = []
    for write_out in (keras.export.ExportArchive().write_out.__func__, None):
        archive = keras.export.ExportArchive()
        archive.track(model)
        archive.add_endpoint("scaled", scaled)
        archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 3))])
        path = tmp_path / str(len(outputs))
        (write_out or type(archive).write_out.__wrapped__)(archive, path, verbose=False)
        loaded = tf.saved_model.load(str(path))
        inputs = [(tf.ones((1, 3)), 1.0), (tf.ones((4, 3)), 1.0), (tf.ones((4, 3)), 2.0)]
        outputs.append([loaded.scaled(*each).numpy() for each in inputs])
        outputs[-1].append(loaded.serve(tf.ones((5, 3))).numpy())
        assert len(loaded.signatures) == 3
    for ours, theirs in zip(*outputs, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_function_that_saved_before_the_package_was_there_is_refused(tmp_path):
    model = model_of(Embedding(None, 4))
    with pytest.raises(RuntimeError, match=re.escape("must be written by `model.export`")):
        tf.saved_model.save.__wrapped__(model, str(tmp_path / "model"))


# Initial rows in TensorFlow's ops are those of the native tables, to the last bit.
KEYS = np.concatenate(
    [
        [0, 1, -1, 2**63 - 1, -(2**63), 2**32, -(2**32)],
        np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 2000),
    ]
)
INITIALIZERS = {
    "zeros": "zeros",
    "constant": keras.initializers.Constant(0.1),
    "uniform": "uniform",
    "falling uniform": keras.initializers.RandomUniform(0.3, -0.7),
    "of no width": keras.initializers.RandomUniform(0.3, 0.3),
    "narrow uniform": keras.initializers.RandomUniform(1.0, 1.0000001),
    "normal": keras.initializers.RandomNormal(0.5, 3.0),
    "truncated normal": keras.initializers.TruncatedNormal(-2.0, 0.01),
    "glorot": "glorot_uniform",
}


@pytest.mark.parametrize("seed", [0, -5, 2**62 + 12345])
@pytest.mark.parametrize("name", INITIALIZERS)
def test_rows_have_the_bits_of_a_native_table(name, seed):
    table = keras_sparse.EmbeddingVariable(None, 7, INITIALIZERS[name], seed=seed)
    (expected,) = native.lookup([table], [tf.constant(KEYS)])
    fields = table.table.initial_rows.saved_fields()

    def rows(keys):
        return initial_rows(keys, **fields, output_dim=7)

    np.testing.assert_array_equal(_bits(rows(tf.constant(KEYS))), _bits(expected))
    if seed > 0:  # in a graph TensorFlow's optimizers have rewritten the ops
        found = tf.function(rows, [tf.TensorSpec([None], tf.int64)])(tf.constant(KEYS))
        np.testing.assert_array_equal(_bits(found), _bits(expected))


@pytest.mark.parametrize("output_dim", [1, 4, 5, 33])
def test_rows_of_any_width_and_number(output_dim):
    table = keras_sparse.EmbeddingVariable(None, output_dim, "normal", seed=3)
    fields = table.table.initial_rows.saved_fields()
    for keys in (KEYS[:9], KEYS[:0]):
        (expected,) = native.lookup([table], [tf.constant(keys)])
        found = initial_rows(tf.constant(keys), **fields, output_dim=output_dim)
        assert found.shape == (len(keys), output_dim)
        np.testing.assert_array_equal(_bits(found), _bits(expected))


def _bits(rows):
    return np.asarray(rows).view(np.uint32)
