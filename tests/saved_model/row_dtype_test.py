"""SavedModels with rows in fewer bits: how far their answers are from those of the model."""

import os
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import layer_cases
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.saved_model.row_encoding import ROW_ENCODINGS
from keras_sparse.serving import export_options
from layer_cases import export
from layer_cases import EXPORTS
from layer_cases import save_by_tensorflow

FEWER_BITS = ("bfloat16", "float16", "int8")
MOST = np.finfo(np.float32).max
LEAST = np.finfo(np.float32).tiny
RNG = np.random.default_rng(0)
IDS = RNG.integers(0, 60, (8, 3))
KEYS = IDS + 2**40
UNSEEN = np.concatenate([KEYS, RNG.integers(-(2**63), 2**63 - 1, (8, 3))])


def decoded(row_dtype, rows):
    encoding = ROW_ENCODINGS[row_dtype]
    encoded = encoding.encode(rows)
    assert encoded.shape == (len(rows), encoding.width(rows.shape[1]))
    assert encoded.dtype == encoding.dtype
    in_graph = tf.function(encoding.decode)(tf.constant(encoded))
    assert in_graph.shape == rows.shape
    return in_graph.numpy()


def scales(rows):
    """1/256 of the range of each row: `(n, 1)`."""
    return np.ptp(np.float64(rows), axis=1, keepdims=True) / 256


def bounds(row_dtype, rows):
    """The most that an element may differ, `(n, 1)` or of each element, as the page says it."""
    if row_dtype == "int8":
        largest = np.max(np.abs(np.float64(rows)), axis=1, keepdims=True)
        # A server computes with zero in place of numbers below `LEAST`.
        return scales(rows) / 2 + 2.0**-22 * largest + 2 * LEAST
    digits, least = {"bfloat16": (8, 2.0**-133), "float16": (11, 2.0**-24)}[row_dtype]
    return np.maximum(np.abs(np.float64(rows)) * 2.0**-digits, least / 2)


ROWS = {
    "normal": RNG.normal(size=(500, 16)),
    "of one element": RNG.normal(size=(500, 1)),
    "one": RNG.normal(size=(1, 33)),
    "none": np.empty((0, 4)),
    "far from zero": 1e4 + RNG.uniform(-1e-2, 1e-2, (500, 16)),
    "two neighbours": np.float32(np.pi) * (1 + RNG.integers(0, 2, (500, 16)) * 2.0**-23),
    "sparse": RNG.normal(size=(500, 16)) * (RNG.random((500, 16)) < 0.1),
    "one large element": RNG.normal(size=(500, 16)) ** 21,
    "tiny": RNG.normal(size=(500, 16)) * 1e-36,
    "below the normal numbers": RNG.normal(size=(500, 16)) * 1e-39,
}
WIDE_ROWS = {
    "huge": RNG.uniform(-1, 1, (500, 16)) * np.float64(MOST),
    "ends of float32": RNG.choice([-MOST, MOST, 0, 1], (500, 16)),
    "largest numbers": MOST * (1 - RNG.integers(0, 9, (500, 16)) * 2.0**-24),
}


@pytest.mark.parametrize("row_dtype", FEWER_BITS)
@pytest.mark.parametrize("name", ROWS)
def test_an_element_differs_by_no_more_than_the_bound(name, row_dtype):
    rows = ROWS[name].astype(np.float32)
    if row_dtype == "float16":
        rows = np.clip(rows, -65504, 65504)
    errors = np.abs(decoded(row_dtype, rows) - np.float64(rows))
    assert np.all(errors <= bounds(row_dtype, rows))


@pytest.mark.parametrize("name", WIDE_ROWS)
def test_a_range_that_float32_does_not_hold_stays_finite_in_int8(name):
    rows = WIDE_ROWS[name].astype(np.float32)
    found = decoded("int8", rows)
    assert np.isfinite(found).all()
    assert np.all(np.abs(found - np.float64(rows)) <= bounds("int8", rows))


def test_int8_uses_all_its_numbers():
    """An error of more than half a 256th of the range would pass a bound of a 255th."""
    rows = np.linspace(-1, 1, 1025, dtype=np.float32)[np.newaxis]
    encoded = ROW_ENCODINGS["int8"].encode(rows)
    np.testing.assert_array_equal(np.unique(encoded[:, :-8]), np.arange(-128, 128))
    errors = np.abs(decoded("int8", rows) - rows)
    np.testing.assert_allclose(errors.max(), 2 / 256 / 2, rtol=1e-5)


@pytest.mark.parametrize("value", [0.0, 1.0, -0.1, MOST, -MOST, 1e-30])
def test_equal_elements_are_exact_in_int8(value):
    rows = np.full((2, 5), value, np.float32)
    np.testing.assert_array_equal(decoded("int8", rows), rows)


@pytest.mark.parametrize("row_dtype", ["bfloat16", "float16"])
def test_sixteen_bits_are_rounded_to_the_nearest_and_keep_what_is_not_finite(row_dtype):
    rows = np.float32([[np.inf, -np.inf, np.nan, -0.0, 1.0], RNG.normal(size=5)])
    found = decoded(row_dtype, rows)
    expected = tf.cast(tf.cast(rows, row_dtype), tf.float32).numpy()
    np.testing.assert_array_equal(found, expected)
    assert np.signbit(found[0, 3])


@pytest.mark.parametrize(
    ("row_dtype", "element", "rule"),
    [
        ("int8", np.nan, "finite"),
        ("int8", np.inf, "finite"),
        ("int8", -np.inf, "finite"),
        ("float16", 65520.0, "at most 65504 in absolute value, infinite or NaN"),
        ("float16", -1e30, "at most 65504"),
        ("bfloat16", MOST, r"at most 3\.38953e\+38"),
    ],
)
@pytest.mark.parametrize("input_dim", [9, None])
def test_a_row_that_cannot_be_held_is_named(input_dim, row_dtype, element, rule, tmp_path):
    layer = Embedding(input_dim, 2, name="items")
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    keys = np.arange(9)
    rows = np.ones((9, 2), np.float32)
    rows[7, 1] = element
    layer.embeddings.import_(keys, rows)
    word = "id" if input_dim else "key"
    words = rf"must be {rule}.* with `row_dtype='{row_dtype}'`.* for {word} 7 of variable '.*items"
    with export_options(row_dtype=row_dtype), pytest.raises(ValueError, match=words):
        export(model, tmp_path / "model")
    with export_options(row_dtype=row_dtype, default=0.0):
        layer.embeddings.import_(keys, np.ones((9, 2)))
        export(model, tmp_path / "changed")
    assert np.all(layer_cases.served(tmp_path / "changed", keys[:, np.newaxis]) == 1)


@pytest.mark.parametrize("wrong", ["int4", "", np.int8, 8, ["int8"]])
def test_another_dtype_is_refused(wrong):
    words = r"`row_dtype` must be one of \('float32', 'bfloat16', 'float16', 'int8'\)"
    with pytest.raises(ValueError, match=words), export_options(row_dtype=wrong):
        pass


def filled(table, keys, scale=1.0):
    """Gives keys of a table random rows, and returns these."""
    rows = np.float32(scale * RNG.normal(size=(len(keys), table.output_dim)))
    table.import_(keys, rows)
    return rows


@pytest.mark.parametrize("way", EXPORTS)
@pytest.mark.parametrize("row_dtype", FEWER_BITS)
@pytest.mark.parametrize("input_dim", [60, None])
def test_rows_are_those_of_the_encoding_and_unseen_ones_those_of_the_model(
    input_dim, row_dtype, way, tmp_path
):
    layer = Embedding(input_dim, 5, **({"out_of_range": "zero"} if input_dim else {}))
    ids = keras.Input((3,), dtype="int64")
    model = keras.Model(ids, layer(ids))
    keys = np.arange(50)
    expected_rows = decoded(row_dtype, filled(layer.embeddings, keys))
    requests = np.concatenate([IDS, RNG.integers(-5, 70, (8, 3))])
    with export_options(row_dtype=row_dtype):
        way(model, tmp_path / "fewer")
    way(model, tmp_path / "all")
    expected = model.predict_on_batch(requests)
    np.testing.assert_array_equal(layer_cases.served(tmp_path / "all", requests), expected)
    has_row = (requests >= 0) & (requests < 50)
    if input_dim:  # rows of static tables are encoded, trained or not
        initial = model.predict_on_batch(np.arange(60).reshape(20, 3)).reshape(60, 5)
        expected_rows = decoded(row_dtype, initial)
        has_row = (requests >= 0) & (requests < 60)
    expected[has_row] = expected_rows[requests[has_row]]
    found = layer_cases.served(tmp_path / "fewer", requests)
    np.testing.assert_array_equal(found, expected)
    assert not has_row.all()
    if way is not save_by_tensorflow:  # which has signatures alone
        loaded = keras.layers.TFSMLayer(tmp_path / "fewer", call_endpoint="serve")
        np.testing.assert_array_equal(loaded(tf.constant(requests)), expected)
        assert row_dtype in {each.dtype for each in loaded.weights}


@pytest.mark.parametrize("row_dtype", FEWER_BITS)
def test_pools_of_several_tables_are_within_the_sum_of_their_bounds(row_dtype, tmp_path):
    layers = [
        Embedding(None, 4, "sum", name="a"),
        Embedding(60, 4, "mean", name="b"),
        Embedding(None, 4, "sqrtn", name="c", admission=keras_sparse.CounterFilter(2)),
        Embedding(None, 3, "sum", name="d", dtype="mixed_bfloat16"),
    ]
    ids = keras.Input((4, 3), dtype="int64")
    weights = keras.Input((3,))
    columns = [ids[:, i] for i in range(4)]
    outputs = GroupEmbedding(layers)(columns, weights=[weights, None, weights, None])
    model = keras.Model([ids, weights], outputs)
    tables = model.trainable_variables
    rows = [filled(table, np.arange(60), 10.0**i) for i, table in enumerate(tables)]
    requests = np.stack([IDS] * 4, axis=1)
    factors = np.float32(RNG.normal(size=(8, 3)))
    expected = model([requests, factors])
    with export_options(row_dtype=row_dtype):
        export(model, tmp_path)
    loaded = tf.saved_model.load(str(tmp_path))
    answers = loaded.serve([tf.constant(requests), factors])
    squares = np.sqrt(np.sum(factors**2, axis=1, keepdims=True))
    shares = [factors, np.full((8, 3), 1 / 3), factors / squares, np.ones((8, 3))]
    for own, share, found, exact in zip(rows, shares, answers, expected, strict=True):
        limits = np.broadcast_to(bounds(row_dtype, own), own.shape)[IDS]
        limit = np.sum(np.abs(share)[..., np.newaxis] * limits, axis=1)
        exact = np.float32(exact)
        rounding = 2.0**-8 if found.dtype == tf.bfloat16 else 1e-6
        limit = limit + rounding * (np.abs(exact) + np.sum(np.abs(own[IDS]), axis=1))
        errors = np.abs(np.float32(found) - exact)
        assert np.all(errors <= limit)
        assert errors.any()


class Functions(keras.Model):
    """A model whose `call` keeps its traces."""

    def __init__(self):
        super().__init__()
        self.rows = Embedding(None, 16, "sum")
        self.rows.build((None, 3))

    @tf.function
    def call(self, ids):
        return self.rows(ids)


SIGNATURE = [tf.TensorSpec((None, 3), tf.int64)]


def by_archive(model):
    archive = keras.export.ExportArchive()
    called = archive.track_and_add_endpoint("called", model, SIGNATURE)
    archive.add_endpoint("shifted", lambda ids: called(ids + 0), SIGNATURE)
    return lambda path: archive.write_out(path, verbose=False)


def by_export(model):
    return lambda path: model.export(path, verbose=False, input_signature=SIGNATURE)


def by_tensorflow(model):
    function = tf.function(model.__call__, SIGNATURE)
    return lambda path: tf.saved_model.save(model, path, {"serve": function})


@pytest.mark.parametrize(
    ("way", "row_dtypes"),
    [
        (by_archive, [None, "int8"]),
        (by_export, ["int8", "float16"]),
        (by_tensorflow, ["int8", None]),
    ],
)
def test_each_export_of_functions_that_were_traced_has_its_own_dtype(way, row_dtypes, tmp_path):
    model = Functions()
    filled(model.rows.embeddings, np.arange(60))
    expected = model(IDS).numpy()
    save = way(model)
    for number, row_dtype in enumerate(row_dtypes):
        path = str(tmp_path / str(number))
        with export_options(row_dtype=row_dtype):
            save(path)
        loaded = tf.saved_model.load(path)
        for name, function in loaded.signatures.items():
            kinds = {each.dtype.name for each in function.variables if each.shape.rank}
            assert kinds == {row_dtype or "float32"}, (row_dtype, name)
            (found,) = function(tf.constant(IDS)).values()
            errors = np.abs(found.numpy() - expected).max()
            assert 0 < errors < 0.1 if row_dtype else errors == 0
    np.testing.assert_array_equal(model(IDS), expected)


@pytest.mark.parametrize("row_dtype", FEWER_BITS)
def test_large_tables_go_through_files_in_pieces(row_dtype, tmp_path, monkeypatch):
    monkeypatch.setattr("keras_sparse.saved_model.saved_model_scope._MEMORY_BYTES", 90)
    monkeypatch.setattr("keras_sparse.saved_model.table_content.CHUNK_BYTES", 700)
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", tmp_path / "rows", ["1KB", "1MB"])
    layer = Embedding(None, 64, storage=storage, frequency=True)
    ids = keras.Input((1,), dtype="int64")
    model = keras.Model(ids, layer(ids))
    keys = np.arange(400)
    rows = filled(layer.embeddings, keys)
    frequencies = np.uint32(keys)
    layer.embeddings.import_(keys, rows, frequencies=frequencies)
    sizes = {}
    for name in ("float32", row_dtype):
        with export_options(row_dtype=name, rows="most_used:300", default=0.5):
            export(model, tmp_path / name)
        files = (tmp_path / name / "variables").glob("*.data*")
        sizes[name] = sum(each.stat().st_size for each in files)
    expected = np.where(keys[:, np.newaxis] >= 100, decoded(row_dtype, rows), np.float32(0.5))
    found = layer_cases.served(tmp_path / row_dtype, keys[:, np.newaxis])
    np.testing.assert_array_equal(found[:, 0], expected)
    # 301 rows of 64 elements, int8 ones with eight bytes more; keys and places are as before.
    num_bytes = {"int8": 64 + 8}.get(row_dtype, 2 * 64)
    assert sizes["float32"] - sizes[row_dtype] == 301 * (4 * 64 - num_bytes)


@pytest.mark.parametrize(
    ("form", "case", "row_dtype"),
    [
        ("functional", "distributed_dynamic", "int8"),
        ("sequential", "group_static", "int8"),
        ("subclassed", "all2all_sparse", "int8"),
        ("sequential", "all2all_dense", "bfloat16"),
        ("subclassed", "distributed_static", "float16"),
        ("functional", "own_lookup", "bfloat16"),
    ],
)
def test_models_of_any_form_differ_only_with_the_option(form, case, row_dtype, tmp_path):
    ids = tf.constant(IDS if case in layer_cases.STATIC else KEYS)
    model = layer_cases.made(form, case, ids)
    layer_cases.train(model, ids)
    signature = {} if form == "functional" else {"input_signature": SIGNATURE}
    errors = {}
    for each in (None, row_dtype):
        with export_options(row_dtype=each):
            model.export(tmp_path / str(each), verbose=False, **signature)
        found = layer_cases.served(tmp_path / str(each), ids.numpy())
        errors[each] = np.max(np.abs(found - model(ids).numpy()))
    assert errors[None] < 1e-6
    assert 1e-6 < errors[row_dtype] < 0.05


def test_a_model_of_keras_own_layers_ignores_it():
    layer = Embedding(60, 4, "sum")
    ids = keras.Input((3,), dtype="int64")
    model = keras.Model(ids, layer(ids))
    filled(layer.embeddings, np.arange(60))
    with export_options(row_dtype="int8"):
        plain = keras_sparse.serving.to_keras(model)
    np.testing.assert_allclose(plain.predict_on_batch(IDS), model.predict_on_batch(IDS), rtol=1e-6)


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize("row_dtype", FEWER_BITS)
def test_tensorflow_alone_answers_in_python_and_in_a_session(row_dtype, tmp_path):
    layer = Embedding(None, 6, "sum")
    ids = keras.Input((3,), dtype="int64")
    model = keras.Model(ids, layer(ids))
    rows = filled(layer.embeddings, np.unique(KEYS))
    with export_options(row_dtype=row_dtype):
        export(model, tmp_path / "model")
    np.savez(tmp_path / "model.npz", UNSEEN)
    script = pathlib.Path(__file__).with_name("serve_models.py")
    command = [sys.executable, str(script), str(tmp_path)]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": ""})
    expected = model.predict_on_batch(UNSEEN)
    limit = 3 * np.max(bounds(row_dtype, rows)) + 1e-6
    for loader, found in np.load(tmp_path / "model.answers.npz").items():
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit, err_msg=loader)
        np.testing.assert_allclose(found[8:], expected[8:], rtol=1e-6)
        assert np.any(found != expected)
