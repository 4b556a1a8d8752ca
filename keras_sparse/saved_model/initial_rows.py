"""Initial rows in ops of TensorFlow: bit for bit what `ops/core/record/initial_rows.h` makes.

Each line is one of that file and of `ops/core/math`, in its order: every op here rounds as IEEE 754
says, and the optimizers of TensorFlow's graphs turn none of them into another sum.
"""

import numpy as np
import tensorflow as tf

# Philox4x32-10: see ops/core/math/philox.h.
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_STEPS = ((0, 0x9E3779B9), (32, 0xBB67AE85))  # which word of the seed, and what a round adds
_WORD = 0xFFFFFFFF


def initial_rows(keys, kind, a, b, seed, output_dim, table=None):
    """Returns the rows that keys have before any step.

    Args:
        keys: int64 tensor of shape `(n,)`.
        kind: As of `keras_sparse.tables.initial_rows.InitialRows`.
        a, b, seed: Likewise; of several tables lists.
        output_dim: Integer. Width of a row.
        table: int32 tensor of shape `(n,)`: the table of each key, as a place in these lists.
            Defaults to `None`: there is one.

    Returns:
        float32 tensor of shape `(n, output_dim)`.
    """
    a, b = (np.float32(np.reshape(each, (-1, 1))) for each in (a, b))

    def of_key(numbers):
        """Returns the number of each key's table, in a column."""
        return tf.constant(numbers) if len(numbers) == 1 else tf.gather(numbers, table)

    if kind == "constant":
        return tf.broadcast_to(of_key(a), [tf.size(keys), output_dim])
    words = _random_words(keys, of_key(_round_words(seed)), output_dim)
    if kind == "uniform":
        spread = b - a
        last = np.nextafter(b, a)  # rounding may reach the end of the range, which is not in it
        return _uniform(words, *map(of_key, (a, spread, last)))
    # In (0, 1): the middle of each of 2^32 intervals.
    p = (tf.cast(words, tf.float64) + 0.5) * 2.0**-32
    if kind == "truncated_normal":
        below = 0.022750131948179195  # two standard deviations either side
        p = below + (1 - 2 * below) * p
    a, b = (of_key(np.float64(each)) for each in (a, b))
    return tf.cast(a + b * _normal_quantile(p), tf.float32)


def _round_words(seeds):
    """Returns the two words of each seed for each of the ten rounds: uint64, `(seeds, 20)`."""
    words = [
        [(seed >> shift) + turn * step & _WORD for turn in range(10) for shift, step in _STEPS]
        for seed in (seeds if isinstance(seeds, list) else [seeds])
    ]
    return np.array(words, np.uint64)


def _random_words(keys, round_words, output_dim):
    """Returns random words: uint64 tensor of shape `(n, output_dim)`, below 2^32."""
    num_blocks = -(-output_dim // 4)
    keys = tf.bitcast(keys, tf.uint64)[:, tf.newaxis]
    blocks = tf.constant(np.arange(num_blocks, dtype=np.uint64))[tf.newaxis]
    zeros = tf.zeros_like(keys + blocks)
    counter = [blocks + zeros, zeros, _low(keys) + zeros, _high(keys) + zeros]
    round_words = tf.split(round_words, 20, axis=1)
    for first, second in zip(round_words[::2], round_words[1::2], strict=True):
        products = [
            word * _uint64(factor) for word, factor in zip(counter[::2], _MULTIPLIERS, strict=True)
        ]
        mixed = [
            tf.bitwise.bitwise_xor(counter[1], first),
            tf.bitwise.bitwise_xor(counter[3], second),
        ]
        counter = [
            tf.bitwise.bitwise_xor(_high(products[1]), mixed[0]),
            _low(products[1]),
            tf.bitwise.bitwise_xor(_high(products[0]), mixed[1]),
            _low(products[0]),
        ]
    words = tf.reshape(tf.stack(counter, axis=-1), (-1, 4 * num_blocks))
    return words[:, :output_dim]


def _uint64(number):
    return tf.constant(number, tf.uint64)


def _low(words):
    return tf.bitwise.bitwise_and(words, _uint64(_WORD))


def _high(words):
    return tf.bitwise.right_shift(words, _uint64(32))


def _uniform(words, low, spread, last):
    unit = tf.cast(tf.bitwise.right_shift(words, _uint64(8)), tf.float32) * np.float32(2.0**-24)
    values = low + spread * unit
    return tf.where(spread > 0, tf.minimum(values, last), tf.maximum(values, last))


# Algorithm AS 241, routine PPND7.
_CENTER = (
    (3.3871327179, 50.434271938, 159.29113202, 59.109374720),
    (1.0, 17.895169469, 78.757757664, 67.187563600),
)
_TAIL = (
    (1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103),
    (1.0, 0.73700164250, 0.12021132975),
)
_FAR_TAIL = (
    (6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997),
    (1.0, 0.24197894225, 0.012258202635),
)


def _normal_quantile(p):
    """Returns the standard normal quantile of a float64 tensor of numbers in (0, 1)."""
    q = p - 0.5
    center = 0.180625 - q * q
    at_center = q * _polynomial(_CENTER[0], center) / _polynomial(_CENTER[1], center)
    r = tf.sqrt(-_log(tf.where(q < 0, p, 1 - p)))
    tail = _polynomial(_TAIL[0], r - 1.6) / _polynomial(_TAIL[1], r - 1.6)
    far_tail = _polynomial(_FAR_TAIL[0], r - 5) / _polynomial(_FAR_TAIL[1], r - 5)
    tail = tf.where(r <= 5, tail, far_tail)
    return tf.where(tf.abs(q) <= 0.425, at_center, tf.where(q < 0, -tail, tail))


def _polynomial(coefficients, x):
    *others, value = coefficients
    for coefficient in reversed(others):
        value = value * x + coefficient
    return value


# The natural logarithm of ops/core/math/vector_functions.h.
_LOG2_HIGH = float.fromhex("0x1.62e42feep-1")
_LOG2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_ONE = 0x3FF0000000000000
_SQRT_HALF = 0x3FE6A09E667F3BCD
_MANTISSA = 0x000FFFFFFFFFFFFF
_LOG_SERIES = (
    0.666666666666667,
    0.39999999999898944,
    0.2857142862620096,
    0.22222211101577205,
    0.1818289133623783,
    0.1533165379922582,
    0.14617229114009048,
)


def _log(x):
    """Returns the logarithm of a float64 tensor of normal numbers above zero."""
    bits = tf.bitcast(x, tf.uint64) + _uint64(_ONE - _SQRT_HALF)
    exponent = tf.cast(tf.bitwise.right_shift(bits, _uint64(52)), tf.float64) - 1023
    mantissa = tf.bitwise.bitwise_and(bits, _uint64(_MANTISSA)) + _uint64(_SQRT_HALF)
    f = tf.bitcast(mantissa, tf.float64) - 1
    s = f / (2 + f)
    s2 = s * s
    half = 0.5 * f * f
    tail = s * (half + s2 * _series(_LOG_SERIES, s2))
    return exponent * _LOG2_HIGH - ((half - (tail + exponent * _LOG2_LOW)) - f)


def _series(coefficients, x):
    """Adds even and odd powers by themselves."""
    x2 = x * x
    return _polynomial(coefficients[::2], x2) + _polynomial(coefficients[1::2], x2) * x
