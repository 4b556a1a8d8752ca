from keras_sparse.tables.rows_regularizer import is_sum


def check_regularizers(plan, layers):
    """Raises ValueError if a table is cut whose regularizer is not the sum of those of its parts.

    Args:
        plan: `Plan`.
        layers: List of `Embedding`, one a table: its options.
    """
    for table, layer in enumerate(layers):
        regularizer = layer.embeddings_regularizer
        num_parts = _num_parts(plan, table)
        if regularizer is not None and num_parts > 1 and not is_sum(regularizer):
            raise ValueError(
                "`embeddings_regularizer` of a table that ranks have parts of must be L1, L2 or "
                "L1L2, of which each can take its part. Leave the table whole, with a "
                f"`column_slice_threshold` of {plan.tables[table].num_elements}, a "
                "`row_slice_threshold` above it and another strategy than 'auto', or copy it by "
                f"`data_parallel_threshold`. Received: {regularizer!r} of table "
                f"'{plan.tables[table].name}', cut into {num_parts} parts"
            )


def has_regularized_parts(layer):
    """Returns whether a layer has a regularized table of which ranks have parts: on all alike."""
    plan, templates = getattr(layer, "plan", None), getattr(layer, "templates", None)
    if plan is None or templates is None or plan.num_ranks == 1:
        return False
    return any(
        each.embeddings_regularizer is not None and placement.kind != "data_parallel"
        for each, placement in zip(templates.layers, plan.placements, strict=True)
    )


def _num_parts(plan, table):
    if plan.placements[table].kind == "data_parallel":
        return 1
    return sum(plan.slice_of(table, rank) is not None for rank in range(plan.num_ranks))
