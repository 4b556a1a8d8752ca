import ast
import importlib
import pathlib

import keras

import keras_sparse

PACKAGE = pathlib.Path(__file__).parents[2] / "keras_sparse"


def words_of(tree):
    return (node.id for node in ast.walk(tree) if isinstance(node, ast.Name))


def changed_by(path):
    """What of other packages a file assigns to, by an assignment or `setattr`."""
    tree = ast.parse(path.read_text())
    theirs = {"keras", "h5py", "tensorflow"}
    names = set()  # that stand for what comes from them
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname or a.name for a in node.names if a.name.split(".")[0] in theirs}
        elif isinstance(node, ast.ImportFrom) and node.module.split(".")[0] in theirs:
            names |= {a.asname or a.name for a in node.names}
        elif isinstance(node, ast.For) and names & {*words_of(node.iter)}:
            names |= {*words_of(node.target)}
    for node in ast.walk(tree):
        targets = getattr(node, "targets", []) if isinstance(node, ast.Assign) else []
        if isinstance(node, ast.AugAssign):
            targets = [node.target]
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
            targets = [ast.Attribute(node.args[0], "")]
        for target in targets:
            owner = target
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            if owner is not target and getattr(owner, "id", None) in names:
                yield ast.unparse(target)


def test_one_file_alone_changes_keras_and_h5py():
    changed = {path.name: set(changed_by(path)) for path in PACKAGE.rglob("*.py")}
    assert {name for name, found in changed.items() if found} == {"_keras_patches.py"}
    found = changed["_keras_patches.py"]
    assert found >= {"h5py.File.__init__", "_owner.load_weights", "saving_lib.is_memory_sufficient"}


def test_few_values_go_past_keras():
    """The reason is beside each: Keras stands between, and passes nothing on."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert sum(source.count("contextvars.ContextVar(") for source in sources) <= 5


def test_a_package_that_is_imported_again_changes_nothing_again():
    before = keras.Model.save, keras.saving.load_weights
    importlib.reload(keras_sparse)
    assert (keras.Model.save, keras.saving.load_weights) == before
