import pathlib
import sys

import pytest

from imports import imports_of

PACKAGE = pathlib.Path(__file__).parents[3] / "keras_sparse"
# What `CostModel.measure` alone imports, when it is called.
MEASURES = ("cost_model", "keras_sparse.distribute.training.measure_speeds.measure_speeds")
ALLOWED = {*sys.stdlib_module_names, "numpy", "matplotlib", "keras_sparse"}


def file_of(name):
    """The file of a module of the package, also if a name in it follows; `None` for others."""
    parts = name.split(".")
    for path in (PACKAGE.parent.joinpath(*parts), PACKAGE.parent.joinpath(*parts[:-1])):
        if path.with_suffix(".py").is_file():
            return path.with_suffix(".py")
    return None


@pytest.mark.parametrize("name", ["placement", "plan_command"])
def test_the_planner_needs_neither_tensorflow_nor_horovod(name):
    waiting, seen = [PACKAGE / "distribute" / "planner" / f"{name}.py"], set()
    while waiting:
        path = waiting.pop()
        seen.add(path)
        for imported in imports_of(path):
            assert imported.partition(".")[0] in ALLOWED, f"{path} imports {imported}"
            if (path.stem, imported) == MEASURES:
                continue
            if imported.startswith("keras_sparse"):
                found = file_of(imported)
                assert found is not None, f"{path} imports {imported}"
                if found not in seen:
                    waiting.append(found)
    assert PACKAGE / "distribute" / "planner" / "cost_model.py" in seen
