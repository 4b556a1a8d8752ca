import dataclasses

import keras
import numpy as np

# What `keras.initializers.VarianceScaling` divides the standard deviation of its truncated normal
# by, so that the values that are left have the deviation asked for.
_TRUNCATED_STDDEV = 0.87962566103423978

NATIVE_INITIALIZERS = (
    "Zeros",
    "Ones",
    "Constant",
    "RandomUniform",
    "RandomNormal",
    "TruncatedNormal",
    "VarianceScaling",
    "GlorotUniform",
    "GlorotNormal",
    "HeUniform",
    "HeNormal",
    "LecunUniform",
    "LecunNormal",
)


@dataclasses.dataclass(frozen=True)
class InitialRows:
    """What the native table makes the initial row of a key from.

    Args:
        kind: `"constant"` (a: value), `"uniform"` (a: minval, b: maxval), `"normal"` or
            `"truncated_normal"` (a: mean, b: stddev).
        a, b: Floats, as `kind` says.
        seed: Integer that fits int64.
        first_column, key_stride, key_offset: Integers. In a part of a whole table the row of a key
            is the columns from `first_column` on of the row that key `key * key_stride +
            key_offset` has there.
    """

    kind: str
    a: float
    b: float
    seed: int
    first_column: int = 0
    key_stride: int = 1
    key_offset: int = 0

    def saved_fields(self):
        """Returns what files say of it, as a dict. They tell of whole tables, never of a part."""
        return {"kind": self.kind, "a": self.a, "b": self.b, "seed": self.seed}


def native_initial_rows(initializer, input_dim, output_dim, seed):
    """Describes a Keras initializer to the native table.

    The numbers of `VarianceScaling` and its kind (Glorot, He, Lecun) depend on the table's shape,
    as in Keras. A dynamic table has no number of rows: there `output_dim` counts as fan-in and
    fan-out.

    Args:
        initializer: A `keras.initializers.Initializer` or any callable.
        input_dim: Integer, or `None` for a dynamic table.
        output_dim: Integer. Width of a row.
        seed: Integer.

    Returns:
        `InitialRows`, or `None` if the native table cannot make such rows.

    Raises:
        ValueError: It cannot, and the table is dynamic.
    """
    kinds = keras.initializers
    call = type(initializer).__call__
    if call is kinds.Zeros.__call__:
        numbers = ("constant", 0.0, 0.0)
    elif call is kinds.Ones.__call__:
        numbers = ("constant", 1.0, 0.0)
    elif call is kinds.Constant.__call__ and np.ndim(initializer.value) == 0:
        numbers = ("constant", float(initializer.value), 0.0)
    elif call is kinds.RandomUniform.__call__:
        numbers = ("uniform", float(initializer.minval), float(initializer.maxval))
    elif call is kinds.RandomNormal.__call__:
        numbers = ("normal", float(initializer.mean), float(initializer.stddev))
    elif call is kinds.TruncatedNormal.__call__:
        numbers = ("truncated_normal", float(initializer.mean), float(initializer.stddev))
    elif call is kinds.VarianceScaling.__call__:
        numbers = _scaled_variance(initializer, (input_dim or output_dim, output_dim))
    elif input_dim is None:
        raise ValueError(
            "The initializer of a dynamic table must be one of keras.initializers."
            f"{NATIVE_INITIALIZERS}, as any key's row must follow from the seed and the key. "
            "Take one of these, or give the table an `input_dim`. Received: "
            f"{type(initializer).__name__}"
        )
    else:
        return None
    return InitialRows(*numbers, seed)


def resolve_seed(initializer, seed):
    """Returns the seed of a table, as an integer that fits int64.

    The initializer's own seed comes first, then `seed`, then Keras' default, which
    `keras.utils.set_random_seed` makes reproducible.
    """
    own = getattr(initializer, "seed", None)
    if isinstance(own, keras.random.SeedGenerator):
        high, low = (int(word) for word in keras.ops.convert_to_numpy(own.next()))
        return wrapped_seed((high << 32) ^ low)
    if seed is not None and not _has_given_seed(initializer):
        return wrapped_seed(seed)
    return wrapped_seed(0 if own is None else int(own))  # `None`: not a random initializer


def rows_in_chunks(initializer, input_dim, output_dim, chunk_rows):
    """Yields `(first id, rows)` of a static table, as the initializer's own call makes them.

    A table of one chunk is made by one call, as in Keras. In more chunks each is a call for a table
    of that many rows; a seeded Keras initializer gets a seed of its own for each, as it would
    return the same rows again otherwise.
    """
    if type(initializer).__call__ is keras.initializers.Constant.__call__:
        value = np.asarray(keras.ops.convert_to_numpy(initializer.value), np.float32)
        values = np.broadcast_to(value, (input_dim, output_dim))
        for first in range(0, input_dim, chunk_rows):
            yield first, values[first : first + chunk_rows]
        return
    for index, first in enumerate(range(0, input_dim, chunk_rows)):
        shape = (min(chunk_rows, input_dim - first), output_dim)
        rows = _reseeded(initializer, index)(shape, dtype="float32")
        rows = np.asarray(keras.ops.convert_to_numpy(rows), np.float32)
        if rows.shape != shape:
            raise ValueError(
                f"`embeddings_initializer` must return rows of the shape it is asked for, {shape}. "
                f"Received: rows.shape={rows.shape}"
            )
        yield first, rows


def _scaled_variance(initializer, shape):
    fans = {"fan_in": shape[0], "fan_out": shape[1], "fan_avg": sum(shape) / 2.0}
    axes = (initializer.input_axes, initializer.output_axes)
    if None not in axes:
        fan_in, fan_out = (int(np.prod([shape[i] for i in a], dtype=np.int64)) for a in axes)
        fans = {"fan_in": fan_in, "fan_out": fan_out, "fan_avg": (fan_in + fan_out) / 2.0}
    variance = initializer.scale / max(1.0, fans[initializer.mode])
    if initializer.distribution == "uniform":
        limit = (3.0 * variance) ** 0.5
        return "uniform", -limit, limit
    if initializer.distribution == "untruncated_normal":
        return "normal", 0.0, variance**0.5
    return "truncated_normal", 0.0, variance**0.5 / _TRUNCATED_STDDEV


def _has_given_seed(initializer):
    if not isinstance(initializer, keras.initializers.Initializer):
        return False
    return initializer.get_config().get("seed") is not None


def _reseeded(initializer, index):
    seed = getattr(initializer, "seed", None)
    if index == 0 or not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    if not isinstance(seed, int):
        return initializer
    return type(initializer).from_config({**initializer.get_config(), "seed": seed + index})


def wrapped_seed(seed):
    """Returns the int64 that has the low 64 bits of an integer."""
    return (seed + 2**63) % 2**64 - 2**63
