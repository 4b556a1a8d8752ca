import dataclasses
import inspect
import numbers
from typing import Any

import keras
import numpy as np

from keras_sparse import native
from keras_sparse.tables.available_memory import missing_memory

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
    """The numbers from which the native table makes the initial row of a key.

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


def check_initializer(initializer, input_dim):
    """Returns an initializer as Keras gets it; raises if a table of this kind cannot have it.

    Args:
        initializer: `keras.initializers.Initializer`, its name, or any callable.
        input_dim: Integer, or `None` for a dynamic table.
    """
    initializer = keras.initializers.get(initializer)
    if input_dim is None:
        native_initial_rows(initializer, None, 1, seed=0)
    return initializer


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
            "The initializer of a dynamic table must be one of keras.initializers "
            f"({', '.join(NATIVE_INITIALIZERS)}), `Constant` with one number for all elements, "
            "because the row of any key must follow from the seed and the key. Use one of "
            f"these, or give the table an `input_dim`. Received: {_named(initializer)}"
        )
    else:
        return None
    return InitialRows(*numbers, seed)


def _named(initializer):
    if type(initializer).__call__ is keras.initializers.Constant.__call__:
        return f"Constant of shape {np.shape(initializer.value)}"
    return getattr(initializer, "__name__", type(initializer).__name__)


def resolve_seed(initializer, seed):
    """Returns the seed of a table, as an integer that fits int64.

    The initializer's own seed comes first, then `seed`, then Keras' default, which
    `keras.utils.set_random_seed` makes reproducible.
    """
    own = getattr(initializer, "seed", None)
    if isinstance(own, keras.random.SeedGenerator):
        high, low = (int(word) for word in keras.ops.convert_to_numpy(own.next()))
        return native.wrapped_seed((high << 32) ^ low)
    if seed is not None and not _has_given_seed(initializer):
        return native.wrapped_seed(seed)
    # Otherwise no random initializer, or one that makes its rows itself.
    return native.wrapped_seed(int(own) if isinstance(own, numbers.Integral) else 0)


def rows_in_chunks(initializer, input_dim, output_dim, chunk_rows):
    """Yields `(first id, rows)` of a static table, as the initializer's own call makes them.

    It is called once for the whole table, as in Keras: what it makes may depend on the shape. One
    whose call names `partition_shape` and `partition_offset`, with which TensorFlow asks for a part
    of a variable, is asked for a chunk at a time.

    Raises:
        ValueError: There is too little memory for the whole table, or rows of another shape come.
    """
    whole = None
    if type(initializer).__call__ is keras.initializers.Constant.__call__:
        value = np.asarray(keras.ops.convert_to_numpy(initializer.value), np.float32)
        whole = np.broadcast_to(value, (input_dim, output_dim))
    elif not _makes_parts(initializer):
        _check_memory(initializer, input_dim, output_dim)
        whole = _rows(initializer((input_dim, output_dim), dtype="float32"), input_dim, output_dim)
    for first in range(0, input_dim, chunk_rows):
        num_rows = min(chunk_rows, input_dim - first)
        if whole is not None:
            yield first, whole[first : first + num_rows]
            continue
        rows = initializer(
            (input_dim, output_dim),
            dtype="float32",
            partition_shape=(num_rows, output_dim),
            partition_offset=(first, 0),
        )
        yield first, _rows(rows, num_rows, output_dim)


def _makes_parts(initializer):
    # By name: what takes any arguments may well take no notice of them.
    try:
        names = inspect.signature(initializer).parameters
    except ValueError:  # of a function that is none of Python
        return False
    return "partition_shape" in names and "partition_offset" in names


def _check_memory(initializer, input_dim, output_dim):
    if missing := missing_memory(4 * input_dim * output_dim):
        raise ValueError(
            "`embeddings_initializer` must be one of keras.initializers."
            f"{NATIVE_INITIALIZERS}, or take `partition_shape` and `partition_offset` where memory "
            "has no room for the whole table at once: name both in its `__call__`, and return the "
            "rows of that shape from that offset on. Received: "
            f"{initializer!r} for {input_dim} x {output_dim} floats of {missing}"
        )


def _rows(rows, input_dim, output_dim):
    rows = np.asarray(keras.ops.convert_to_numpy(rows), np.float32)
    if rows.shape != (input_dim, output_dim):
        raise ValueError(
            "`embeddings_initializer` must return rows of the shape it is asked for, "
            f"{(input_dim, output_dim)}. Received: rows.shape={rows.shape}"
        )
    return rows


def _scaled_variance(initializer, shape):
    fans = {"fan_in": shape[0], "fan_out": shape[1], "fan_avg": sum(shape) / 2.0}
    # Keras before 3.15 has no such arguments.
    axes: list[Any] = [getattr(initializer, name, None) for name in ("input_axes", "output_axes")]
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


def with_seed(initializer, seed):
    """Returns a random initializer with this seed in the place of its own, others as they are."""
    own = getattr(initializer, "seed", None)
    if not isinstance(own, (numbers.Integral, keras.random.SeedGenerator)) or own == seed:
        return initializer
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})


def seeded(initializer, seed):
    """Returns the initializer of a table with the table's seed, unless it was given one itself."""
    if seed is None or _has_given_seed(initializer):
        return initializer
    return with_seed(initializer, native.wrapped_seed(seed))
