import tensorflow as tf

from keras_sparse.distribute.ranks import collectives
from keras_sparse.optimizers.support.clipping import sum_of_squares


def squares_over_ranks(gradients, tables, name):
    """Sums the squares of the gradients of tables over the parts that ranks have of them.

    All ranks must call it, also those without a part.

    Args:
        gradients: List of `TableGradient`, merged; those of whole tables are passed over.
        tables: Tuple of strings, the same on all ranks: the names of the tables that have parts.
        name: String, as for `collectives.sum_of`.

    Returns:
        Dict from these names to scalar float32 tensors.
    """
    squares = {table: [tf.constant(0.0)] for table in tables}
    for each in gradients:
        if each.part is not None:
            squares[each.part.table].append(sum_of_squares(each.values))
    own = tf.stack([tf.add_n(squares[table]) for table in tables])
    (sums,) = collectives.sum_of([own], name)
    collectives.keep_alive([sums])  # on a rank without a part nothing else may read them
    return dict(zip(tables, tf.unstack(sums), strict=True))
