import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.optimizers.support.table_gradient import merge
from keras_sparse.optimizers.support.table_gradient import table_gradient
from keras_sparse.tables.embedding_variable import EmbeddingVariable


def average_gradients(grads, variables, name):
    """Averages over ranks the gradients of the variables that all of them have.

    The gradient of a table's part comes from the exchange of its layer as the average already, and
    stays as it is. The others are averaged in two exchanges, one for all tables and one for all
    dense variables (of a dtype).

    Args:
        grads: List of gradients, of which some may be `None`, the same ones on all ranks.
        variables: List of variables.
        name: String, as for `collectives.average_of`.

    Returns:
        List of gradients: `tf.IndexedSlices` for tables, tensors for dense variables.
    """
    grads, tables, dense = list(grads), [], []
    for i, variable in enumerate(variables):
        if grads[i] is None:
            continue
        if not isinstance(variable, EmbeddingVariable):
            dense.append(i)
        elif getattr(variable, "part", None) is None:
            tables.append(i)
    averages = _average_dense([_as_tensor(grads[i], variables[i]) for i in dense], f"{name}.dense")
    if tables:
        averages += _average_tables(
            [grads[i] for i in tables], [variables[i] for i in tables], f"{name}.tables"
        )
    for i, average in zip([*dense, *tables], averages, strict=True):
        grads[i] = average
    return grads


def _average_dense(grads, name):
    averages = [None] * len(grads)
    for dtype in sorted({grad.dtype.name for grad in grads}):  # an exchange is of one dtype
        places = [i for i, grad in enumerate(grads) if grad.dtype.name == dtype]
        of_dtype = collectives.average_of([grads[i] for i in places], f"{name}.{dtype}")
        for i, average in zip(places, of_dtype, strict=True):
            averages[i] = average
    return averages


def _as_tensor(grad, variable):
    """Makes `tf.IndexedSlices` dense, as `tf.convert_to_tensor` does, but without its warnings."""
    if not isinstance(grad, tf.IndexedSlices):
        return tf.convert_to_tensor(grad)
    return tf.math.unsorted_segment_sum(grad.values, grad.indices, variable.shape[0])


def _average_tables(grads, variables, name):
    """The merged gradients of all ranks, one behind the other: the same on all of them, in bits."""
    merged = merge([table_gradient(v, g) for v, g in zip(variables, grads, strict=True)])
    ids, values = [each.ids for each in merged], [each.values for each in merged]
    packed = native.pack_slices(ids, values, 1 / size())
    widths = [variable.output_dim for variable in variables]
    ids, values = native.unpack_slices(collectives.gather(packed, name), widths, size())
    return [
        tf.IndexedSlices(values[i], ids[i], grads[i].dense_shape) for i in range(len(variables))
    ]
