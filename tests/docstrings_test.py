"""The examples in docstrings run and print what they say."""

import doctest
import importlib
import pathlib
import pkgutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse

MODULES = [
    module.name
    for module in pkgutil.walk_packages(keras_sparse.__path__, "keras_sparse.")
    if not module.name.rpartition(".")[2].startswith("_")
    and ">>> " in pathlib.Path(module.module_finder.find_spec(module.name).origin).read_text()
]


def names_of_examples():
    inputs = keras.Input((2,), dtype="int64")
    model = keras.Model(inputs, keras_sparse.layers.Embedding(10, 1, "sum")(inputs))
    return {
        "keras": keras,
        "keras_sparse": keras_sparse,
        "np": np,
        "tf": tf,
        "model": model,
        **vars(keras_sparse.ops),
        **vars(keras_sparse.layers),
        "EmbeddingVariable": keras_sparse.EmbeddingVariable,
    }


@pytest.mark.parametrize("name", MODULES)
def test_examples_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # for what they write
    result = doctest.testmod(
        importlib.import_module(name),
        extraglobs=names_of_examples(),
        optionflags=doctest.NORMALIZE_WHITESPACE,
    )
    assert result.failed == 0
