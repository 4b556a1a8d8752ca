import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class RowChoice:
    """Which rows of a dynamic table are taken.

    Attributes:
        order: `"most_used"` or `"most_recent"`.
        num_rows: Integer. How many, if the table has as many.
    """

    order: str
    num_rows: int


def chosen_keys(table, choice, chunk_rows):
    """Returns the keys of the rows of a dynamic table that are taken.

    Args:
        table: `LocalTable` that keeps what the order asks for.
        choice: `RowChoice`.
        chunk_rows: Integer. How many rows are read at once.

    Returns:
        int64 array of shape `(n,)`, ascending: those that had gradients in the most steps, or whose
        last gradients are the least old. Of equally frequent ones those come first whose last
        gradients are the least old, if the table keeps ages, then those with the smallest keys.
    """
    by_use = choice.order == "most_used"
    _check(table, by_use)
    pieces = [[np.empty(0, dtype) for dtype in (np.int64, np.uint32, np.uint32)]]
    num_rows = 0
    for keys, _, *words in table.export(chunk_rows, with_ages=True, with_frequencies=True):
        ages, frequencies = (np.zeros(len(keys), np.uint32) if w is None else w for w in words)
        # The one that is taken first is the least one.
        unused = np.iinfo(np.uint32).max - frequencies if by_use else np.zeros_like(ages)
        pieces.append([keys, ages, unused])
        num_rows += len(keys)
        # Of more than these no array is needed.
        if num_rows > 2 * choice.num_rows:
            pieces = [_first(pieces, choice.num_rows)]
            num_rows = choice.num_rows
    return np.sort(_first(pieces, choice.num_rows)[0])


def _check(table, by_use):
    if by_use and not table.metadata.frequencies:
        raise ValueError(
            '`rows` may be "most_used:N" for tables that count how often rows are trained: those '
            "with `frequency=True` or an `eviction` like keras_sparse.LfuEvict. Received: variable "
            f"'{table.path}' without one"
        )
    if not by_use and table.metadata.ages is None:
        raise ValueError(
            '`rows` may be "most_recent:N" for tables that keep ages: those with an `eviction` '
            f"like keras_sparse.GlobalStepEvict. Received: variable '{table.path}' without one"
        )


def _first(pieces, num_rows):
    columns = [*map(np.concatenate, zip(*pieces, strict=True))]
    chosen = np.lexsort(columns)[:num_rows]
    return [column[chosen] for column in columns]
