from keras_sparse.utils import checks


def check_row_limit(max_rows, input_dim):
    """Returns the most rows that a table may have, or `None` for any number."""
    checks.positive_or_none(max_rows, "max_rows")
    if max_rows is not None and input_dim is not None:
        raise ValueError(
            "`max_rows` must be that of a dynamic table: a static one has all its rows. Give it "
            f"input_dim=None, or leave `max_rows` out. Received: input_dim={input_dim} with "
            f"max_rows={max_rows}"
        )
    return max_rows
