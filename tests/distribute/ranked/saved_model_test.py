"""What ranks have together becomes one SavedModel."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
import small_disks
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.layers import All2AllDenseEmbedding
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.layers import GroupEmbedding
from keras_sparse.saved_model.row_encoding import ROW_ENCODINGS

LARGE = 2**40


def batch(rank, num_inputs):
    """Other ids on each rank, those of the first input large."""
    ids = np.random.default_rng(rank).integers(0, 9, (num_inputs, 8, 3))
    ids[0] += LARGE
    return list(ids)


def trained(layer, num_inputs):
    """A model of the rows of all inputs, which has taken some steps."""
    ids = [keras.Input((3,), dtype="int64") for _ in range(num_inputs)]
    rows = [keras.layers.Flatten()(each) for each in keras.tree.flatten(layer(ids))]
    model = keras.Model(ids, keras.layers.Concatenate()(rows) if num_inputs > 1 else rows[0])
    model.compile(
        ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.5)), loss="mse", run_eagerly=True
    )
    data = batch(ksd.rank(), num_inputs)
    for half in (slice(4), slice(4, 8)):
        ids = [each[half] for each in data]
        model.train_on_batch(ids, np.ones((4, model.output_shape[1])))
    return model


def tables():
    """Of the first two inputs the rows themselves, of the third one means."""
    wide = Embedding(9, 4, "mean", seed=2, out_of_range="zero", name="wide")
    return [Embedding(None, 4, seed=0, name="keys"), Embedding(9, 2, seed=1), wide]


LAYERS = {
    "whole": lambda: DistributedEmbedding(tables(), input_table_map=[0, 1, 2, 1]),
    "columns": lambda: DistributedEmbedding(tables(), column_slice_threshold=16),
    "rows": lambda: DistributedEmbedding(tables(), row_slice_threshold=1),
    "copies": lambda: DistributedEmbedding(tables(), data_parallel_threshold=10**6),
    "joined": lambda: GroupEmbedding(
        [Embedding(None, 4, "mean", seed=0), Embedding(9, 4, "sum", seed=1)], output_mode="concat"
    ),
}


def save_by_tensorflow(model, path):
    tf.saved_model.save(model, str(path))


def export(model, path):
    model.export(path)


def served(path, inputs):
    serve = tf.saved_model.load(str(path)).signatures["serving_default"]
    names = sorted(serve.structured_input_signature[1], key=lambda name: (len(name), name))
    (answer,) = serve(**dict(zip(names, map(tf.constant, inputs), strict=True))).values()
    return answer.numpy()


@pytest.mark.parametrize("name", LAYERS)
def test_all_ranks_export_one_model_with_whole_tables(name, folder, capsys):
    layer = LAYERS[name]()
    model = trained(layer, layer.templates.num_inputs)
    requests = batch(ksd.rank(), layer.templates.num_inputs)
    export(model, folder / "model")
    assert ("Saved artifact" in capsys.readouterr().out) == (ksd.rank() == 0)
    expected, answers = model.predict_on_batch(requests), served(folder / "model", requests)
    np.testing.assert_allclose(answers, expected, rtol=1e-6)
    if name != "joined":  # means may have other last bits
        np.testing.assert_array_equal(answers[:, :18], expected[:, :18])


def rows_of_slots(width=4, seed=0, **options):
    """A model with a dynamic table that gives a row a key, trained on some, and its keys."""
    layer = All2AllDenseEmbedding(1000, width, slot_num=3, nnz_per_slot=1, seed=seed, **options)
    keys = keras.Input((3, 1), dtype="int64")
    model = keras.Model(keys, layer(keys))
    model.compile(
        ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.5)), loss="mse", run_eagerly=True
    )
    data = np.arange(24).reshape(8, 3, 1) * ksd.size() + ksd.rank() + LARGE
    for few in np.split(data, 4):  # the last ones are the least old
        model.train_on_batch(few, np.ones((2, 3, 1, width)))
    return model, np.concatenate(gather_objects(data, "data"))


def archive(model, path):
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", model.call, [tf.TensorSpec((None, 3, 1), tf.int64)])
    archive.write_out(path, verbose=False)


@pytest.mark.parametrize("way", [export, save_by_tensorflow, archive])
def test_rows_are_those_of_the_ranks_bit_for_bit(way, folder, monkeypatch):
    # Some of it in memory, the rest in files.
    monkeypatch.setattr("keras_sparse.saved_model.saved_model_scope._MEMORY_BYTES", 500)
    model, keys = rows_of_slots()
    keys = np.concatenate([keys, -1 - keys])  # the second half has no rows
    way(model, folder / "model")
    expected = model.predict_on_batch(keys)
    np.testing.assert_array_equal(served(folder / "model", [keys]), expected)


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ("most_recent", {"eviction": keras_sparse.GlobalStepEvict(10**6)}),
        ("most_used", {"frequency": True}),
    ],
)
def test_options_hold_for_the_whole_table(order, options, folder):
    model, keys = rows_of_slots(**options)
    last = keys[8 * ksd.rank() :][6:8]
    model.train_on_batch(last, np.ones((2, 3, 1, 4)))  # again
    with keras_sparse.serving.export_options(default=-1.0, rows=f"{order}:{6 * ksd.size()}"):
        model.export(folder / "model", verbose=False)
    are_last = (np.arange(len(keys)) % 8 >= 6)[:, None, None, None]
    expected = np.where(are_last, model.predict_on_batch(keys), -1)
    np.testing.assert_array_equal(served(folder / "model", [keys]), expected)


@pytest.mark.parametrize("row_dtype", ["bfloat16", "int8"])
def test_rows_in_fewer_bits_are_those_of_the_ranks(row_dtype, folder):
    model, keys = rows_of_slots()
    requests = np.concatenate([keys, -1 - keys])  # the second half has no rows
    expected = model.predict_on_batch(requests)
    with keras_sparse.serving.export_options(row_dtype=row_dtype):
        model.export(folder / "model", verbose=False)
    found = served(folder / "model", [requests])
    np.testing.assert_array_equal(found[len(keys) :], expected[len(keys) :])
    encoding = ROW_ENCODINGS[row_dtype]
    rows = expected[: len(keys)].reshape(-1, 4)
    decoded = encoding.decode(tf.constant(encoding.encode(rows))).numpy()
    np.testing.assert_array_equal(found[: len(keys)].reshape(-1, 4), decoded)
    assert np.any(decoded != rows)


def test_a_row_that_int8_cannot_hold_is_an_error_on_all_ranks(folder):
    model, keys = rows_of_slots()
    model.layers[-1].assign(keys[3, :1, 0], np.full((1, 4), np.nan, np.float32))
    with (
        keras_sparse.serving.export_options(row_dtype="int8"),
        pytest.raises((ValueError, RuntimeError), match="must be finite to be exported"),
    ):
        model.export(folder / "model", verbose=False)
    model.export(folder / "model", verbose=False)
    assert np.isnan(served(folder / "model", [keys[3:4]])).any()


def test_keys_that_a_filter_holds_back_read_as_it_says(folder):
    admission = keras_sparse.CounterFilter(2, default_value_no_permission=0.5)
    model, keys = rows_of_slots(admission=admission)
    model.train_on_batch(keys[:2], np.ones((2, 3, 1, 4)))
    model.export(folder / "model", verbose=False)
    answers = served(folder / "model", [keys])
    np.testing.assert_array_equal(answers, model.predict_on_batch(keys))
    assert np.all(answers[2:] == 0.5)
    assert not np.any(answers[:2] == 0.5)


def test_keys_without_a_row_read_as_the_checkpoint_says_that_was_loaded(folder):
    (model, keys), (loaded, _) = (rows_of_slots(seed=seed, name="rows") for seed in range(2))
    keras_sparse.saving.save_checkpoint(model, folder / "checkpoint")
    keras_sparse.saving.load_checkpoint(loaded, folder / "checkpoint")
    loaded.export(folder / "model", verbose=False)
    expected = model.predict_on_batch(-1 - keys)
    np.testing.assert_array_equal(served(folder / "model", [-1 - keys]), expected)


def test_an_error_of_rank_0_is_one_of_all_and_the_next_export_has_all_rows(folder, monkeypatch):
    monkeypatch.setattr("keras_sparse.saved_model.saved_model_scope._MEMORY_BYTES", 0)
    model, keys = rows_of_slots()
    num_bytes = 64 if ksd.rank() == 0 else -1
    with (
        small_disks.files_of_at_most(num_bytes),
        pytest.raises(OSError, match="must have room for its tables twice"),
    ):
        model.export(folder / "full", verbose=False)
    if ksd.rank() == 0:
        (folder / "file").write_text("")
    gather_objects(None, "written")
    with pytest.raises((tf.errors.OpError, OSError, RuntimeError), match="file"):
        model.export(folder / "file" / "model", verbose=False)
    model.export(folder / "next", verbose=False)
    expected = model.predict_on_batch(keys)
    np.testing.assert_array_equal(served(folder / "next", [keys]), expected)


def test_functions_take_static_tables_of_layers_that_nothing_tracks(folder):
    layer = DistributedEmbedding(tables()[1:])
    ids = tf.constant(np.random.default_rng(0).integers(0, 9, (8, 3)))
    expected = layer([ids, ids])
    archive = keras.export.ExportArchive()
    archive.add_endpoint(
        "sums", lambda ids: layer([ids, ids]), [tf.TensorSpec((None, 3), tf.int64)]
    )
    archive.write_out(folder / "model", verbose=False)
    loaded = tf.saved_model.load(str(folder / "model"))
    for each, of_ranks in zip(loaded.sums(ids), expected, strict=True):
        np.testing.assert_allclose(each, of_ranks, rtol=1e-6)


def test_an_error_of_another_rank_is_one_of_all(folder):
    storage = keras_sparse.StorageOption("DRAM_SSDHASH", folder / "tiers", [20_000, 4 << 20])
    model, keys = rows_of_slots(512, storage=storage)
    model.layers[-1].stats()  # returns when what is to be written is
    if ksd.rank() == 1:
        (path, *_) = sorted((folder / "tiers" / f"rank-1-of-{ksd.size()}").rglob("*.seg"))
        written = path.read_bytes()
        path.write_bytes(written[:64] + bytes(255 - byte for byte in written[64:]))
    prefix = "" if ksd.rank() == 1 else "rank 1 has failed: .*"
    words = f"{prefix}the entry at byte 64 of .* must be what was written"
    with pytest.raises((tf.errors.DataLossError, RuntimeError), match=words):
        model.export(folder / "damaged", verbose=False)
    assert not (folder / "damaged").exists()
    if ksd.rank() == 1:
        path.write_bytes(written)
    model.export(folder / "repaired", verbose=False)
    expected = model.predict_on_batch(keys)
    np.testing.assert_array_equal(served(folder / "repaired", [keys]), expected)


def test_ranks_that_export_different_models_are_refused(folder):
    ids = keras.Input((2,), dtype="int64")
    layers = [DistributedEmbedding([Embedding(9, 4, "sum", name="t")]) for _ in range(2)]
    models = [keras.Model(ids, layer([ids])[0]) for layer in layers]
    with pytest.raises(
        ValueError, match=r"must export the same model.*number \d+ \('t'\) on rank 0;"
    ):
        models[min(ksd.rank(), 1)].export(folder / "model", verbose=False)


def test_inputs_that_are_others_on_each_rank_are_refused(folder):
    ids = [keras.Input((2,), dtype="int64") for _ in range(2)]
    layer = DistributedEmbedding([Embedding(9, 4, "sum") for _ in range(2)], dp_input=False)
    own = [ids[i] for i in layer.own_inputs]
    model = keras.Model(own, keras.layers.Concatenate()(layer(own)))
    with pytest.raises(NotImplementedError, match="dp_input=False must be written by one process"):
        model.export(folder / "model", verbose=False)
