import tensorflow as tf

from keras_sparse.distribute.ranks import collectives


def clip_over_ranks(optimizer, grads, variables, tables, name):
    """Clips the gradients of a step as one rank with the whole tables would.

    Norms count the gradients of all parts of tables, wherever they are, and once those of what all
    ranks have.

    Args:
        optimizer: `keras.optimizers.Optimizer`, whose `clipnorm` or `global_clipnorm` is set.
        grads: List of tensors, averaged over ranks; those of tables are the values of rows, merged.
        variables: List of variables and, for tables, `RowGradient`.
        tables: Tuple of strings, the same on all ranks: the names of the tables that have parts.
        name: String, as for `collectives.sum_of`.

    Returns:
        List of tensors.
    """
    parts = {}
    for i, variable in enumerate(variables):
        part = getattr(getattr(variable, "variable", None), "part", None)
        if part is not None:
            parts[i] = part.table
    if optimizer.clipnorm:
        return _clip_by_norm(grads, parts, optimizer.clipnorm, tables, name)
    return _clip_by_global_norm(grads, parts, optimizer.global_clipnorm, name)


def _clip_by_norm(grads, parts, clip_norm, tables, name):
    """Clips each gradient by its own norm, those of parts by the norm of their whole table."""
    squares = {table: [tf.constant(0.0)] for table in tables}
    for i, table in parts.items():
        squares[table].append(_sum_of_squares(grads[i]))
    sums = _sum_over_ranks(tf.stack([tf.add_n(squares[table]) for table in tables]), name)
    norms = tf.sqrt(tf.concat([sums, [_sum_of_squares(grad) for grad in grads]], axis=0))
    clipped = []
    for i, grad in enumerate(grads):
        place = tables.index(parts[i]) if i in parts else len(tables) + i
        scale = clip_norm / tf.maximum(norms[place], clip_norm)
        clipped.append(grad * tf.cast(scale, grad.dtype))
    return clipped


def _clip_by_global_norm(grads, parts, clip_norm, name):
    zero = tf.constant(0.0)
    of_parts = tf.add_n([zero, *(_sum_of_squares(grads[i]) for i in parts)])
    of_parts = _sum_over_ranks(of_parts, name)
    others = [_sum_of_squares(grad) for i, grad in enumerate(grads) if i not in parts]
    norm = tf.sqrt(tf.add_n([of_parts, *others]))
    # As Keras has it: NaN if the norm is not finite.
    scale = clip_norm * tf.minimum(1.0 / norm, 1.0 / clip_norm) + (norm - norm)
    return [grad * tf.cast(scale, grad.dtype) for grad in grads]


def _sum_over_ranks(squares, name):
    sums = collectives.sum_of([squares], name)
    collectives.keep_alive(sums)  # on a rank without a part nothing else may read them
    return sums[0]


def _sum_of_squares(grad):
    return tf.cast(tf.reduce_sum(tf.square(grad)), tf.float32)
