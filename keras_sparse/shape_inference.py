import tensorflow as tf

# How Keras names the graph in which it calls layers to learn the shapes of what they make.
_GRAPH = "scratch_graph"


def is_placeholder(dtype):
    """Returns whether ids of this dtype stand for any ids, in a call for shapes alone.

    Keras knows nothing but shapes where it builds a subclassed model from a file: placeholders are
    float32 there. What is made of them is never computed. Graphs within that one may stay, and do
    not count.

    Args:
        dtype: `tf.DType`.
    """
    graph = tf.compat.v1.get_default_graph()
    return dtype.is_floating and getattr(graph, "name", "").startswith(_GRAPH)


class FloatIdsError(TypeError, NotImplementedError):
    """Ids are floats, which do not hold every id.

    A `NotImplementedError` too: at that a `keras.Sequential` without an `Input`, which guesses that
    its input is float32, gives the guess up and calls its layers with what comes.
    """
