"""Files of tables with rows and slots in 16 bits."""

import json
import zlib

import h5py
import keras
import ml_dtypes
import numpy as np
import pytest

import checks
import keras_sparse
from checkpoint_cases import edit_manifest
from checkpoint_cases import load
from checkpoint_cases import reloaded
from checkpoint_cases import save
from checkpoint_cases import saved_parts
from checkpoint_cases import storage
from keras_sparse import native
from keras_sparse import saving
from keras_sparse.layers import Embedding
from keras_sparse.optimizers import Adagrad
from keras_sparse.optimizers import Adam
from keras_sparse.optimizers import SGD
from optimizer_cases import OPTIMIZERS
from optimizer_cases import tables_of
from pairwise import each_pair

ROWS = 40
IDS = np.random.default_rng(0).integers(0, ROWS, (48, 2))
TARGETS = np.random.default_rng(1).normal(size=(48, 1)).astype("float32")
FLOAT32 = ("float32", "float32")
DTYPES = [("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "bfloat16")]
# Slots in bfloat16 are refused for a centered velocity.
CASES = {each.ours: each for each in OPTIMIZERS if not each.arguments.get("centered")}.values()
NUMPY = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def make_model(optimizer, dtypes, rows=ROWS, **options):
    """A model of a dynamic table 5 wide and a static one 3 wide: both end within a word."""
    names = ("row_dtype", "slot_dtype", "rounding")
    dtypes = dict(zip(names, dtypes, strict=False))
    ids = keras.Input((2,), dtype="int64")
    dynamic = Embedding(None, 5, "sum", seed=1, **dtypes, **options)(ids)
    static = Embedding(rows, 3, "mean", seed=2, **dtypes)(ids)
    joined = keras.layers.Concatenate()([dynamic, static])
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.Constant(0.5))(joined)
    model = keras.Model(ids, outputs)
    model.compile(optimizer, loss="mse", run_eagerly=True)
    optimizer.build(model.trainable_variables)
    return model


def train(model, first, last):
    for at in range(first, last, 8):
        model.train_on_batch(IDS[at : at + 8], TARGETS[at : at + 8])


def raw(table):
    """The stored words of every row by its key, as bytes."""
    found, cursor = {}, 0
    while cursor >= 0:
        keys, records, cursor = native.export_raw(table.table, cursor, 1000)
        found |= zip(keys.numpy().tolist(), map(bytes, records.numpy()), strict=True)
        cursor = int(cursor)
    return found


def export(table):
    """Keys, and rows with slots in float32, in the order of keys."""
    keys, records = (np.concatenate(each) for each in zip(*table.export(), strict=True))
    return np.sort(keys), records[np.argsort(keys)]


def rounded(table, records, dtypes):
    """Row and slots of a table to the nearest number of other dtypes; slots of rows stay."""
    row, slots = table.table.layout.split(records.copy())
    parts = [row.astype(NUMPY[dtypes[0]])]
    for values in slots.values():
        is_of_row = values.shape[1] < row.shape[1]
        parts.append(values.astype(np.float32 if is_of_row else NUMPY[dtypes[1]]))
    return np.concatenate([part.astype(np.float32) for part in parts], 1)


@each_pair(form=["delta", "keras", "tiers"], case=list(CASES), dtypes=DTYPES)
def test_a_loaded_model_goes_on_bit_for_bit(form, case, dtypes, tmp_path):
    def make(name):
        tiers = {"storage": storage("DRAM_SSDHASH", tmp_path / name)} if form == "tiers" else {}
        return make_model(case.make(), dtypes, **tiers)

    whole, model = make("whole"), make("saved")
    train(whole, 0, 16)
    train(model, 0, 16)
    if form == "keras":
        loaded, at = reloaded(model, None, tmp_path, form), 16
    else:
        saving.save_checkpoint(model, tmp_path / "full", verbose=False)
        train(whole, 16, 32)
        train(model, 16, 32)
        path = saving.save_delta(model, tmp_path / "delta", verbose=False)
        loaded, at = load(make("loaded"), path), 32
    keeps_words = form != "keras" or not case.catches_up
    for _ in range(2):
        for ours, theirs in zip(tables_of(loaded), tables_of(whole), strict=True):
            if keeps_words:
                assert raw(ours) == raw(theirs)
                checks.assert_same_tables(ours, theirs)
            else:  # a row is rounded once at saving, with the steps that it has missed
                _, (_, expected) = export(ours), export(theirs)
                np.testing.assert_array_equal(
                    export(ours)[1], rounded(theirs, expected, dtypes), strict=True
                )
        if not keeps_words:
            return
        train(loaded, at, 48)
        train(whole, at, 48)


@each_pair(
    form=["checkpoint", "weights.h5"],
    kinds=[
        (FLOAT32, ("bfloat16", "bfloat16"), "rows of float32 to bfloat16 and slots of float32 to"),
        (FLOAT32, ("float16", "float32"), "rows of float32 to float16, to the nearest"),
        (("bfloat16", "bfloat16"), FLOAT32, None),
        (("float16", "float32"), FLOAT32, None),
        (("bfloat16", "float32"), ("float16", "bfloat16"), "rows of bfloat16 to float16 and slots"),
        (("float16", "bfloat16"), ("bfloat16", "float32"), "rows of float16 to bfloat16, to the"),
        (("bfloat16", "float32"), ("bfloat16", "bfloat16"), "rounds slots of float32 to bfloat16"),
    ],
    optimizer=["Adagrad", "RowWiseAdagrad"],
)
def test_another_dtype_is_loaded_exactly_or_to_the_nearest(
    form, kinds, optimizer, tmp_path, recwarn
):
    of_file, of_model, words = kinds
    makes = getattr(keras_sparse.optimizers, optimizer)
    saved = make_model(makes(0.1), of_file)
    train(saved, 0, 48)
    other = make_model(makes(0.1), of_model)
    train(other, 0, 8)
    load(other, save(saved, tmp_path, form))
    losses = [str(each.message) for each in recwarn if "rounds" in str(each.message)]
    if words is not None and optimizer == "RowWiseAdagrad" and "rounds slots" in words:
        words = None  # its slot has one float per row, and is float32
    if words is None:
        assert not [each for each in losses if "rows of" in each]
    else:
        first, second = losses
        assert words.split(" and slots")[0] in first
        assert words.split(" and slots")[0] in second
    for ours, theirs in zip(tables_of(other), tables_of(saved), strict=True):
        keys, records = export(ours)
        expected_keys, expected = export(theirs)
        np.testing.assert_array_equal(keys, expected_keys)
        np.testing.assert_array_equal(records, rounded(theirs, expected, of_model))
    train(other, 0, 8)


def test_slots_of_another_optimizer_are_left_and_rows_stay(tmp_path):
    saved = make_model(Adagrad(0.1), ("bfloat16", "bfloat16"))
    train(saved, 0, 48)
    other = make_model(Adam(0.1), ("bfloat16", "float32"))
    with (
        pytest.warns(UserWarning, match="Skipping variable loading for optimizer"),
        pytest.warns(UserWarning, match="The slots saved with .* starts with fresh ones"),
    ):
        load(other, save(saved, tmp_path, "checkpoint"))
    for ours, theirs in zip(tables_of(other), tables_of(saved), strict=True):
        width = ours.output_dim
        records, expected = export(ours)[1], export(theirs)[1]
        np.testing.assert_array_equal(records[:, :width], expected[:, :width])
        assert not records[:, width:].any()


@pytest.mark.parametrize("form", ["checkpoint", "weights.h5"])
@pytest.mark.parametrize("dtypes", [("bfloat16", "float32"), ("bfloat16", "bfloat16")])
def test_grows_into_a_larger_table(form, dtypes, tmp_path):
    saved = make_model(Adagrad(0.1), dtypes)
    train(saved, 0, 48)
    grown = make_model(Adagrad(0.1), dtypes, rows=ROWS + 9)
    initial = export(tables_of(grown)[1])[1]
    load(grown, save(saved, tmp_path, form), grow=True)
    records, expected = export(tables_of(grown)[1])[1], export(tables_of(saved)[1])[1]
    np.testing.assert_array_equal(records[:ROWS], expected)
    np.testing.assert_array_equal(records[ROWS:], initial[ROWS:])


@pytest.mark.parametrize("dtypes", [("bfloat16", "float32"), ("float16", "bfloat16")])
def test_a_model_follows_deltas_whose_segments_are_linked(dtypes, tmp_path):
    def make(name):
        return make_model(Adam(0.1), dtypes, storage=storage("DRAM_SSDHASH", tmp_path / name))

    trained, followed = make("trained"), make("followed")
    many = np.arange(6000).reshape(-1, 2)
    dynamic = tables_of(trained)[0]
    dynamic.import_(many.reshape(-1), np.sin(np.arange(6000 * 5)).reshape(-1, 5))
    train(trained, 0, 8)
    saving.save_checkpoint(trained, tmp_path / "run/step-000000001", verbose=False)
    follower = saving.Follower(followed, tmp_path / "run")
    assert follower.look()
    train(trained, 8, 24)
    saving.save_delta(trained, tmp_path / "run/step-000000003-delta", verbose=False)
    assert follower.look()
    train(trained, 24, 48)
    path = saving.save_checkpoint(trained, tmp_path / "run/step-000000006", verbose=False)
    fields = json.loads("\n".join(json.loads((path / "manifest.json").read_text())["manifest"]))
    assert len(saved_parts(fields, "segment")) > 0
    assert fields["version"] == 5
    assert follower.look()
    assert saving.verify(path) == 2
    loaded = load(make("loaded"), path)
    for ours, mine, theirs in zip(*map(tables_of, (followed, loaded, trained)), strict=True):
        checks.assert_same_tables(ours, theirs)
        checks.assert_same_tables(mine, theirs)


def header_of(path, name="embedding"):
    with h5py.File(path) as file:
        return file[f"layers/{name}/vars/header"][:].tobytes().decode()


@pytest.mark.parametrize("dtypes", [(), FLOAT32, (*FLOAT32, "nearest")])
def test_a_float32_table_is_written_as_before(dtypes, tmp_path):
    """Byte for byte what versions without dtypes wrote, which can load it."""
    model = make_model(SGD(0.1), dtypes)
    model.save_weights(tmp_path / "m.weights.h5")
    with h5py.File(tmp_path / "m.weights.h5") as file:
        vars_ = file["layers/embedding_1/vars"]
        found = {name: dataset.dtype for name, dataset in vars_.items()}
        crcs = [zlib.crc32(vars_[f"{name}_000000"][:].tobytes()) for name in ("keys", "records")]
        np.testing.assert_array_equal(vars_["records_000000"][:], tables_of(model)[1].numpy())
    assert found == {
        "header": np.uint8, "header_crc32": np.uint32,
        "keys_000000": np.int64, "records_000000": np.float32,
    }  # fmt: skip
    rows = '{"kind": "uniform", "a": -0.05, "b": 0.05, "seed": 2}'
    assert header_of(tmp_path / "m.weights.h5", "embedding_1") == (
        '{"format": "keras_sparse table", "version": 2, "input_dim": 40, "output_dim": 3, '
        '"rule": "sgd", "slot_names": [], "record_floats": 3, "initial_rows": '
        f'{rows}, "chunks": [[40, {crcs[0]}, {crcs[1]}]]}}'
    )
    load(make_model(SGD(0.1), ()), tmp_path / "m.weights.h5")
    path = saving.save_checkpoint(model, tmp_path / "a", verbose=False)
    fields = json.loads("\n".join(json.loads((path / "manifest.json").read_text())["manifest"]))
    assert fields["version"] == 1
    assert not {"row_dtype", "slot_dtype"} & set(fields["tables"][0])


def edit_header(path, **changes):
    with h5py.File(path, "a") as file:
        group = file["layers/embedding/vars"]
        fields = json.loads(group["header"][:].tobytes())
        fields = {k: v for k, v in {**fields, **changes}.items() if v is not LEFT_OUT}
        content = np.frombuffer(json.dumps(fields).encode(), np.uint8)
        del group["header"]
        group["header"] = content
        group["header_crc32"][()] = zlib.crc32(content.tobytes())


LEFT_OUT = object()
DAMAGE = [
    ({"row_dtype": "int8"}, "fields that are saved.*damaged.*`row_dtype` must be one of"),
    ({"row_dtype": 16}, "fields that are saved.*damaged.*`row_dtype` must be"),
    ({"slot_dtype": "float16"}, "fields that are saved.*damaged.*`slot_dtype` must be one of"),
    ({"row_dtype": LEFT_OUT, "slot_dtype": LEFT_OUT}, "`records_000000`"),  # of float32 then
    ({"row_dtype": "float32", "slot_dtype": "float32"}, "`records_000000`"),
    ({"rule_step": "seven"}, "fields that are saved.*damaged.*`rule_step` must be"),
    ({"version": 7}, "must be of version 2 to 6.*Received: version 7"),
]


@pytest.mark.parametrize(("changes", "words"), DAMAGE)
def test_a_header_with_other_dtypes_is_refused_before_a_change(changes, words, tmp_path):
    model = make_model(Adagrad(0.1), ("bfloat16", "bfloat16"))
    train(model, 0, 8)
    path = save(model, tmp_path, "weights.h5")
    edit_header(path, **changes)
    before = raw(tables_of(model)[0])
    with pytest.raises(ValueError, match=words):
        saving.verify(path)
    with pytest.raises(ValueError, match=words):
        model.load_weights(path)
    assert raw(tables_of(model)[0]) == before


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"row_dtype": "int8"}, "`row_dtype` must be one of"),
        ({"slot_dtype": []}, "`slot_dtype` must be"),
        ({"record_words": 3}, "`record_words` must be those of row and slots"),
        ({"row_dtype": "float32", "slot_dtype": "float32"}, "`record_words` must be those of row"),
    ],
)
def test_a_manifest_with_other_dtypes_is_refused_before_a_change(changes, words, tmp_path):
    model = make_model(Adagrad(0.1), ("bfloat16", "bfloat16"))
    train(model, 0, 8)
    path = save(model, tmp_path, "checkpoint")
    edit_manifest(path, lambda fields: fields["tables"][0].update(changes))
    before = raw(tables_of(model)[0])
    with pytest.raises(ValueError, match=words):
        saving.verify(path)
    with pytest.raises(ValueError, match=words):
        load(model, path)
    assert raw(tables_of(model)[0]) == before
