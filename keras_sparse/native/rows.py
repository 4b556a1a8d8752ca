"""Ops that put rows and filter entries into tables, read them and take them out."""

import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.check_tables import local_ids
from keras_sparse.utils import checks


def import_rows(variables, keys, records, ages=None, frequencies=None):
    """Writes rows into the tables, creating those that are not there.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        records: List of float32 tensors: rows of shape `(n, output_dim)`, which leaves the slots of
            existing rows as they are, or whole records of shape `(n, record_floats)`.
        ages: List of uint32 tensors of shape `(n,)`, as `export_rows` gives them, or of shape
            `(0,)` for ages of 0. A table that keeps no ages drops them. Defaults to `None`: ages
            of 0.
        frequencies: List of uint32 tensors likewise, of shape `(0,)` where rows keep what they have
            and new ones have 0. Defaults to `None`: that for all.
    """
    handles = handles_of(variables)
    none = [tf.zeros((0,), tf.uint32) for _ in handles]
    return library.lib.keras_sparse_import(
        handles=handles,
        keys=keys,
        records=records,
        ages=none if ages is None else ages,
        frequencies=none if frequencies is None else frequencies,
    )


def export_rows(variables, cursors, max_rows):
    """Reads the next piece of each table.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then what the call before
            returned. -1 stands for a table that is all out, which gives an empty piece.
        max_rows: Integer. A piece is about this long.

    Returns:
        `(keys, records, ages, frequencies, next_cursors)`: a list of int64 tensors of shape `(n,)`;
        a list of float32 tensors of shape `(n, record_floats)`, a record being the row, then its
        slots, both with the moves of the steps that they have missed; a list of uint32 tensors of
        shape `(n,)`, how many steps or seconds ago each row had its last gradient, or `(0,)` of a
        table that does not keep it; a list of uint32 tensors likewise, in how many steps each row
        had one; an int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the piece before.
    """
    return library.lib.keras_sparse_export(
        handles=handles_of(variables),
        cursors=cursors,
        max_rows=tf.constant(max_rows, tf.int64),
    )


def have_rows(variables, keys):
    """Says which keys have a row, in any tier.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.

    Returns:
        List of boolean tensors of shape `(n,)`. An id outside a static table has no row.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> table.assign([7, 8], [[1.0, 2.0], [3.0, 4.0]])
    >>> keras_sparse.ops.have_rows([table], [tf.constant([7, 9], tf.int64)])[0].numpy()
    array([ True, False])
    """
    return library.lib.keras_sparse_have_rows(**_by_keys(variables, keys))


def read_rows(variables, keys):
    """Reads the rows of keys with their slots. It is no lookup, and changes nothing.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`, with repeats or without.

    Returns:
        `(exist, records)`: a list of boolean tensors of shape `(n,)`, which keys have a row; a list
        of float32 tensors of shape `(n, record_floats)`, as `export_rows` gives them. A key without
        a row has what a lookup reads for it, and slots as a new row begins with them; an id outside
        a static table zeros.

    Raises:
        tf.errors.InvalidArgumentError: An id is outside a static table that refuses such.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> table.assign([7], [[1.0, 2.0]])
    >>> _, records = keras_sparse.ops.read_rows([table], [tf.constant([7, 9], tf.int64)])
    >>> records[0].numpy()
    array([[1., 2.],
           [1., 1.]], dtype=float32)
    """
    return library.lib.keras_sparse_read_rows(**_by_keys(variables, keys))


def erase_rows(variables, keys):
    """Drops rows from all tiers of dynamic tables, and what admission filters have of waiting keys.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`. A key without a row is left out.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> table.assign([7, 8], [[1.0, 2.0], [3.0, 4.0]])
    >>> _ = keras_sparse.ops.erase_rows([table], [tf.constant([8, 9], tf.int64)])
    >>> table.num_rows
    1
    """
    return library.lib.keras_sparse_erase_rows(**_by_keys(variables, keys))


def promote_rows(variables, keys):
    """Brings rows from lower tiers into the first one, as their next gradient would.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`. Those without a row are left out.

    Returns:
        `(num_promoted, versions)`: int64 tensors of shapes `(num_tables,)`, how many rows came, and
        `(num_tables, 2)`, the versions of the tables before and after.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> num_promoted, _ = keras_sparse.ops.promote_rows([table], [tf.constant([7], tf.int64)])
    >>> num_promoted.numpy()
    array([0])
    """
    return library.lib.keras_sparse_promote(**_by_keys(variables, keys))


def evict_rows(variables, eviction, with_rows=False):
    """Drops the rows of dynamic tables, in all their tiers, that a policy lets go.

    Args:
        variables: List of `EmbeddingVariable`.
        eviction: A policy of `keras_sparse.storage`. One that asks for ages must be that of the
            tables, which otherwise do not remember them, or count them in another unit.
        with_rows: Boolean. Whether to return the rows too. Defaults to `False`.

    Returns:
        int64 tensor of shape `(num_tables,)`: how many rows went. With rows `(num_evicted, keys,
        records)`: also a list of int64 tensors of shape `(n,)`, and one of float32 tensors of shape
        `(n, record_floats)`, as `export_rows` would have given them.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> table.assign([7, 8], [[0.0, 0.1], [3.0, 4.0]])
    >>> keras_sparse.ops.evict_rows([table], keras_sparse.L2WeightEvict(1.0)).numpy()
    array([1])
    """
    handles = handles_of(variables)
    if not hasattr(eviction, "needs_ages"):
        raise TypeError(
            "`eviction` must be a policy of keras_sparse.storage, like "
            f"keras_sparse.GlobalStepEvict(100_000). Received: eviction={eviction!r}"
        )
    constants = eviction.constants()
    num_evicted, keys, records = library.lib.keras_sparse_evict(
        handles=handles,
        constants=tf.constant([float(each) for each in constants.values()], tf.float64),
        policy=eviction.kind,
        constant_names=list(constants),
        with_rows=with_rows,
    )
    return (num_evicted, keys, records) if with_rows else num_evicted


def import_filter(variables, keys, counts):
    """Writes what `export_filter` has read into filters of the same kind, count and size.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        counts: List of uint32 tensors of shape `(n,)`.
    """
    return library.lib.keras_sparse_import_filter(
        handles=handles_of(variables), keys=keys, counts=counts
    )


def export_filter(variables, cursors, max_entries):
    """Reads the next piece of what each table's admission filter remembers.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then what the call before
            returned. -1 stands for a filter that is all out, which gives an empty piece.
        max_entries: Integer. A piece is about this long.

    Returns:
        `(keys, counts, next_cursors)`: lists of int64 and of uint32 tensors of shape `(n,)`, whose
        meaning is the filter's own (docs/formats/table.md), both empty for a table without one; an
        int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the piece before.
    """
    return library.lib.keras_sparse_export_filter(
        handles=handles_of(variables),
        cursors=cursors,
        max_entries=tf.constant(max_entries, tf.int64),
    )


def _by_keys(variables, keys):
    """Returns the inputs of an op on rows by their keys."""
    handles = handles_of(variables)
    checks.same_length({"variables": variables, "keys": keys})
    keys = [local_ids(*each) for each in zip(variables, keys, strict=True)]
    return {"handles": handles, "keys": keys}
