import keras

from keras_sparse.tables.embedding_variable import EmbeddingVariable


def split_embedding_variable_from_others(variables):
    """Splits variables into embedding variables and others.

    Use it in a training loop with one optimizer for tables and another for dense variables.

    Args:
        variables: Iterable of variables, such as `model.trainable_variables`.

    Returns:
        `(embedding, others)`: two lists, each in the order of `variables`.

    Example:
    ```python
    table_optimizer = keras_sparse.optimizers.Adagrad(0.05)
    dense_optimizer = keras.optimizers.Adam(0.001)

    # in each step
    embedding, others = split_embedding_variable_from_others(model.trainable_variables)
    embedding_grads, other_grads = tape.gradient(loss, [embedding, others])
    table_optimizer.apply(embedding_grads, embedding)
    dense_optimizer.apply(other_grads, others)
    ```
    """
    embedding: list[EmbeddingVariable] = []
    others: list[keras.Variable] = []
    for variable in variables:
        (embedding if isinstance(variable, EmbeddingVariable) else others).append(variable)
    return embedding, others
