"""What cannot be saved or loaded is a clear error, and leaves everything as it was."""

import json
import pathlib
import shutil

import h5py
import keras
import pytest

import keras_sparse
from checkpoint_cases import content
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import tables
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving import verify
from keras_sparse.saving.checkpoint import checkpoint_writer
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.checkpoint_manifest import Base
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.table_format.table_entry import History
from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.saving.table_format.table_entry import SegmentFile
from keras_sparse.saving.table_format.table_entry import TableEntry
from keras_sparse.saving.table_format.table_header import FilterHeader
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.table import RowMetadata


@pytest.fixture
def model():
    model = make_model()
    train(model, 0)
    return model


def test_a_path_is_taken_once(model, tmp_path):
    save_checkpoint(model, tmp_path / "saved")
    for save in (save_checkpoint, save_delta):
        with pytest.raises(FileExistsError, match="`path` must be new"):
            save(model, tmp_path / "saved")


def test_a_delta_needs_a_checkpoint(model, tmp_path):
    with pytest.raises(RuntimeError, match="Call `save_checkpoint` first"):
        save_delta(model, tmp_path / "delta")
    path = save_checkpoint(model, tmp_path / "saved")
    delta = save_delta(model, tmp_path / "delta")
    for gone, words in ((path, "with all its bases"), (delta, "that still exists")):
        shutil.rmtree(gone)
        with pytest.raises(RuntimeError, match=words):
            save_delta(model, tmp_path / "next")


def test_a_delta_of_a_table_that_was_cleared_is_whole(model, tmp_path):
    save_checkpoint(model, tmp_path / "saved")
    tables(model)[0].clear()
    train(model, 7)
    delta = save_delta(model, tmp_path / "delta")
    load_checkpoint(loaded := make_model(), delta)
    assert content(loaded) == content(model)


def test_a_delta_finds_what_it_goes_back_to(model, tmp_path):
    save_checkpoint(model, tmp_path / "here" / "saved")
    train(model, 1)
    save_delta(model, tmp_path / "here" / "delta")
    (tmp_path / "here").rename(tmp_path / "there")
    load_checkpoint(loaded := make_model(), tmp_path / "there" / "delta")
    assert content(loaded) == content(model)
    shutil.rmtree(tmp_path / "there" / "saved")
    with pytest.raises(FileNotFoundError, match="there is none"):
        load_checkpoint(loaded, tmp_path / "there" / "delta")
    save_checkpoint(model, tmp_path / "there" / "saved")
    with pytest.raises(FileNotFoundError, match="another checkpoint is there"):
        load_checkpoint(loaded, tmp_path / "there" / "delta")


def test_tables_of_another_model_are_whole_in_a_delta(model, tmp_path):
    """Numbers are those of a model: what is not at its place is written anew."""
    first, second = (layer for layer in model.layers if hasattr(layer, "embeddings"))
    inputs = keras.Input((2,), dtype="int64")
    turned = keras.Model(inputs, [second(inputs), first(inputs)])
    save_checkpoint(model, tmp_path / "saved")
    train(model, 3)
    delta = save_delta(turned, tmp_path / "delta")
    loaded = make_model()
    other = [layer for layer in loaded.layers if hasattr(layer, "embeddings")]
    load_checkpoint(keras.Model(inputs, [other[1](inputs), other[0](inputs)]), delta)
    assert content(loaded)[:2] == content(model)[:2]


def test_a_path_may_be_a_symbolic_link(model, tmp_path):
    (tmp_path / "real" / "run").mkdir(parents=True)
    (tmp_path / "run").symlink_to(tmp_path / "real" / "run")
    save_checkpoint(model, tmp_path / "saved")
    train(model, 1)
    save_delta(model, tmp_path / "run" / "delta")
    (tmp_path / "latest").symlink_to(tmp_path / "run" / "delta")
    load_checkpoint(loaded := make_model(), tmp_path / "latest")
    assert content(loaded) == content(model)


@pytest.mark.parametrize("training", ["x", {1: 2}, {"a": float("nan")}, {"a": object()}])
def test_training_must_come_back_from_json(training, model, tmp_path):
    with pytest.raises(ValueError, match="`training` must be a dict that JSON gives back"):
        save_checkpoint(model, tmp_path / "saved", training)
    assert not list(tmp_path.iterdir())


def test_a_model_must_be_one_and_built(model, tmp_path):
    with pytest.raises(TypeError, match=r"`model` must be a keras\.Model\. Received: Embedding"):
        save_checkpoint(model.layers[1], tmp_path / "saved")
    path = save_checkpoint(model, tmp_path / "saved")
    with pytest.raises(RuntimeError, match="`model` must be built"):
        load_checkpoint(keras.Sequential([keras_sparse.layers.Embedding(None, 4)]), path)


@pytest.mark.filterwarnings("ignore:Skipping nested container")  # Keras' own
def test_keras_file_of_a_checkpoint_names_what_loads_it(model, tmp_path):
    path = save_checkpoint(model, tmp_path / "saved")
    with pytest.raises(ValueError, match=r"load_checkpoint\(model, folder\)"):
        model.load_weights(path / "model.weights.h5")


def test_there_must_be_a_checkpoint(model, tmp_path):
    (tmp_path / "file").write_text("no folder")
    for name in ("nothing", "file"):
        with pytest.raises(FileNotFoundError, match="must be a folder with a manifest"):
            load_checkpoint(model, tmp_path / name)
    with pytest.raises(NotADirectoryError, match="`path` must be a folder"):
        save_checkpoint(model, tmp_path / "file" / "saved")
    with pytest.raises(FileNotFoundError, match="`filepath` must be a weights file, or the folder"):
        verify(tmp_path / "nothing")


@pytest.mark.parametrize("steps", [None, 9])
def test_training_meanwhile_is_refused(steps, tmp_path, monkeypatch):
    model = make_model(compiled=False)
    optimizer = keras_sparse.optimizers.Adagrad(gradient_accumulation_steps=steps)
    model.compile(optimizer, "mse", run_eagerly=True)
    train(model, 0)

    class Training(checkpoint_writer.Progress):
        def close(self):
            train(model, 1)

    monkeypatch.setattr(checkpoint_writer, "Progress", Training)
    with pytest.raises(RuntimeError, match="must not be trained while it is saved"):
        save_checkpoint(model, tmp_path / "saved")
    assert list(tmp_path.iterdir()) == []


def test_tables_of_another_shape_are_refused(model, tmp_path):
    path = save_checkpoint(model, tmp_path / "saved")
    inputs = keras.Input((2,), dtype="int64")
    other = keras.Model(inputs, keras_sparse.layers.Embedding(None, 5, "sum")(inputs))
    with pytest.raises(ValueError, match=r"tables of the same shapes.*with \(dynamic, 5\)"):
        load_checkpoint(other, path)


def test_what_a_killed_process_left_goes_with_the_next_save(model, tmp_path):
    left = tmp_path / ".saved.0123456789abcdef.partial"
    left.mkdir()
    (left / "model.weights.h5").write_text("half")
    other = tmp_path / ".saved.other.0123456789abcdef.partial"
    other.mkdir()
    save_checkpoint(model, tmp_path / "saved")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".saved.other.0123456789abcdef.partial",
        "saved",
    ]


def test_a_folder_shows_what_another_rank_has_found(model, tmp_path):
    folder = CheckpointFolder(tmp_path)
    save_checkpoint(model, folder.path / folder.new_name(3, is_delta=False))
    (found,) = folder.list()
    folder.check_seen([found])
    elsewhere = found._replace(path=tmp_path / "elsewhere" / found.path.name)
    with pytest.raises(FileNotFoundError, match="must see the folder of checkpoints"):
        folder.check_seen([found, elsewhere])
    assert folder.list() == [found]


# What one process writes is what readers of version 1 know, to the byte.
TABLE = TableEntry(
    name="embedding/embeddings",
    input_dim=None,
    output_dim=4,
    rule="adagrad",
    rule_constants={"epsilon": 1e-07},
    rule_weight_decay=0.0,
    slot_names=("accumulator",),
    record_floats=8,
    record_words=8,
    metadata=RowMetadata(),
    history=History(3, 3, 3, 0, 1, 0, 0),
    initial_rows=InitialRows("uniform", -0.05, 0.05, 1),
    parts=(
        RowsFile("rows-b.h5", "/0", True, ((16, 11, 12),), (0, 0)),
        SegmentFile("b-0-000000.seg", 40, 30, "rows-b.h5", "/0/alive_000000", 13),
    ),
    filter=FilterHeader({"kind": "counter"}, ((7, None, 14, 15),)),
    group="/0",
)
# Of this table, as version 1 was written before there were ranks.
GOLDEN = pathlib.Path(__file__).with_name("version_1_manifest.json")


def manifest_of(path):
    return json.loads("\n".join(json.loads(path.read_text())["manifest"]))


def fields_of(manifest):
    """The names that it has, in their order, of each kind of table and part once."""
    tables = manifest["tables"]
    parts = [part for table in tables for part in table["parts"]]
    return list(manifest), {tuple(table) for table in tables}, {tuple(part) for part in parts}


def test_a_manifest_has_the_bytes_of_version_1(tmp_path):
    training, sizes = {"epoch": 2}, {"rows-b.h5": 100}
    manifest = Manifest("b", Base("a", "0a"), 3, training, 10, sizes, (TABLE,))
    manifest.write(tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == GOLDEN.read_bytes()
    assert Manifest.read(tmp_path) == manifest


def test_one_process_writes_the_fields_and_files_of_version_1(tmp_path):
    tiers, admission = storage("DRAM_SSDHASH", tmp_path / "tiers"), keras_sparse.CounterFilter(2)
    model = make_model(tiers, admission=admission)
    for _ in range(2):
        train_all_keys(model)
    manifests = []
    for save, name in ((save_checkpoint, "full"), (save_delta, "delta")):
        train(model, 0)
        path = save(model, tmp_path / name)
        manifests.append(manifest_of(path / "manifest.json"))
        assert manifests[-1]["version"] == 1
        rows, files = f"rows-{manifests[-1]['id']}.h5", [file.name for file in path.iterdir()]
        others = {file for file in files if not file.endswith(".seg")}
        assert others == {"manifest.json", "model.weights.h5", rows}
        assert {"manifest.json", *manifests[-1]["file_bytes"]} == set(files)
        with h5py.File(path / rows) as tables:
            assert sorted(tables) == ["0", "1"]
    fields, tables, parts = fields_of(manifest_of(GOLDEN))
    assert fields_of(manifests[0]) == (fields, tables, parts)
    rows_only = {part for part in parts if "chunks" in part}
    assert fields_of(manifests[1]) == (fields, tables, rows_only)
