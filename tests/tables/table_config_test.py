import copy
import dataclasses
import inspect

import keras
import pytest

import keras_sparse
from keras_sparse.tables.table_config import LAYER_OPTIONS
from keras_sparse.tables.table_config import TableConfig
from keras_sparse.tables.table_part import TablePart

OPTIONS = {
    "input_dim": None,
    "output_dim": 3,
    "seed": 5,
    "storage": keras_sparse.StorageOption(storage_size=["1MB"]),
    "admission": keras_sparse.CounterFilter(2),
    "eviction": keras_sparse.GlobalStepEvict(4),
    "max_rows": 6,
}
STATIC = {"input_dim": 9, "output_dim": 3, "seed": 5, "out_of_range": "zero"}


def options_of(variable):
    return {name: getattr(variable.table.config, name) for name in LAYER_OPTIONS}


def arguments_of(function):
    parameters = inspect.signature(function).parameters.values()
    return {each.name: each.default for each in parameters}


def test_the_fields_are_the_arguments_of_a_variable():
    arguments = arguments_of(keras_sparse.EmbeddingVariable)
    fields = {each.name: each.default for each in dataclasses.fields(TableConfig)}
    assert list(fields) == list(arguments)
    assert [*fields.values()][2:] == [*arguments.values()][2:]


def test_a_layer_has_all_fields_but_those_it_has_of_keras():
    fields = {each.name for each in dataclasses.fields(TableConfig)}
    assert fields == {*LAYER_OPTIONS, "initializer", "trainable", "name", "part"}
    arguments = arguments_of(keras_sparse.layers.Embedding)
    assert arguments.keys() > {*LAYER_OPTIONS, "embeddings_initializer"}


@pytest.mark.parametrize("options", [OPTIONS, STATIC], ids=["dynamic", "static"])
def test_an_option_of_a_layer_reaches_its_table_and_a_copy_of_it(options):
    layer = keras_sparse.layers.Embedding(**options, embeddings_initializer="ones")
    layer.build()
    assert options_of(layer.embeddings).items() >= options.items()
    assert isinstance(layer.embeddings.table.config.initializer, keras.initializers.Ones)
    copied = copy.deepcopy(layer.embeddings)
    expected = {**options_of(layer.embeddings), "seed": None}  # its rows begin as those copied
    assert options_of(copied) == expected
    table = keras_sparse.layers.Embedding(**options, name="users")
    distributed = keras_sparse.layers.DistributedEmbedding([table])
    distributed.build()
    (variable,) = distributed.tables
    assert options_of(variable).items() >= options.items()
    assert variable.name == "users"


def test_a_part_has_its_shape_and_the_options_of_the_table():
    part = TablePart("users", 9, 3, first_column=1, num_columns=2, shard=1, num_shards=2)
    whole = TableConfig(**STATIC, name="users", trainable=False)
    assert whole.of_part(part) == dataclasses.replace(whole, input_dim=4, output_dim=2, part=part)
    variable = keras_sparse.EmbeddingVariable(**vars(whole.of_part(part)))
    assert (variable.input_dim, variable.output_dim, variable.part) == (4, 2, part)
    assert not variable.trainable
