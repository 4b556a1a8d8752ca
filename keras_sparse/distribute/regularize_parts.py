from keras_sparse.rows_regularizer import is_sum
from keras_sparse.rows_regularizer import rows_regularizer


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
                "L1L2, of which each can take its part. Leave the table whole: by "
                "`data_parallel_threshold`, or by higher thresholds and strategy='basic'. "
                f"Received: {regularizer!r} of table '{plan.tables[table].name}', cut into "
                f"{num_parts} parts"
            )


def part_regularizer(plan, table, layer):
    """Returns what regularizes this rank's part of a table, or `None`.

    Args:
        plan: `Plan`.
        table: Integer: its place in the plan.
        layer: `Embedding` with the options of the table.
    """
    is_copied = plan.placements[table].kind == "data_parallel"
    return rows_regularizer(layer.embeddings_regularizer, 1 if is_copied else plan.num_ranks)


def _num_parts(plan, table):
    if plan.placements[table].kind == "data_parallel":
        return 1
    return sum(plan.slice_of(table, rank) is not None for rank in range(plan.num_ranks))
