import importlib
import os
import pathlib
import re
import sys
import types

import keras
import tensorflow as tf
from keras.src.saving import saving_lib

import keras_sparse

PACKAGE = pathlib.Path(__file__).parents[2] / "keras_sparse"


THEIRS = {"keras", "h5py", "tensorflow"}


def is_ours(value):
    """Whether an attribute of another package is code of ours."""
    function = value.fget if isinstance(value, property) else value
    is_function = isinstance(function, types.FunctionType)  # others may import when they are asked
    return is_function and function.__code__.co_filename.startswith(f"{PACKAGE}{os.sep}")


def replaced():
    """The attributes of other packages that are ours: pairs of the owner's id and a name."""
    found = {}
    modules = [(n, m) for n, m in sys.modules.items() if n.partition(".")[0] in THEIRS]
    for name, module in modules:
        for attribute, value in dict(vars(module)).items():
            if is_ours(value):
                found[id(module), attribute] = f"{name}.{attribute}"
            if isinstance(value, type) and value.__module__.partition(".")[0] in THEIRS:
                for each in vars(value):
                    if is_ours(vars(value)[each]):
                        found[id(value), each] = f"{value.__module__}.{value.__name__}.{each}"
    return found


def owner_of(name):
    """The object that a dotted name's last part is an attribute of."""
    first, *parts = name.split(".")[:-1]
    owner = {"keras": keras, "tf": tf}[first]
    for part in parts:
        owner = getattr(owner, part)
    return owner


def test_a_page_lists_what_import_replaces():
    page = (PACKAGE.parent / "docs/explanation/keras-integration.md").read_text()
    names = re.findall(r"^\| `(.*?)` \|", page.partition("\n## ")[0], re.MULTILINE)
    assert len(names) <= 8
    found = replaced()
    listed = {(id(owner_of(name)), name.rpartition(".")[2]): name for name in names}
    # TensorFlow has the module by two names.
    (save,) = (key for key, name in listed.items() if name == "tf.saved_model.save")
    del listed[save]
    unlisted = {name for key, name in found.items() if key not in listed}
    assert unlisted == {"tensorflow.saved_model.save"}
    assert {name for key, name in listed.items() if key not in found} == set()
    assert not any(name.startswith("h5py.") for name in found.values())


def test_few_values_go_past_keras():
    """The reason is beside each: Keras stands between, and passes nothing on."""
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")]
    assert sum(source.count("contextvars.ContextVar(") for source in sources) <= 5


def test_a_package_that_is_imported_again_changes_nothing_again():
    before = keras.Model.export, saving_lib.save_model
    importlib.reload(keras_sparse)
    assert (keras.Model.export, saving_lib.save_model) == before
