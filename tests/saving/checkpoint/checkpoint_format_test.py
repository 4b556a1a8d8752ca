"""What one process writes is what readers of version 1 know, to the byte."""

import json
import pathlib

import h5py

import keras_sparse
from checkpoint_cases import make_model
from checkpoint_cases import storage
from checkpoint_cases import train
from checkpoint_cases import train_all_keys
from keras_sparse.saving import save_checkpoint
from keras_sparse.saving import save_delta
from keras_sparse.saving.checkpoint.checkpoint_manifest import Base
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.table_format.table_entry import History
from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.saving.table_format.table_entry import SegmentFile
from keras_sparse.saving.table_format.table_entry import TableEntry
from keras_sparse.saving.table_format.table_header import FilterHeader
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.table import RowMetadata

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
