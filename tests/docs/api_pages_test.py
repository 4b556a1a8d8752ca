import ast
import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]


def public_names(package):
    """Where `__init__.py` takes the names from that it imports as themselves, subpackages aside."""
    tree = ast.parse((package / "__init__.py").read_text())
    return [
        f"{node.module}.{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.asname == alias.name and not (package / alias.name).is_dir()
    ]


# Those without public names are for the package itself, and `native` is too.
PACKAGES = [
    path.parent
    for path in sorted((ROOT / "keras_sparse").rglob("__init__.py"))
    if public_names(path.parent) and path.parent.name != "native"
]
# What `EmbeddingVariable` has its methods of.
FACES = {
    "keras_sparse": [
        "keras_sparse.tables.local_table.LocalTable",
        "keras_sparse.tables.table.Table",
    ]
}
NAMES = [".".join(package.relative_to(ROOT).parts) for package in PACKAGES]


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_page_shows_every_public_name_and_no_other(package):
    (*_, stem) = package.relative_to(ROOT).parts
    page = (ROOT / "docs" / "api" / f"{stem}.md").read_text()
    shown = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(public_names(package) + FACES.get(stem, []))
    assert f"api/{stem}.md" in (ROOT / "mkdocs.yml").read_text()


def code_for_users():
    """Yields the code of guides, notebooks and scripts, and of examples in docstrings."""
    for page in [
        ROOT / "README.md",
        *(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "api"),
    ]:
        yield from re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    for notebook in (ROOT / "examples").glob("*.ipynb"):
        for cell in json.loads(notebook.read_text())["cells"]:
            if cell["cell_type"] == "code":
                yield "".join(cell["source"])
    for script in (ROOT / "examples").rglob("*.py"):
        yield script.read_text()
    for module in (ROOT / "keras_sparse").rglob("*.py"):
        yield from re.findall(r"^ *(?:>>>|\.\.\.) (.*)$", module.read_text(), re.MULTILINE)


def test_an_example_uses_each_public_name():
    used = set(re.findall(r"\w+", "\n".join(code_for_users())))
    for package in PACKAGES:
        names = {name.rpartition(".")[2] for name in public_names(package)}
        assert names <= used, f"{package.name}: {sorted(names - used)}"
