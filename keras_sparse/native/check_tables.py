import tensorflow as tf


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


def check_variables(variables):
    """Raises unless `variables` is a list of embedding variables, and not of their tables."""
    check_tables(variables)
    for i, variable in enumerate(variables):
        if not hasattr(variable, "table"):
            raise TypeError(
                f"`variables[{i}]` must be a `keras_sparse.EmbeddingVariable`, at which gradients "
                "arrive. Give the variable itself in place of its `table`. Received: "
                f"variables[{i}] of type {type(variable).__name__} with path '{variable.path}'"
            )


def local_ids(table, ids):
    """Returns the ids that the native table has for ids of the whole table.

    They differ in a static table whose rows ranks share: see `TablePart`. A dynamic part has the
    same keys, and its native table refuses those of other ranks.

    Args:
        table: `EmbeddingVariable`.
        ids: int64 tensor of shape `(n,)`.

    Raises:
        tf.errors.InvalidArgumentError: Another rank owns an id.
    """
    part = table.part
    if part is None or not part.renumbers_ids:
        return ids
    ids = tf.convert_to_tensor(ids)
    is_outside = (ids < 0) | (ids >= part.input_dim)
    # No row here: refused, or read as zeros, as the native table does.
    local = tf.where(is_outside, tf.constant(-1, tf.int64), part.local_ids(ids))
    refused = ~part.holds(ids) & ~is_outside
    if table.out_of_range == "error":
        refused |= is_outside
    places = tf.where(refused)[:, 0]
    rule = (
        f"id must be in [0, {part.input_dim}) and id % {part.num_shards} be {part.shard} for this "
        f"part of table '{table.path}', whose rows ranks share. Look ids up and train them through "
        "the layer, on all ranks. Received: "
    )
    if not tf.executing_eagerly():
        check = tf.debugging.Assert(tf.size(places) == 0, [rule, tf.gather(ids, places)])
        with tf.control_dependencies([check]):
            return tf.identity(local)
    if len(places) > 0:
        place = int(places[0])
        key = int(ids[place])
        raise tf.errors.InvalidArgumentError(
            None, None, f"{rule}ids[{place}] = {key}, whose row rank {key % part.num_shards} owns"
        )
    return local
