import numbers

import numpy as np
import tensorflow as tf

from keras_sparse.utils import checks

_BATCH_SIZE_OF_FIT = 32


def access_trace(ids, batch_size, ignore):
    """Yields what each training step touches.

    Args:
        ids: Array, tensor or RaggedTensor of integers, shape `(num_samples, ...)`; or an iterable
            of steps, each an array, tensor, RaggedTensor, SparseTensor or list of ids.
        batch_size: Integer. Samples in a step, or `None`: 32 of an array, and for an iterable.
        ignore: Integer, an id that is left out, or `None`.

    Yields:
        int64 array of shape `(num_keys,)`: the distinct keys of a step, ascending. An id that does
        not fit stands for its 64 bits, as in a table.

    Raises:
        TypeError: Ids that are not integers, or elements that are not ids alone.
        ValueError: `batch_size` does not belong to `ids`, or steps without an end.
    """
    if ignore is not None:
        ignore = np.array(_check_id(ignore) % 2**64, np.uint64).view(np.int64)
    is_array = isinstance(ids, tf.RaggedTensor) or hasattr(ids, "__array__")
    for step in _cut(ids, batch_size) if is_array else _steps(ids, batch_size):
        keys = np.unique(_flat(step))
        yield keys if ignore is None else keys[keys != ignore]


def _check_id(ignore):
    if not -(2**63) <= checks.integer(ignore, "ignore") < 2**64:
        raise ValueError(f"`ignore` must be an id of 64 bits. Received: ignore={ignore}")
    return int(ignore)


def _cut(ids, batch_size):
    """Yields the ids of `batch_size` samples at a time."""
    batch_size = checks.positive_or_none(batch_size, "batch_size") or _BATCH_SIZE_OF_FIT
    if isinstance(ids, tf.RaggedTensor):
        ends, *inner = (splits.numpy() for splits in ids.nested_row_splits)
        for splits in inner:
            ends = splits[ends]
        values = ids.flat_values.numpy()
    else:
        values = np.asarray(ids)
        if values.ndim == 0:
            raise ValueError("`ids` must have an axis of samples. Received: ids of shape ()")
        ends = np.arange(len(values) + 1)
    for first in range(0, len(ends) - 1, batch_size):
        yield values[ends[first] : ends[min(first + batch_size, len(ends) - 1)]]


def _steps(ids, batch_size):
    """Yields the elements of an iterable."""
    if isinstance(ids, (str, bytes, dict)) or not hasattr(ids, "__iter__"):
        raise TypeError(
            "`ids` must be an array, tensor or RaggedTensor of ids, or an iterable of them, one a "
            f"training step. Received: ids of type {type(ids).__name__}"
        )
    if batch_size is not None:
        raise ValueError(
            "`batch_size` must be None for an iterable, whose elements are the training steps; "
            "for one list of ids give np.array(ids). Received: "
            f"batch_size={batch_size!r} with ids of type {type(ids).__name__}"
        )
    if isinstance(ids, tf.data.Dataset) and int(ids.cardinality()) == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "`ids` must come to an end; take some steps with `ids.take(steps)`. Received: an "
            "infinite tf.data.Dataset"
        )
    yield from ids


def _flat(step):
    """Returns the ids of one step as an int64 array of shape `(n,)`."""
    if isinstance(step, (tuple, dict)):
        raise TypeError(
            "A step of `ids` must be ids alone; leave out features that are not of this table, "
            "and labels: `ids.map(lambda features, label: features['item'])`. Received: a "
            f"{type(step).__name__}"
        )
    if isinstance(step, list) and not all(isinstance(each, numbers.Integral) for each in step):
        return np.concatenate([_flat(each) for each in step])
    if isinstance(step, tf.RaggedTensor):
        step = step.flat_values
    elif isinstance(step, tf.SparseTensor):
        step = step.values
    values = np.asarray(step) if not isinstance(step, list) or step else np.zeros(0, np.int64)
    if values.dtype.kind not in "iu":
        raise TypeError(f"`ids` must be integers. Received: ids of dtype {values.dtype}")
    if values.ndim == 0:
        raise TypeError(
            "A step of `ids` must have an axis of ids; for one list of ids give np.array(ids) and "
            f"`batch_size`. Received: the id {values} as a step"
        )
    return values.reshape(-1).astype(np.int64)
