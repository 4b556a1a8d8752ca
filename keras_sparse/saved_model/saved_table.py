import threading
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from keras_sparse.saved_model.initial_rows import initial_rows
from keras_sparse.saved_model.saved_index import SavedIndex
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


class SavedTable(tf.__internal__.tracking.AutoTrackable):
    """What a SavedModel has of a table: its rows, and of a dynamic one an index of its keys.

    Nothing of it takes memory before a save, which reads the table as it is then, in pieces.

    Args:
        variable: `EmbeddingVariable`, or what is to it as one, which it does not keep alive.
    """

    def __init__(self, variable):
        self._variable: Any = weakref.ref(variable)
        self.content = content = TableContent(self._variable)
        with tf.init_scope(), tf.device("CPU"):
            # Not `tf.Variable`: a function that is traced again may make none.
            self.rows = resource_variable_ops.UninitializedVariable(
                trainable=False,
                shape=tf.TensorShape((variable.input_dim, variable.output_dim)),
                dtype=tf.float32,
                name="rows",
            )
            if variable.is_dynamic:
                self.index = SavedIndex(content.index, default_value=-1)
                self.default = resource_variable_ops.UninitializedVariable(
                    trainable=False, shape=(), dtype=tf.float32, name="default"
                )
                self.default._serialize_to_tensors = lambda: {"VARIABLE_VALUE": content.default()}
        # Of this one alone: where a graph has a copy of it, that is saved as any variable is.
        self.rows._serialize_to_tensors = lambda: {"VARIABLE_VALUE": content.rows()}
        self.rows._write_object_proto = self._describe_rows
        # By which a table is found where functions read its rows and nothing else is tracked.
        self.rows.find_table = self._variable

    def _describe_rows(self, proto, options):
        """Writes what is loaded as a variable: `TFSMLayer` of Keras takes none of unknown shape."""
        type(self.rows)._write_object_proto(self.rows, proto, options)
        shape = self.content.num_rows() + self._variable().is_dynamic, self.rows.shape[1]
        proto.variable.shape.CopyFrom(tf.TensorShape(shape).as_proto())

    def lookup(self, ids):
        """Returns the rows of ids, an int64 tensor of shape `(n,)`, in ops of TensorFlow."""
        variable = self._variable()
        if variable.is_dynamic:
            return self._dynamic_rows(variable, ids)
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

    def _dynamic_rows(self, variable, ids):
        places = self.index.lookup(ids)
        are_missing = places < 0
        rows = self.rows.value()
        num_rows = tf.shape(rows)[0]
        # The last one is zeros: something is there to be read for what is missing.
        found = tf.gather(rows, tf.maximum(places, 0))

        def with_missing():
            where = tf.where(are_missing)
            default = self.default.value()
            missing = tf.cond(
                tf.math.is_nan(default),
                lambda: _rows_of_none(variable, tf.gather_nd(ids, where)),
                lambda: tf.fill([tf.shape(where)[0], variable.output_dim], default),
            )
            # Converters to other formats keep the rows and drop what fills the index.
            is_empty = tf.equal(self.index.size(), 0) & (num_rows > 1)
            missing = tf.where(is_empty, np.float32(np.nan), missing)
            return tf.tensor_scatter_nd_update(found, where, missing)

        return tf.cond(tf.reduce_any(are_missing), with_missing, lambda: found)


def _rows_of_none(variable, keys):
    """Returns what keys without a row read as."""
    filter_value = getattr(variable.admission, "default_value_no_permission", "initializer")
    output_dim = variable.output_dim
    if filter_value != "initializer":
        return tf.fill([tf.size(keys), output_dim], tf.constant(filter_value, tf.float32))
    return initial_rows(keys, **variable.initial_rows.saved_fields(), output_dim=output_dim)
