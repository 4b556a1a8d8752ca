"""Keys and rows that users give by hand, as arrays, or an error that says how they must be."""

import numpy as np
import tensorflow as tf


def as_keys(keys):
    """Returns keys as an int64 array of shape `(n,)`, each with its bits.

    Args:
        keys: List, array or tensor of integers.

    Raises:
        TypeError: They are no integers.
        ValueError: They are of another shape.
    """
    rule = "`keys` must be one list of integers, of shape (n,)"
    try:
        array = np.asarray(keys)
    except ValueError as error:  # of lists of different lengths
        raise ValueError(f"{rule}. Received: {error}") from None
    if array.size == 0 and isinstance(keys, (list, tuple)):
        array = array.astype(np.int64)  # without any key it has no type
    if array.dtype.kind not in "iu":
        raise TypeError(f"{rule}, which int64 or uint64 holds. Received: keys of {array.dtype}")
    if array.ndim != 1:
        raise ValueError(f"{rule}: `np.ravel(keys)`. Received: keys.shape={array.shape}")
    return array.view(np.int64) if array.dtype == np.uint64 else array.astype(np.int64)


def check_range(keys, input_dim, path):
    """Raises ValueError unless all ids are in a static table.

    Args:
        keys: int64 array of shape `(n,)`.
        input_dim: Integer, or `None` for a dynamic table.
        path: String. Name of the table.
    """
    if input_dim is None:
        return
    outside = np.flatnonzero((keys < 0) | (keys >= input_dim))
    if len(outside):
        first = outside[0]
        raise ValueError(
            f"id must be in [0, {input_dim}) for table '{path}'. Received: keys[{first}] = "
            f"{keys[first]}"
        )


def as_records(num_keys, rows, slots, layout):
    """Returns rows, or rows with all their slots, as a float32 array of shape `(num_keys, width)`.

    Args:
        num_keys: Integer.
        rows: List, array or tensor of numbers, of shape `(num_keys, layout.width)`.
        slots: Dict of such by the names of all slots, or `None` for rows alone.
        layout: `RecordLayout` of the table.
    """
    columns = [_as_floats(rows, "rows", (num_keys, layout.width))]
    if slots is not None:
        if not isinstance(slots, dict) or set(slots) != set(layout.slot_widths):
            got = sorted(slots) if isinstance(slots, dict) else type(slots).__name__
            if not layout.slot_widths:
                raise ValueError(
                    "`slots` must be `None` for a table whose optimizer has no slots, or is not "
                    "built. Build it first: `optimizer.build(model.trainable_variables)`. "
                    f"Received: {got}"
                )
            raise ValueError(
                "`slots` must be a dict with all slots of the table's optimizer, "
                f"{sorted(layout.slot_widths)}, or `None` for rows alone. Received: {got}"
            )
        columns += [
            _as_floats(slots[name], f"slots['{name}']", (num_keys, width))
            for name, width in layout.slot_widths.items()
        ]
    return np.concatenate(columns, axis=1)


def _as_floats(values, name, shape):
    rule = f"`{name}` must be numbers of shape {shape}, a row a key"
    try:
        tensor = tf.convert_to_tensor(values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{rule}. Received: {error}") from None
    if not (tensor.dtype.is_floating or tensor.dtype.is_integer):
        raise TypeError(f"{rule}. Received: {name} of dtype {tensor.dtype.name}")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{rule}. Received: {name}.shape={tuple(tensor.shape)}")
    return tf.cast(tensor, tf.float32).numpy()
