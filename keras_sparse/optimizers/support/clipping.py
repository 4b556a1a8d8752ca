import keras
import tensorflow as tf

from keras_sparse.optimizers.support.unsupported_options import refuse_norms_of_parts


def clips(optimizer):
    """Returns whether an optimizer clips gradients. Keras takes what is below 0 for no limit."""
    limits = optimizer.clipnorm, optimizer.global_clipnorm, optimizer.clipvalue
    return any(limit and limit > 0 for limit in limits)


def clip_tables(optimizer, tables, dense, squares_over_ranks=None):
    """Clips gradients of tables as Keras clips those of dense variables.

    Args:
        optimizer: `SparseOptimizer`.
        tables: List of `TableGradient`, merged if the optimizer clips.
        dense: List of the gradients of dense variables, which count in a global norm.
        squares_over_ranks: Function of `tables` that returns, by the names of the tables that have
            parts on several ranks, the sum of squares of the gradients of all parts: a dict of
            scalar tensors. Defaults to `None`: there are no such tables.

    Returns:
        `(tables, scale)`: a list of `TableGradient`, and what `global_clipnorm` multiplies each
        gradient by, a scalar float32 tensor of 1 without it.
    """
    if not clips(optimizer):
        return tables, tf.constant(1.0)
    if optimizer.clipnorm or optimizer.global_clipnorm:
        return _clip_by_norm(optimizer, tables, dense, squares_over_ranks)
    limit = optimizer.clipvalue
    clipped = [each.with_values(tf.clip_by_value(each.values, -limit, limit)) for each in tables]
    return clipped, tf.constant(1.0)


def _clip_by_norm(optimizer, tables, dense, squares_over_ranks):
    if squares_over_ranks is None:
        refuse_norms_of_parts(type(optimizer).__name__, tables)
        of_parts = {}
    else:
        of_parts = squares_over_ranks(tables)
    of_tables = [
        of_parts[each.part.table] if each.part else sum_of_squares(each.values) for each in tables
    ]
    if limit := optimizer.clipnorm:  # as `tf.clip_by_norm` has it
        clipped = [
            each.with_values(each.values * limit / tf.maximum(tf.sqrt(square), limit))
            for each, square in zip(tables, of_tables, strict=True)
        ]
        return clipped, tf.constant(1.0)
    whole = [square for each, square in zip(tables, of_tables, strict=True) if not each.part]
    squares = [*of_parts.values(), *whole, *map(sum_of_squares, dense)]
    norm = tf.sqrt(tf.add_n([tf.constant(0.0), *squares]))
    # As Keras has it: NaN if the norm is not finite.
    limit = optimizer.global_clipnorm
    scale = limit * tf.minimum(1.0 / norm, 1.0 / limit) + (norm - norm)
    return [each.with_values(each.values * scale) for each in tables], scale


def sum_of_squares(gradient):
    """Returns a scalar float32 tensor."""
    return tf.cast(keras.ops.sum(keras.ops.square(gradient)), tf.float32)
