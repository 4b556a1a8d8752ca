from keras_sparse.tables.embedding_variable import EmbeddingVariable


def dense_values(model):
    """Returns what a model and its optimizer have beside tables.

    Args:
        model: `keras.Model`.

    Returns:
        List of pairs: `keras.Variable`, its value as an array.
    """
    optimizer = getattr(model, "optimizer", None)
    variables = [*model.variables, *(() if optimizer is None else optimizer.variables)]
    return [(each, each.numpy()) for each in variables if not isinstance(each, EmbeddingVariable)]


def restore(values):
    """Gives variables the values that `dense_values` has returned."""
    for variable, value in values:
        variable.assign(value)
