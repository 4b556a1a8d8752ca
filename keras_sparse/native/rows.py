"""Ops that write, read and delete rows and filter entries of tables."""

import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import handles_of
from keras_sparse.native.check_tables import local_ids
from keras_sparse.utils import checks


def import_rows(variables, keys, records, ages=None, frequencies=None):
    """Writes rows into tables and creates missing rows.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        records: List of float32 tensors: rows of shape `(n, output_dim)`, which leave the slots of
            existing rows unchanged, or records of shape `(n, record_floats)`.
        ages: List of uint32 tensors of shape `(n,)`, as `export_rows` returns them, or of shape
            `(0,)` for ages of 0. A table without ages drops them. Defaults to `None`: ages of 0.
        frequencies: List of uint32 tensors of shape `(n,)`, or of shape `(0,)` if existing rows
            keep their frequencies and new rows have 0. A table without frequencies drops them.
            Defaults to `None`: shape `(0,)` for all.
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
    """Reads the next chunk of rows of each table.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then the `next_cursors` of
            the previous call. -1 marks the end of a table and gives an empty chunk.
        max_rows: Integer. Approximate number of rows in a chunk.

    Returns:
        `(keys, records, ages, frequencies, next_cursors)`. `keys` is a list of int64 tensors of
        shape `(n,)`. `records` is a list of float32 tensors of shape `(n, record_floats)`: each row
        and its slots, with missed steps applied. `ages` is a list of uint32 tensors of shape
        `(n,)`: the steps or seconds since the last gradient of each row, or shape `(0,)` for a
        table without ages. `frequencies` is such a list with the number of steps in which each row
        had a gradient. `next_cursors` is an int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the previous chunk.
    """
    return library.lib.keras_sparse_export(
        handles=handles_of(variables),
        cursors=cursors,
        max_rows=tf.constant(max_rows, tf.int64),
    )


def have_rows(variables, keys):
    """Returns which keys have a row, in any tier.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`, one per variable.

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
    """Reads the rows of keys with their slots, without changing the tables.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`, one per variable. Repeated keys are allowed.

    Returns:
        `(exist, records)`. `exist` is a list of boolean tensors of shape `(n,)`: whether each key
        has a row. `records` is a list of float32 tensors of shape `(n, record_floats)`: each row
        and its slots, with missed steps applied. A key without a row has the row that a lookup
        returns and the slots of a new row; an id outside a static table has zeros.

    Raises:
        tf.errors.InvalidArgumentError: An id is outside a static table with `out_of_range="error"`.

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
    """Deletes rows of dynamic tables from all tiers.

    The counts of keys that wait in an admission filter are deleted too.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`, one per variable. Keys without a row are
            skipped.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> table.assign([7, 8], [[1.0, 2.0], [3.0, 4.0]])
    >>> _ = keras_sparse.ops.erase_rows([table], [tf.constant([8, 9], tf.int64)])
    >>> table.num_rows
    1
    """
    return library.lib.keras_sparse_erase_rows(**_by_keys(variables, keys))


def promote_rows(variables, keys):
    """Promotes rows from lower tiers into the first tier.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`, one per variable. Keys without a row are
            skipped.

    Returns:
        `(num_promoted, versions)`: an int64 tensor of shape `(num_tables,)` with the number of
        promoted rows, and one of shape `(num_tables, 2)` with the versions of the tables before and
        after.

    Example:
    >>> table = keras_sparse.EmbeddingVariable(None, 2, initializer="ones")
    >>> num_promoted, _ = keras_sparse.ops.promote_rows([table], [tf.constant([7], tf.int64)])
    >>> num_promoted.numpy()
    array([0])
    """
    return library.lib.keras_sparse_promote(**_by_keys(variables, keys))


def evict_rows(variables, eviction, with_rows=False):
    """Evicts the rows of dynamic tables that a policy selects, from all tiers.

    Args:
        variables: List of `EmbeddingVariable`.
        eviction: Policy of `keras_sparse.storage`. A policy by age must be that of the tables,
            because other tables keep no ages or count them in another unit.
        with_rows: Boolean. Whether to return the evicted rows too. Defaults to `False`.

    Returns:
        int64 tensor of shape `(num_tables,)`: the number of evicted rows. With `with_rows=True`,
        `(num_evicted, keys, records)`, where `keys` is a list of int64 tensors of shape `(n,)` and
        `records` a list of float32 tensors of shape `(n, record_floats)` with each row and its
        slots.

    Raises:
        TypeError: `eviction` is not a policy.

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
    """Writes the entries of `export_filter` into filters of the same kind and size.

    The filters must also count the same.

    Args:
        variables: List of `EmbeddingVariable`.
        keys: List of int64 tensors of shape `(n,)`.
        counts: List of uint32 tensors of shape `(n,)`.
    """
    return library.lib.keras_sparse_import_filter(
        handles=handles_of(variables), keys=keys, counts=counts
    )


def export_filter(variables, cursors, max_entries):
    """Reads the next chunk of the state of each table's admission filter.

    Args:
        variables: List of `EmbeddingVariable`.
        cursors: int64 tensor of shape `(num_tables,)`: zeros at first, then the `next_cursors` of
            the previous call. -1 marks the end of a filter and gives an empty chunk.
        max_entries: Integer. Approximate number of entries in a chunk.

    Returns:
        `(keys, counts, next_cursors)`: lists of int64 and of uint32 tensors of shape `(n,)`, whose
        meaning depends on the filter (docs/formats/table.md) and which are empty for a table
        without one; and an int64 tensor of shape `(num_tables,)`.

    Raises:
        tf.errors.FailedPreconditionError: A table has changed since the previous chunk.
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
