from keras_sparse.tables.embedding_variable import EmbeddingVariable


def tables_of(model):
    """Returns the `LocalTable` of each embedding variable of a model."""
    return [table_of(each) for each in model.variables if isinstance(each, EmbeddingVariable)]


def table_of(variable):
    """Returns the `LocalTable` of an embedding variable; another `Table` as it is."""
    return variable.table if isinstance(variable, EmbeddingVariable) else variable
