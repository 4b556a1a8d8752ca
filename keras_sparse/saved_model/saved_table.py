import functools
import threading
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from keras_sparse.saved_model.initial_rows import initial_rows
from keras_sparse.saved_model.saved_index import SavedIndex
from keras_sparse.saved_model.table_content import default_row
from keras_sparse.saved_model.table_content import TableContent

_creation = threading.Lock()


class HasSavedTable:
    """A table, or what is one to a SavedModel, that has a `SavedTable`."""

    _saved_table: Any = None

    @property
    def saved_table(self):
        """The `SavedTable` of this table, made when it is first asked for."""
        with _creation:
            if self._saved_table is None:
                self._saved_table = SavedTable(self)
        return self._saved_table


@functools.cache
def _default():
    """Returns the variable of what keys without a row read as, the same in all tables of a save."""
    default = resource_variable_ops.UninitializedVariable(
        trainable=False, shape=(), dtype=tf.float32, name="default"
    )
    default._serialize_to_tensors = lambda: {"VARIABLE_VALUE": default_row()}
    return default


class SavedTable(tf.__internal__.tracking.AutoTrackable):
    """What a SavedModel has of a table: its rows, and of a dynamic one an index of its keys.

    Nothing of it takes memory before a save, which reads the table as it is then, in pieces.

    Args:
        variable: `LocalTable`, or what is to it as one, which it does not keep alive.
    """

    NO_PLACE = 0  # of a dynamic table: where `rows` has zeros to read for keys without a row

    def __init__(self, variable):
        self._variable: Any = weakref.ref(variable)
        self.is_dynamic = variable.is_dynamic
        self.content = content = TableContent(self._variable)
        with tf.init_scope(), tf.device("CPU"):
            # Not `tf.Variable`: a function that is traced again may make none.
            self.rows = resource_variable_ops.UninitializedVariable(
                trainable=False,
                shape=tf.TensorShape((variable.input_dim, variable.output_dim)),
                dtype=tf.float32,
                name="rows",
            )
            if self.is_dynamic:
                self.index = SavedIndex(content.index, self.NO_PLACE)
                self.default = _default()
        # Of this one alone: where a graph has a copy of it, that is saved as any variable is.
        self.rows._serialize_to_tensors = lambda: {"VARIABLE_VALUE": content.rows()}
        self.rows._write_object_proto = self._describe_rows
        # By which a table is found where functions read its rows and nothing else is tracked.
        self.rows.find_table = self._variable

    def _describe_rows(self, proto, options):
        """Writes what is loaded as a variable: `TFSMLayer` of Keras takes none of unknown shape."""
        type(self.rows)._write_object_proto(self.rows, proto, options)
        shape = self.content.num_rows() + self.is_dynamic, self.rows.shape[1]
        proto.variable.shape.CopyFrom(tf.TensorShape(shape).as_proto())

    def lookup(self, ids):
        """Returns the rows of ids of a static table, int64 of shape `(n,)`, by TensorFlow's ops."""
        variable = self._variable()
        # Not of the variable itself, which TensorFlow would copy at each later read of it whole.
        rows = self.rows.value()
        are_inside = (ids >= 0) & (ids < variable.input_dim)
        if variable.out_of_range == "zero":
            found = tf.gather(rows, tf.where(are_inside, ids, 0))
            return tf.where(are_inside[:, tf.newaxis], found, 0.0)
        message = f"id must be in [0, {variable.input_dim}) for table '{variable.path}'"
        check = tf.debugging.Assert(tf.reduce_all(are_inside), [f"{message}. Received:", ids])
        with tf.control_dependencies([check]):
            return tf.gather(rows, ids)

    def rows_of_none(self):
        """Returns what keys without a row read as: arguments of `initial_rows`."""
        variable = self._variable()
        filter_value = getattr(variable.admission, "default_value_no_permission", "initializer")
        if filter_value != "initializer":
            return {"kind": "constant", "a": filter_value, "b": 0.0, "seed": 0}
        return variable.initial_rows.saved_fields()


def lookup_keys(tables, keys):
    """Returns the rows of keys of dynamic tables, in ops of TensorFlow.

    All that is done for each table is to find its rows; the others are made for all tables at once.

    Args:
        tables: List of `SavedTable` of one width, whose `rows_of_none` are of one kind.
        keys: List of int64 tensors of shape `(n,)`.

    Returns:
        List of float32 tensors of shape `(n, output_dim)`.
    """
    places = [table.index.lookup(each) for table, each in zip(tables, keys, strict=True)]
    found = [
        tf.gather(table.rows.value(), each) for table, each in zip(tables, places, strict=True)
    ]
    are_missing = tf.equal(tf.concat(places, axis=0), SavedTable.NO_PLACE)
    joined = tf.concat(keys, axis=0)  # here, as each input of a condition costs an op a request

    # Short for each table: a request walks the ops of a branch that is not taken, too.
    def with_missing():
        sizes = tf.stack([tf.size(each) for each in found]) // tables[0].rows.shape[1]
        where = tf.where(are_missing)
        table = tf.searchsorted(tf.cumsum(sizes), tf.cast(where[:, 0], tf.int32), "right")
        rows = tf.where(
            tf.gather(_are_not_filled(tables), table)[:, tf.newaxis],
            np.float32(np.nan),
            _missing_rows(tables, tf.gather_nd(joined, where), table),
        )
        rows = tf.tensor_scatter_nd_update(tf.concat(found, axis=0), where, rows)
        return tf.split(rows, sizes, num=len(tables))

    return tf.cond(tf.reduce_any(are_missing), with_missing, lambda: found)


def _missing_rows(tables, keys, table):
    default, output_dim = tables[0].default.value(), tables[0].rows.shape[1]
    fields = [each.rows_of_none() for each in tables]
    a, b, seed = ([each[name] for each in fields] for name in ("a", "b", "seed"))
    return tf.cond(
        tf.math.is_nan(default),
        lambda: initial_rows(keys, fields[0]["kind"], a, b, seed, output_dim, table),
        lambda: tf.fill([tf.size(keys), output_dim], default),
    )


def _are_not_filled(tables):
    """Returns whether a table has rows and no keys: converters to other formats drop the keys."""
    num_keys = tf.stack([table.index.size() for table in tables])
    num_floats = tf.stack([tf.size(table.rows.value()) for table in tables])
    return tf.equal(num_keys, 0) & (num_floats > tables[0].rows.shape[1])
