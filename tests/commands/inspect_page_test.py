import math
import re

import keras
import numpy as np
import pytest

import checkpoint_cases
import keras_sparse
from keras_sparse import saving
from keras_sparse.__main__ import main
from keras_sparse.commands.inspect_command import _with_rows
from keras_sparse.commands.inspect_command import collect
from keras_sparse.commands.row_summary import RowSummary
from keras_sparse.tables.table import RowPiece


def table_of(storage):
    """A model whose table keeps ages and frequencies, and the table."""
    ids = keras.Input((), dtype="int64")
    options = {"storage": storage, "frequency": True, "seed": 1}
    options["eviction"] = keras_sparse.GlobalStepEvict(1000, at_save=False)
    layer = keras_sparse.layers.Embedding(None, 8, name="a>b", **options)
    model = keras.Model(ids, keras.layers.Dense(1)(layer(ids)))
    model.compile(keras_sparse.optimizers.Adam(0.1), loss="mse")
    return model, layer


def train(model, keys):
    for first in range(0, len(keys), 100):
        model.train_on_batch(keys[first : first + 100], np.ones(len(keys[first : first + 100])))


def summary_of(layer):
    """What the page must say, from the table itself."""
    summary = RowSummary(layer.output_dim)
    for piece in layer.embeddings.table.export_pieces(1000):
        summary.add(piece)
    return summary


@pytest.mark.parametrize("storage_type", [None, "DRAM_SSDHASH"])
@pytest.mark.parametrize("name", ["run/step-000000020-delta", "m.weights.h5"])
def test_page_counts_each_row_of_a_table_once_as_it_is_now(name, storage_type, tmp_path):
    model, layer = table_of(checkpoint_cases.storage(storage_type, tmp_path / "tiers"))
    keys = np.random.default_rng(0).zipf(1.3, 3000) % 2000
    train(model, keys[:1500])
    saving.save_checkpoint(model, tmp_path / "run/step-000000010", verbose=False)
    train(model, keys[1000:])
    layer.erase([1, 2])
    saving.save_delta(model, tmp_path / "run/step-000000020-delta", verbose=False)
    model.save_weights(tmp_path / "m.weights.h5")
    (table,) = _with_rows(collect(str(tmp_path / name)))["tables"]
    found, expected = table["summary"], summary_of(layer)
    assert found.num_rows == layer.embeddings.num_rows == expected.num_rows
    assert found.bins == expected.bins
    assert {*found.bins} == {"norm", "age", "frequency"}
    assert [key for key, _ in found.most["frequency"]] == [
        key for key, _ in expected.most["frequency"]
    ]
    assert 1 not in dict(found.most["frequency"])


def test_histogram_and_ranking_of_known_rows():
    summary = RowSummary(2)
    for first in (0, 3):
        keys = np.arange(first, first + 3)
        # Norms 0, 1, 2 and 3, 4, 5; a slot behind the row does not count.
        records = np.float32([[3 * key / 5, 4 * key / 5, 100] for key in keys])
        summary.add(RowPiece(keys, records))
    summary.add(RowPiece(np.arange(6, 8), np.float32([[np.nan, 0], [np.inf, 0]])))
    summary.add(RowPiece(np.zeros(0, np.int64), np.zeros((0, 2), np.float32)))
    assert summary.bins == {"norm": {None: 1, 0: 1, 1: 2, 2: 2, math.inf: 2}}
    assert [key for key, _ in summary.most["norm"]] == [5, 4, 3, 2, 1, 0]


def test_page_is_one_file_with_the_saves_of_the_folder_and_names_escaped(tmp_path, capsys):
    model, _ = table_of(None)
    callback = keras_sparse.callbacks.Checkpoint(tmp_path / "run", every_steps=4, delta_every=2)
    keys = np.arange(640) % 500
    model.fit(keys, np.ones(640), batch_size=80, shuffle=False, verbose=0, callbacks=[callback])
    page = tmp_path / "page.html"
    assert main(["inspect", str(tmp_path / "run"), "--verify", "--html", str(page)]) == 0
    assert re.match("Every byte of 1 table is .*\nPage: .*page.html", capsys.readouterr().out)
    text = page.read_text()
    assert "a&gt;b" in text
    assert "a>b" not in text
    assert not any(word in text for word in ("http", "src=", "<script"))
    assert "000000006-delta" in text
    assert "Most used keys" in text


def test_page_and_json_exclude_each_other(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["inspect", str(tmp_path), "--json", "--html", "page.html"])
    assert "not allowed with" in capsys.readouterr().err
