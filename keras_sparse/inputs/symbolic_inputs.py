import tensorflow as tf

from keras_sparse.saved_model.saved_model_scope import is_for_saved_model

# How Keras names the graph in which it calls layers to learn the shapes of what they make.
_GRAPH = "scratch_graph"


def is_placeholder(dtype):
    """Returns whether ids of this dtype stand for any ids, as Keras knows nothing but shapes.

    So it is where it builds a subclassed model from a file: what is made of these float32 is never
    computed. Graphs within that one may stay, and do not count. And so it is in the signature of a
    subclassed model in a SavedModel, where `to_int64` checks what comes.

    Args:
        dtype: `tf.DType`.
    """
    graph = tf.compat.v1.get_default_graph()
    is_scratch = getattr(graph, "name", "").startswith(_GRAPH)
    return dtype.is_floating and (is_scratch or is_for_saved_model())


class FloatIdsError(TypeError, NotImplementedError):
    """Ids are floats, which do not hold every id.

    A `NotImplementedError` too: at that a `keras.Sequential` without an `Input`, which guesses that
    its input is float32, gives the guess up and calls its layers with what comes.
    """
