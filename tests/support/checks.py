"""Batteries that each class of a kind joins with one line."""

import keras
import numpy as np
import tensorflow as tf

import keras_sparse


@keras.saving.register_keras_serializable(package="tests")
class SumOfRaggedAxis(keras.layers.Layer):
    """Makes ragged rows, `(batch_size, None, dim)`, what a dense layer takes."""

    def call(self, inputs):
        return tf.reduce_sum(inputs, 1)

    def compute_output_shape(self, input_shape):
        return (input_shape[0], input_shape[-1])


def check_layer(layer, inputs, output_shape, tmp_path):
    """Config, shapes, gradients, `fit`, saving and loading of a layer that looks rows up.

    Args:
        layer: A fresh layer with one table.
        inputs: Ids, `(batch_size, ...)`: array, RaggedTensor or SparseTensor.
        output_shape: Tuple. What the layer makes of them; `None` for a ragged axis.
        tmp_path: Folder for files.
    """
    _check_config(layer)
    _check_shapes(layer, inputs, output_shape)
    model = _model(layer, inputs)
    targets = np.arange(int(inputs.shape[0]), dtype="float32")[:, np.newaxis]
    dataset = tf.data.Dataset.from_tensors((inputs, targets)).repeat(3)
    losses = model.fit(dataset, epochs=3, shuffle=False, verbose=0).history["loss"]
    assert losses[-1] < losses[0]
    model.run_eagerly = True  # compiling takes longer than the rest, and `fit` was compiled
    _check_reading_changes_nothing(layer, model, dataset)
    _check_files(layer, inputs, model, tmp_path)


def table_content(variable, chunk_rows=3):
    """Everything in a table by key: `{key: record}`, as bytes."""
    return {
        int(key): record.tobytes()
        for keys, records in variable.export(chunk_rows)
        for key, record in zip(keys, records, strict=True)
    }


def assert_same_tables(left, right):
    """Raises unless both variables hold the same keys, rows and slots, bit for bit."""
    assert table_content(left) == table_content(right)
    assert left.slot_names == right.slot_names


def _check_config(layer):
    config = layer.get_config()
    assert type(layer).from_config(config).get_config() == config
    assert not layer.supports_jit


def _check_shapes(layer, inputs, output_shape):
    outputs = layer(inputs)
    assert outputs.shape.as_list() == list(output_shape)
    assert outputs.dtype == layer.compute_dtype
    symbolic = layer(_input_of(inputs))
    assert symbolic.shape == (None, *output_shape[1:])
    assert symbolic.dtype == layer.compute_dtype
    assert isinstance(outputs, tf.RaggedTensor) == symbolic.ragged
    assert layer.compute_output_shape(tuple(inputs.shape))[-1] == output_shape[-1]


def _input_of(inputs):
    return keras.Input(
        inputs.shape[1:],
        dtype=keras.backend.standardize_dtype(inputs.dtype),
        ragged=isinstance(inputs, tf.RaggedTensor),
        sparse=isinstance(inputs, tf.SparseTensor),
    )


def _model(layer, inputs):
    ids = _input_of(inputs)
    rows = layer(ids)
    if rows.ragged:
        rows = SumOfRaggedAxis()(rows)
    outputs = keras.layers.Dense(1)(keras.layers.Flatten()(rows))
    model = keras.Model(ids, outputs)
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    return model


def _table_of(layer):
    (table,) = layer.trainable_variables
    return table


def _check_reading_changes_nothing(layer, model, dataset):
    before = table_content(_table_of(layer))
    model.evaluate(dataset.take(1), verbose=0)
    model.predict(dataset.take(1), verbose=0)
    assert table_content(_table_of(layer)) == before


def _check_files(layer, inputs, model, tmp_path):
    expected = model(inputs)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_array_equal(loaded(inputs), expected)
    model.save_weights(tmp_path / "model.weights.h5")
    other = _model(type(layer).from_config(layer.get_config()), inputs)
    other.optimizer.build(other.trainable_variables)
    other.load_weights(tmp_path / "model.weights.h5")
    assert_same_tables(other.trainable_variables[0], _table_of(layer))
    np.testing.assert_array_equal(other(inputs), expected)
