def handles_of(variables):
    """Returns the native tables of a list of `EmbeddingVariable`; raises unless it is one."""
    check_tables(variables)
    return [variable.native for variable in variables]


def check_tables(variables, name="variables"):
    """Raises unless `variables` is a list of embedding variables."""
    if not isinstance(variables, (list, tuple)):
        raise TypeError(
            f"`{name}` must be a list with an `EmbeddingVariable` a table, and what goes with them "
            f"a list too: [table], [[3, 12]]. Received: {name} of type {type(variables).__name__}"
        )
    for i, table in enumerate(variables):
        check_table(table, f"{name}[{i}]")


def check_table(table, name):
    """Raises unless `table` is an embedding variable."""
    if hasattr(table, "native"):
        return
    rule = f"`{name}` must be one `keras_sparse.EmbeddingVariable`"
    if isinstance(table, (list, tuple)):
        kinds = [type(partition).__name__ for partition in table]
        raise TypeError(
            f"{rule}, which holds all rows of its table. Give the variable in place of the "
            "partitions; `keras_sparse.layers.DistributedEmbedding` spreads a table over ranks. "
            f"Received: {name}={type(table).__name__} of {kinds}"
        )
    raise TypeError(
        f"{rule}. Make one by `keras_sparse.EmbeddingVariable(input_dim, output_dim)`, or take a "
        "built layer's: `layer.embeddings`; rows of a tensor are read by "
        f"`tf.nn`. Received: {name} of type {type(table).__name__}"
    )
