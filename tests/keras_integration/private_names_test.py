"""A page lists the private names of Keras and TensorFlow that we read; each is still there."""

import ast
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TFEpochIterator
from keras.src.optimizers.base_optimizer import BaseOptimizer
from keras.src.saving import saving_lib

ROOT = pathlib.Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/keras-integration.md").read_text()

# Of our own classes, which share a name with one of Keras or TensorFlow.
OURS = {
    "_call",
    "_called",
    "_clip_by_norm",
    "_epoch_iterator",
    "_layers",
    "_lock",
    "_model",
    "_name",
    "_options",
    "_outputs",
    "_path",
    "_step",
}


def owners():
    """Objects of Keras and TensorFlow, one of each kind whose private names we read."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer := keras.optimizers.Adam(gradient_accumulation_steps=2), "mse")
    optimizer.build(model.trainable_variables)
    subclassed = type("Own", (keras.Model,), {"call": lambda self, x: x})()
    subclassed(np.ones((1, 1)))
    dense, inputs = model.layers[0], keras.Input((1,))
    iterator = TFEpochIterator(tf.distribute.get_strategy(), np.ones((1, 1)))
    return [
        *(model, subclassed, optimizer, dense, dense.kernel, inputs, saving_lib, iterator),
        keras.Model(inputs, inputs + 1),
        keras.metrics.Mean(),
        keras.callbacks.TensorBoard("logs"),
        keras.export.ExportArchive(),
        saving_lib.H5IOStore,
        tf.function(lambda: 1),
        tf.data.Dataset.range(1).shuffle(1),
    ]


@pytest.fixture(scope="module", name="theirs")
def private_names_of_theirs():
    """Those that begin with one underscore."""
    names = {name for owner in owners() for name in dir(owner)}
    # An optimizer asks variables for a name that those of Keras have since 3.15.
    asked = BaseOptimizer.add_variable_from_reference.__code__.co_consts
    names.update(each for each in asked if isinstance(each, str))
    return {name for name in names if re.fullmatch("_[A-Za-z][A-Za-z0-9_]*", name)}


def names_in(path):
    """Names that a source reads, overrides, or asks for by a string."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def listed():
    _, _, section = PAGE.partition("\n## Private names")
    cells = re.findall(r"^\| (`.*?`) \|", section, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_a_page_lists_the_private_names_that_we_read(theirs):
    used = {name for path in (ROOT / "keras_sparse").rglob("*.py") for name in names_in(path)}
    assert used & theirs - OURS == listed()


def test_each_test_that_the_page_names_is_there():
    tests = {path.name for path in (ROOT / "tests").rglob("*_test.py")}
    assert {*re.findall(r"`(\w+_test\.py)`", PAGE)} <= tests
