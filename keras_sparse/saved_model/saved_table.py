import functools
import threading
import weakref
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.ops import resource_variable_ops

from keras_sparse.saved_model.export_options import current_options
from keras_sparse.saved_model.initial_rows import initial_rows
from keras_sparse.saved_model.pool_rows import pool_rows
from keras_sparse.saved_model.saved_model_scope import is_looking_for_resources
from keras_sparse.saved_model.table_content import default_row
from keras_sparse.saved_model.table_content import TableContent


@tf.function(input_signature=[], autograph=False)
def _do_nothing():
    return 1


class SavedIndex(tf.lookup.experimental.MutableHashTable):
    """A hash table from int64 keys to int64 values, which is filled where a SavedModel is loaded.

    Here it is empty: a save writes the keys and values that it is given. It takes any key; of
    those of TensorFlow that one needs no key for itself, and keeps nothing twice once it is loaded.

    Args:
        content: Function without arguments that returns `(keys, values)`: int64 tensors of shape
            `(n,)`.
        default_value: Integer: the value of other keys.
    """

    def __init__(self, content, default_value):
        super().__init__(tf.int64, tf.int64, default_value)
        self._content = content
        self._value_of_others = default_value

    def lookup(self, keys, name=None):
        """Returns the value of each key, in a tensor of the shape of `keys`."""
        # A constant: each tensor that a function captures costs time in each call of it.
        default = tf.constant(self._value_of_others, tf.int64)
        values = super().lookup(keys, default, name)
        values.set_shape(keys.shape)  # in a graph TensorFlow says nothing of it
        return values

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if is_looking_for_resources():
            return {}  # which TensorFlow would trace
        children = super()._trackable_children(save_type, **kwargs)
        shared = children.keys() & {"_initialize", "_destroy_resource"}  # of all indexes
        return {**children, **dict.fromkeys(shared, _do_nothing)}

    def _serialize_to_tensors(self):
        # In a graph this is what a loaded one is saved with.
        if not tf.executing_eagerly():
            return super()._serialize_to_tensors()
        keys, values = self._content()
        return {"-keys": keys, "-values": values}


_creation = threading.Lock()


class HasSavedTable:
    """A table, or what is one to a SavedModel, that has a `SavedTable`."""

    _saved_tables: Any = None

    @property
    def saved_table(self):
        """The `SavedTable` of this table for the `export_options` that hold now.

        There is one for each encoding of rows, made when it is first asked for.
        """
        encoding = current_options().encoding
        with _creation:
            if self._saved_tables is None:
                self._saved_tables = {}
            if encoding not in self._saved_tables:
                self._saved_tables[encoding] = SavedTable(self, encoding)
            return self._saved_tables[encoding]


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
        encoding: `RowEncoding` of `rows`.
    """

    NO_PLACE = 0  # of a dynamic table: where `rows` has zeros to read for keys without a row

    def __init__(self, variable, encoding):
        self._variable: Any = weakref.ref(variable)
        self._encoding = encoding
        self.is_dynamic = variable.is_dynamic
        self.output_dim = variable.output_dim
        self.content = content = TableContent(self._variable, encoding)
        with tf.init_scope(), tf.device("CPU"):
            # Not `tf.Variable`: a function that is traced again may make none.
            self.rows = resource_variable_ops.UninitializedVariable(
                trainable=False,
                shape=tf.TensorShape((variable.input_dim, encoding.width(self.output_dim))),
                dtype=tf.as_dtype(encoding.dtype),
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

    def gather(self, places):
        """Returns the rows at places in `rows`, float32, by TensorFlow's ops."""
        # Not of the variable itself, which TensorFlow would copy at each later read of it whole.
        return self._encoding.decode(tf.gather(self.rows.value(), places))

    def lookup(self, ids):
        """Returns the rows of ids of a static table, int64 of shape `(n,)`, by TensorFlow's ops."""
        variable = self._variable()
        are_inside = (ids >= 0) & (ids < variable.input_dim)
        if variable.out_of_range == "zero":
            found = self.gather(tf.where(are_inside, ids, 0))
            return tf.where(are_inside[:, tf.newaxis], found, 0.0)
        message = f"id must be in [0, {variable.input_dim}) for table '{variable.path}'"
        check = tf.debugging.Assert(tf.reduce_all(are_inside), [f"{message}. Received:", ids])
        with tf.control_dependencies([check]):
            return self.gather(ids)

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
    found = [table.gather(each) for table, each in zip(tables, places, strict=True)]
    are_missing = tf.equal(tf.concat(places, axis=0), SavedTable.NO_PLACE)
    joined = tf.concat(keys, axis=0)  # here, as each input of a condition costs an op a request

    # Short for each table: a request walks the ops of a branch that is not taken, too.
    def with_missing():
        sizes = tf.stack([tf.size(each) for each in found]) // tables[0].output_dim
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
    default, output_dim = tables[0].default.value(), tables[0].output_dim
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
    sizes = tf.stack([tf.size(table.rows.value()) for table in tables])
    return tf.equal(num_keys, 0) & (sizes > tables[0].rows.shape[1])


def saved_lookup(tables, ids, row_splits, weights, combiners, joined, dtype):
    """Does what `keras_sparse.ops.lookup` does, in ops of TensorFlow alone.

    Args:
        tables: List of `SavedTable`.
        ids, row_splits, weights, combiners, joined, dtype: As of `keras_sparse.ops.lookup`; the
            lists may be `None`.

    Returns:
        As it does. Rows have the same bits; sums of rows may differ in their last ones.
    """
    nothing = [None] * len(tables)
    lists = [nothing if each is None else each for each in (row_splits, weights, combiners)]
    inputs = zip(_read(tables, ids), *lists, strict=True)
    outputs = [each[0] if each[-1] is None else pool_rows(*each) for each in inputs]
    outputs = [tf.cast(each, dtype) for each in outputs]
    return tf.concat(outputs, axis=1) if joined else outputs


def _read(tables, ids):
    """Returns the rows of each list of ids; of dynamic tables of one kind together."""
    rows = [None] * len(tables)
    groups: dict = {}
    for i, table in enumerate(tables):
        if table.is_dynamic:
            kind = table.output_dim, table.rows_of_none()["kind"]
            groups.setdefault(kind, []).append(i)
        else:
            rows[i] = table.lookup(ids[i])
    for group in groups.values():
        found = lookup_keys([tables[i] for i in group], [ids[i] for i in group])
        for i, each in zip(group, found, strict=True):
            rows[i] = each
    return rows
