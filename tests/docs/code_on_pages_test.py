"""What each page shows runs as it stands there, pasted block by block.

- Python code. Where a line ends in a value as its comment, that is its value.
- Commands of `python -m keras_sparse`. Text right below them is what they print.

A block whose title is the name of a file is saved as that file. Another title is the system whose
code it shows.
"""

import ast
import contextlib
import io
import linecache
import pathlib
import re
import shlex

import keras
import numpy as np
import pytest

import keras_sparse
from keras_sparse.__main__ import main
from keras_sparse.native import library

ROOT = pathlib.Path(__file__).parents[2]
BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<title>.*?)")?\n(?P<text>.*?)^```$', re.DOTALL | re.MULTILINE
)
PAGES = [
    str(page.relative_to(ROOT))
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if re.search(r"^```(python|bash)", page.read_text(), re.MULTILINE)
    # That one is run by tests/gpu.
    and (page.stem != "gpu-memory" or library.CUDA_VERSION)
]
QUICK_PAGES = ["README", "custom-layers", "index", "inputs", "keras-files", "many-tables"]
QUICK_PAGES += ["prefetch", "rows-by-key", "size-tiers", "storage-tiers", "table", "tables"]
OURS = "python -m keras_sparse "
# How other commands begin, and what runs those.
RUN_ELSEWHERE = {
    ". .venv/bin/activate": "make demo",
    "cd ": "CI",
    "git clone": "CI",
    "horovodrun --gloo -np 2 -H alpha:1,beta:1": "make test-hosts",
    "horovodrun --gloo -np 2 python train.py": "tests/docs/ranks_on_pages_test.py",
    "KERAS_SPARSE_CUDA=ON pip install": "tests/cmake",
    "make ": "CI",
    "pip install": "CI",
    "python -m keras_sparse install-horovod": "tests/commands",
    "python -m keras_sparse launch --ranks 2 python -m examples.dlrm": "tests/examples",
    "python -m keras_sparse --help": "tests/commands",
    "python -m benchmarks": "tests/benchmarks",
    "horovodrun --gloo -np 2 python -m examples.dlrm": "tests/examples",
    "horovodrun --gloo -np 8 -H host1:4,host2:4 python -m examples.dlrm": "tests/examples",
    "python -m examples.dlrm": "tests/examples",
    "python examples/": "tests/examples",
    "python train.py": "its block on the page",
}


def run(page):
    """Runs the blocks one after another and returns the names that they have made."""
    text = (ROOT / page).read_text()
    names = {"__name__": "__main__"}
    printed, end = "", 0
    for block in BLOCK.finditer(text):
        kind, title, content = block.groups()
        is_file = bool(title and pathlib.Path(title).suffix)
        if is_file:
            pathlib.Path(title).write_text(content)
        if kind == "python" and (is_file or not title):
            run_code(page, "\n" * text.count("\n", 0, block.start("text")) + content, names)
        if kind == "text" and printed and not text[end : block.start()].strip():
            assert content == printed
        is_session = kind == "bash" and not is_file
        printed, end = run_commands(content) if is_session else "", block.end()
    return names


def run_code(page, code, names):
    # Tracebacks then show the line of the page, and AutoGraph finds the code.
    lines = code.splitlines(keepends=True)
    linecache.cache[page] = (len(code), None, lines, page)
    for node in ast.parse(code, page).body:
        said = values_said(lines[node.end_lineno - 1])
        if isinstance(node, ast.Expr) and said:
            value = eval(compile(ast.Expression(shown(node.value)), page, "eval"), names)
            assert is_said(value, *said), f"{page}:{node.lineno}: {value}"
        else:
            exec(compile(ast.Module([node], []), page, "exec"), names)


def shown(node):
    is_print = isinstance(node, ast.Call) and getattr(node.func, "id", None) == "print"
    return node.args[0] if is_print else node


def values_said(line):
    """Returns a list of the value that is the comment of the line, or an empty one."""
    with contextlib.suppress(ValueError, SyntaxError):
        return [ast.literal_eval(line.partition("  # ")[2].strip())]
    return []


def is_said(value, said):
    if isinstance(value, list):
        return value == said
    if np.asarray(said).dtype.kind == "f":
        return np.shape(value) == np.shape(said) and np.allclose(value, said, 1e-3, 1e-3)
    return np.array_equal(value, said)


def run_commands(text):
    """Runs those of keras_sparse and returns what they have printed."""
    printed = io.StringIO()
    for line in text.replace("\\\n", "").splitlines():
        if line.startswith(("# ", *RUN_ELSEWHERE)):
            continue
        assert line.startswith(OURS), line
        with contextlib.redirect_stdout(printed):
            assert main(shlex.split(line.removeprefix(OURS), comments=True)) == 0
    return printed.getvalue().replace(str(pathlib.Path.cwd()), "/home/me")


def check_readme(names):
    tables = [table for layer in names["model"].layers for table in getattr(layer, "tables", ())]
    assert [table.stats()["rows"] for table in tables] == [
        len(np.unique(names["users"])),
        len(np.unique(names["items"])),
    ]


def check_storage(names):
    assert names["stats"]["rows"] == len(np.unique(names["ids"]))


def check_miss_curve(names):
    assert f"```text\n{names['curve']}\n```" in (ROOT / "docs/how-to/size-tiers.md").read_text()


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


def check_from_deeprec(names):
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
    "docs/how-to/checkpoints.md": check_checkpoints,
    "docs/how-to/prefetch.md": check_prefetch,
    "docs/how-to/size-tiers.md": check_miss_curve,
    "docs/how-to/storage-tiers.md": check_storage,
    "docs/migrate/deeprec.md": check_from_deeprec,
    "docs/migrate/sok.md": check_from_sok,
}


@pytest.mark.filterwarnings("ignore:A total of 3 objects could not")  # which a recipe shows
@pytest.mark.filterwarnings("ignore:`shuffle=True` was passed")  # by Keras, of any dataset
@pytest.mark.parametrize(
    "page",
    [
        page
        if pathlib.Path(page).stem in QUICK_PAGES
        else pytest.param(page, marks=pytest.mark.slow("example"))
        for page in PAGES
    ],
)
def test_blocks_run_one_after_another(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    keras.utils.clear_session()  # names of layers count from the first, as where one pastes
    names = run(page)
    CHECKS.get(page, lambda names: None)(names)
