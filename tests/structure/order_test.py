"""Folders have an order, and each takes from those before it alone."""

import ast
import graphlib
import itertools
import pathlib
import re

import pytest

from imports import imports_of

ROOT = pathlib.Path(__file__).parents[2]

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()


def ranks_of(heading):
    """The number of the line that each folder has in the list under a heading."""
    _, _, section = CONTRIBUTING.partition(f"\n### {heading}\n")
    lines = re.search(r"```text\n(.*?)```", section, re.DOTALL)[1].splitlines()
    return {
        name: number for number, line in enumerate(lines) for name in line.split("  ")[0].split()
    }


def folder_of(path, ranks):
    """The longest beginning of a path that is one of the folders, or the path."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        if "/".join(parts[:length]) in ranks:
            return "/".join(parts[:length])
    return path


def modules():
    """The files of the package by their names in imports; stubs stand for what a build makes."""
    for path in (ROOT / "keras_sparse").rglob("*.py*"):
        if path.suffix not in (".py", ".pyi"):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        yield name.removesuffix(".__init__"), path


def imported_names(path, files):
    """Names that a file imports, wherever in it, and modules that it names in a string."""
    yield from imports_of(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and node.value in files.keys() - {"keras_sparse"}:
            yield node.value


def python_arrows():
    files = dict(modules())
    for path in files.values():
        for imported in imported_names(path, files):
            module = imported if imported in files else imported.rpartition(".")[0]
            if module in files:
                yield path_of(path), path_of(files[module])


def path_of(path):
    return str(path.relative_to(ROOT / "keras_sparse").with_suffix("")).removesuffix("/__init__")


def include_arrows(folder):
    for path in (ROOT / folder).rglob("*.[ch]*"):
        for included in re.findall(rf'#include "{folder}/([^"]+)"', path.read_text()):
            yield str(path.relative_to(ROOT / folder)), included


def upward(arrows, heading):
    """Those of the arrows that lead to a later line, or to another folder of the same one."""
    ranks, found, arrows = ranks_of(heading), set(), list(arrows)
    assert len(arrows) > 100
    for begin, end in arrows:
        folders = folder_of(begin, ranks), folder_of(end, ranks)
        assert ranks.keys() >= {*folders}, f"{folders} must be in the list"
        if folders[0] != folders[1] and ranks[folders[0]] <= ranks[folders[1]]:
            found.add(f"{begin} -> {end}")
    return found


@pytest.mark.parametrize("folder", ["keras_sparse", "ops/core", "ops/tf"])
def test_folders_take_from_those_before_them(folder):
    arrows = python_arrows() if folder == "keras_sparse" else include_arrows(folder)
    assert upward(arrows, folder) == set()


def test_no_files_import_each_other_in_a_circle():
    """Within a folder neither, and not by an import in a function."""
    imports: dict = {}
    for begin, end in itertools.chain(python_arrows(), include_arrows("ops/core")):
        if begin != end:
            imports.setdefault(begin, set()).add(end)
    assert list(graphlib.TopologicalSorter(imports).static_order())


def test_the_core_includes_nothing_of_tensorflow_or_of_the_ops():
    for path in (ROOT / "ops/core").rglob("*.[ch]*"):
        assert not re.search(r'#include [<"](tensorflow/|ops/tf/)', path.read_text()), path


def own_names(text):
    """The names that a source has in an anonymous namespace: constants, types and functions."""
    for section in re.findall(r"^namespace \{\n(.*?)^\}  // namespace$", text, re.M | re.S):
        yield from re.findall(r"^const[^=(;]*?\b(k[A-Z]\w*)(?:\[\])?\s*[={]", section, re.M)
        yield from re.findall(r"^(?:struct|class) (\w+)[^;]*?\{", section, re.M)
        yield from re.findall(r"^[A-Za-z][\w:<>*&, ]*? \**&?(\w+)\(", section, re.M)


def test_names_of_one_source_are_names_of_no_other():
    """Sources are compiled in groups, which are others once a file is added."""
    owners: dict = {}
    for path in (ROOT / "ops/core").rglob("*.cc"):
        for name in {*own_names(path.read_text())} - {"kRegistered"}:  # CMake renames that
            assert owners.setdefault(name, path) == path, f"{name} in {path} and {owners[name]}"
    assert len(owners) > 300


def test_a_cpp_test_has_the_namespace_of_its_file():
    """Several are compiled as one."""
    for path in (ROOT / "tests/ops/core").rglob("*_test.cc"):
        assert f"\nnamespace keras_sparse::{path.stem} {{\n" in path.read_text(), path
