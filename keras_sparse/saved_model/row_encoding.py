"""How a SavedModel stores the rows of tables: as float32, or in fewer bits.

A new encoding is a class here and a line in `ROW_ENCODINGS`.
"""

import abc

import numpy as np
import tensorflow as tf


class RowRefusedError(ValueError):
    """A row that an encoding cannot hold.

    Args:
        place: Integer. Which of the rows.
        rule: String. What the encoding holds, as an end of "The elements of a row must be".
    """

    def __init__(self, place, rule):
        super().__init__(rule)
        self.place = place
        self.rule = rule


class RowEncoding(abc.ABC):
    """Encodes rows by NumPy for an export, and decodes them by TensorFlow for a request.

    Attributes:
        dtype: NumPy dtype of encoded rows.
    """

    dtype: np.dtype

    def width(self, output_dim):
        """Returns the number of elements of an encoded row."""
        return output_dim

    @abc.abstractmethod
    def encode(self, rows):
        """Encodes rows.

        Args:
            rows: float32 array of shape `(n, output_dim)`.

        Returns:
            Array of `dtype` and shape `(n, width(output_dim))`.

        Raises:
            RowRefusedError: The encoding cannot hold one of the rows.
        """

    @abc.abstractmethod
    def decode(self, encoded):
        """Decodes rows that a request has gathered.

        Args:
            encoded: Tensor of `dtype` and shape `(n, width(output_dim))`.

        Returns:
            float32 tensor of shape `(n, output_dim)`.
        """


class Float32Rows(RowEncoding):
    """Stores rows as they are."""

    dtype = np.dtype(np.float32)

    def encode(self, rows):
        return rows

    def decode(self, encoded):
        return encoded


class HalfRows(RowEncoding):
    """Stores rows in a 16-bit float, rounded to the nearest number.

    Infinity and NaN are kept. A finite element that would round to infinity is refused.

    Args:
        dtype: `tf.bfloat16` or `tf.float16`.
    """

    def __init__(self, dtype):
        self.dtype = np.dtype(dtype.as_numpy_dtype)
        self._rule = f"at most {float(dtype.max):.6g} in absolute value, infinite or NaN"

    def encode(self, rows):
        with np.errstate(over="ignore"):
            encoded = rows.astype(self.dtype)
        _check_all(np.isfinite(encoded) | ~np.isfinite(rows), self._rule)
        return encoded

    def decode(self, encoded):
        return tf.cast(encoded, tf.float32)


class Int8Rows(RowEncoding):
    """Stores a row as int8 numbers `q`, and reads `scale * q + offset`.

    The range of each row is cut into 256 cells of one length, the scale. `q` is the number of an
    element's cell, from -128, and the offset is the centre of cell 0: an element is read as the
    centre of its cell, at most half a scale away, and never beyond the range of its row. A row of
    equal elements has the scale 0 and is exact. Rows must be finite.

    The last eight bytes of an encoded row are the scale and the offset, as float32: one gather
    reads all of a row, from one place in memory.
    """

    dtype = np.dtype(np.int8)
    _PARAMETERS = 2  # scale and offset
    _PARAMETER_BYTES = 8
    # A server's threads compute with zero in place of smaller numbers.
    _LEAST_SCALE = np.finfo(np.float32).tiny

    def width(self, output_dim):
        return output_dim + self._PARAMETER_BYTES

    def encode(self, rows):
        _check_all(np.isfinite(rows), "finite")
        # In float64, where neither a range overflows nor a centre is rounded.
        least, most = (each(rows, axis=1, keepdims=True) for each in (np.min, np.max))
        least, most = least.astype(np.float64), most.astype(np.float64)
        scale = np.maximum((most - least) / 256, self._LEAST_SCALE).astype(np.float32)
        scale[least == most] = 0
        offset = ((least + most) / 2 + np.float64(scale) / 2).astype(np.float32)
        cells = np.subtract(rows, offset, dtype=np.float64)
        cells /= np.where(scale == 0, 1, scale)
        np.rint(cells, out=cells)
        np.clip(cells, -128, 127, out=cells)
        parameters = np.concatenate([scale, offset], axis=1)
        return np.concatenate([cells.astype(np.int8), parameters.view(np.int8)], axis=1)

    def decode(self, encoded):
        cells = tf.cast(encoded[:, : -self._PARAMETER_BYTES], tf.float32)
        parameters = tf.reshape(encoded[:, -self._PARAMETER_BYTES :], (-1, self._PARAMETERS, 4))
        # Faster than slices of columns.
        scale, offset = tf.split(tf.bitcast(parameters, tf.float32), self._PARAMETERS, axis=1)
        return cells * scale + offset


ROW_ENCODINGS: dict[str, RowEncoding] = {
    "float32": Float32Rows(),
    "bfloat16": HalfRows(tf.bfloat16),
    "float16": HalfRows(tf.float16),
    "int8": Int8Rows(),
}


def _check_all(are_held, rule):
    """Raises RowRefusedError for the first row with an element that is not held."""
    are_held = are_held.all(axis=1)
    if not are_held.all():
        raise RowRefusedError(int(np.argmin(are_held)), rule)
