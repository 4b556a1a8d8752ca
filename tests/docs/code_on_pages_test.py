"""The Python code of each page runs as it stands there, pasted block by block."""

import linecache
import pathlib
import re

import numpy as np
import pytest

import keras_sparse

ROOT = pathlib.Path(__file__).parents[2]
# A block with a title shows the code of the system that is its title.
BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if BLOCK.search(page.read_text())
]


def run(page):
    """Runs the blocks one after another and returns the names that they have made."""
    text = (ROOT / page).read_text()
    names = {"__name__": "__main__"}
    for block in BLOCK.finditer(text):
        # Tracebacks then show the line of the page, and AutoGraph finds the code.
        code = "\n" * text.count("\n", 0, block.start(1)) + block[1]
        linecache.cache[page] = (len(code), None, code.splitlines(keepends=True), page)
        exec(compile(code, page, "exec"), names)
    return names


def check_readme(names):
    tables = [table for layer in names["model"].layers for table in getattr(layer, "tables", ())]
    assert [table.stats()["rows"] for table in tables] == [
        len(np.unique(names["users"])),
        len(np.unique(names["items"])),
    ]


def check_embedding(names):
    assert names["layer"].stats()["rows"] == len(np.unique(names["ids"]))
    assert names["pooled"].shape == (None, 8)
    np.testing.assert_array_equal(
        names["ours"].get_weights()[0], names["keras_layer"].get_weights()[0]
    )
    ids = np.array([[4, 49, 0, 7]])
    np.testing.assert_array_equal(names["moved"](ids), names["theirs"](ids))


def check_storage(names):
    assert names["stats"]["rows"] == len(np.unique(names["ids"])) == names["curve"].distinct


def check_prefetch(names):
    films = names["model"].films.stats()["prefetch"]
    assert films["used"] + films["missed"] > 0
    assert films["staged"] > 0


def check_checkpoints(names):
    layer = next(layer for layer in names["model"].layers if layer.weights)
    assert layer.stats()["rows"] == len(np.unique(names["ids"]))


def check_from_sok(names):
    layer = names["layer"]
    assert isinstance(layer, keras_sparse.layers.All2AllSparseEmbedding)
    assert names["vectors"].shape == (1, 26, 16)
    assert [each.shape for each in names["rows"]] == [(2, 16), (2, 64)]
    (group,) = (layer for layer in names["model"].layers if layer.weights)
    assert isinstance(group, keras_sparse.layers.GroupEmbedding)
    outputs = names["model"]({name: names["features"][name] for name in ("user", "films")})
    assert [each.shape for each in outputs] == [(2, 16), (2, 64)]


def check_table_format(names):
    table = names["model"].layers[0].embeddings
    (keys, records), *_ = table.export()
    order = np.argsort(names["keys"])
    np.testing.assert_array_equal(names["keys"][order], np.sort(keys))
    np.testing.assert_array_equal(names["rows"][order], records[np.argsort(keys), :16])


CHECKS = {
    "README.md": check_readme,
    "docs/formats/table.md": check_table_format,
    "docs/guide/checkpoints.md": check_checkpoints,
    "docs/guide/embedding.md": check_embedding,
    "docs/guide/from-sok-and-deeprec.md": check_from_sok,
    "docs/guide/prefetch.md": check_prefetch,
    "docs/guide/storage.md": check_storage,
}


@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")  # by Keras, of any dataset
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run(page)
    CHECKS.get(page, lambda names: None)(names)
