import numpy as np


def most_recent_keys(variable, num_keys, chunk_rows):
    """Returns the keys of the rows of a dynamic table with the most recent gradients.

    Args:
        variable: `EmbeddingVariable` that keeps ages.
        num_keys: Integer. How many, if it has as many.
        chunk_rows: Integer. How many rows are read at once.

    Returns:
        int64 array of shape `(n,)`, ascending: those whose last gradients are the least old, of
        equally old ones the smallest keys.
    """
    if not variable.keeps_ages:
        raise ValueError(
            '`rows` may be "most_recent:N" for tables that keep ages: those with an `eviction` '
            f"like keras_sparse.GlobalStepEvict. Received: variable '{variable.path}' without one"
        )
    keys, ages = np.empty(0, np.int64), np.empty(0, np.uint32)
    for more_keys, _, more_ages in variable.export(chunk_rows, with_ages=True):
        keys, ages = np.append(keys, more_keys), np.append(ages, more_ages)
        # Of more than these no array is needed.
        if len(keys) > 2 * num_keys:
            keys, ages = _first(keys, ages, num_keys)
    return np.sort(_first(keys, ages, num_keys)[0])


def _first(keys, ages, num_keys):
    chosen = np.lexsort((keys, ages))[:num_keys]
    return keys[chosen], ages[chosen]
