from typing import Any

import keras
import numpy as np

from keras_sparse.saved_model.table_content import placed_rows


class PlainTable:
    """Does what an `Embedding` does with dense ids, in layers and ops of Keras alone.

    Args:
        layer: `Embedding`, whose options it takes.
        variable: `LocalTable` with its rows.
        name: String. Name of the `keras.layers.Embedding`.
        default: Float. What keys without a row read as, in all of their numbers.
    """

    def __init__(self, layer, variable, name, default):
        self._layer = layer
        # A bag leaves out what stands for nothing; without bags Keras has a mask for zeros.
        self._padding_id = 0 if layer.mask_zero and layer.combiner else layer.padding_id
        self._index: Any = None
        keys, rows = _content(variable)
        if variable.is_dynamic:
            if not len(keys):  # Keras wants one
                keys, rows = np.zeros(1, np.int64), np.full((1, variable.output_dim), default)
            # Keras numbers keys from one on, after those that it has not.
            self._index = keras.layers.IntegerLookup(
                vocabulary=keys,
                oov_token=other_than(keys.tolist()),
                mask_token=None,
                name=f"{name}_keys",
            )
            rows = np.concatenate([np.full((1, rows.shape[1]), default, np.float32), rows])
        self._rows = keras.layers.Embedding(
            *rows.shape,
            mask_zero=layer.mask_zero and layer.combiner is None,
            dtype="float32",
            name=name,
        )
        self._rows.build()
        self._rows.set_weights([rows])

    def __call__(self, ids, weights=None):
        """Returns the `keras.KerasTensor` of outputs for those of ids and weights."""
        ops, layer = keras.ops, self._layer
        is_padding = None if self._padding_id is None else ops.equal(ids, self._padding_id)
        is_outside = None
        if layer.out_of_range == "zero" and self._index is None:
            is_outside = ops.logical_or(ids < 0, ids >= layer.input_dim)
        rows = self._read(ids, is_padding, is_outside)
        if layer.combiner is None:
            return self._cast(rows if weights is None else rows * _column(weights))
        weights = ops.ones_like(rows[..., 0]) if weights is None else ops.cast(weights, "float32")
        if is_padding is not None:
            weights = ops.where(is_padding, 0.0, weights)
        return self._cast(_pool(rows, weights, layer.combiner))

    def _read(self, ids, is_padding, is_outside):
        """Returns a row an id, zeros where it is padding or outside."""
        gaps = [each for each in (is_padding, is_outside) if each is not None]
        is_gap = keras.ops.logical_or(*gaps) if len(gaps) == 2 else (gaps or [None])[0]
        if is_gap is not None and self._index is None:
            ids = keras.ops.where(is_gap, 0, ids)
        rows = self._rows(ids if self._index is None else self._index(ids))
        if is_gap is None:
            return rows
        return keras.ops.where(keras.ops.expand_dims(is_gap, -1), 0.0, rows)

    def _cast(self, outputs):
        dtype = self._layer.compute_dtype
        return outputs if dtype == "float32" else keras.ops.cast(outputs, dtype)


def _column(weights):
    return keras.ops.expand_dims(keras.ops.cast(weights, "float32"), -1)


def _pool(rows, weights, combiner):
    ops = keras.ops
    sums = ops.sum(rows * ops.expand_dims(weights, -1), axis=-2)
    if combiner == "sum":
        return sums
    total = ops.sum(weights if combiner == "mean" else weights * weights, axis=-1, keepdims=True)
    has_none = ops.equal(total, 0.0)
    total = ops.where(has_none, 1.0, total)
    return ops.where(has_none, 0.0, sums / (total if combiner == "mean" else ops.sqrt(total)))


def _content(variable):
    """Returns the keys of a table and its rows, in one order."""
    all_rows = np.empty((variable.num_rows, variable.output_dim), np.float32)
    all_keys = np.empty(len(all_rows), np.int64)
    for places, keys, rows in placed_rows(variable):
        all_rows[places] = rows
        all_keys[places] = keys
    return all_keys, all_rows


def other_than(keys):
    """Returns an integer that is none of the keys: Keras wants one that stands for all others."""
    known = set(keys)
    return next(i for i in range(-1, -2 - len(known), -1) if i not in known)
