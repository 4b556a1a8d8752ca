import ast
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


# Those without public names are for the package itself.
PACKAGES = [
    path.parent
    for path in sorted((ROOT / "keras_sparse").rglob("__init__.py"))
    if public_names(path.parent)
]
NAMES = [".".join(package.relative_to(ROOT).parts) for package in PACKAGES]


@pytest.mark.parametrize("package", PACKAGES, ids=NAMES)
def test_page_shows_every_public_name_and_no_other(package):
    (*_, stem) = package.relative_to(ROOT).parts
    page = (ROOT / "docs" / "api" / f"{stem}.md").read_text()
    shown = re.findall(r"^::: ([\w.]+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted(public_names(package))
    assert f"api/{stem}.md" in (ROOT / "mkdocs.yml").read_text()
