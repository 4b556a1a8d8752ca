from keras_sparse.tables.embedding_variable import EmbeddingVariable


def tables_of(model):
    """Returns the tables of a model, each once."""
    return [each for each in model.variables if isinstance(each, EmbeddingVariable)]
