import itertools

import numpy as np

from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.byte_sizes import seconds_text
from keras_sparse.utils.text_table import aligned

# Of tables that differ in their name and rank alone, those that share a line.
_SHARE_FROM = 3
_LONGEST_NAME = 40


def plan_text(plan):
    """Returns what `plan.summary()` does."""
    lines = _table_lines(plan)
    return "\n".join([_title(plan), "", *lines, "", *_rank_lines(plan), *_notes(plan)])


def _title(plan):
    budget = ""
    if plan.memory_budget is not None:
        budget = f", at most {bytes_text(plan.memory_budget)} a rank"
    return (
        f"{_count(len(plan.tables), 'table')} on {_count(plan.num_ranks, 'rank')}, strategy "
        f"'{plan.strategy}'{budget}: {bytes_text(int(plan.rank_bytes.sum()))} of rows and slots."
    )


def _table_lines(plan):
    cells = [("table", "rows", "width", "kind", "ranks", "bytes")]
    for group in _groups(plan):
        table, placement = plan.tables[group[0]], plan.placements[group[0]]
        ranks = sorted({rank for i in group for rank in plan.placements[i].ranks})
        cells.append(
            (
                _names([plan.tables[i].name for i in group]),
                "any key" if table.is_dynamic else f"{table.rows:,}",
                _columns(table, placement),
                placement.kind,
                _ranges(ranks),
                _bytes([plan.tables[i] for i in group], [plan.placements[i] for i in group]),
            )
        )
    return aligned(cells, "lrrllr")


def _groups(plan):
    """Yields lists of the indices of tables that share a line."""

    def alike(i):
        table, placement = plan.tables[i], plan.placements[i]
        cuts = [each.num_columns for each in placement.slices]
        return {**table.get_config(), "name": None}, placement.kind, cuts

    for _, group in itertools.groupby(range(len(plan.tables)), alike):
        indices = list(group)
        if len(indices) >= _SHARE_FROM:
            yield indices
        else:
            yield from ([i] for i in indices)


def _names(names):
    if len(names) == 1:
        return _shortened(names[0])
    return f"{_shortened(names[0])} ... {_shortened(names[-1])} ({len(names)})"


def _shortened(name):
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 3] + "..."


def _columns(table, placement):
    """The width; of one that is cut also the widths of its slices, as `16 = 6 + 5 + 5`."""
    if placement.kind != "column_wise":
        return str(table.width)
    widths = [each.num_columns for each in placement.slices]
    if len(widths) <= 3:
        return f"{table.width} = " + " + ".join(map(str, widths))
    counts = [f"{len(list(same))} x {width}" for width, same in itertools.groupby(widths)]
    if len(counts) > 4:
        counts = [f"{len(widths)} x {min(widths)} to {max(widths)}"]
    return f"{table.width} = " + " + ".join(counts)


def _bytes(tables, placements):
    if any(table.is_dynamic and table.first_tier_bytes is None for table in tables):
        return "unknown"
    return bytes_text(
        sum(
            table.bytes_of(each.num_rows, each.num_columns)
            for table, placement in zip(tables, placements, strict=True)
            for each in placement.slices
        )
    )


def _ranges(ranks):
    """Ranks in ascending order as `0-3, 6`."""
    texts = []
    for _, run in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        members = [rank for _, rank in run]
        texts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    if len(texts) > 6:
        return f"{', '.join(texts[:3])}, ... {texts[-1]} ({len(ranks)})"
    return ", ".join(texts)


def _rank_lines(plan):
    cells = [("rank", "tables", "bytes", "load")]
    for rank, its_tables in enumerate(plan.rank_tables):
        its_bytes, seconds = int(plan.rank_bytes[rank]), plan.rank_seconds[rank]
        cells.append(
            (str(rank), str(len(its_tables)), bytes_text(its_bytes), seconds_text(seconds))
        )
    return aligned(cells, "rrrr")


def _notes(plan):
    slowest, fullest = int(np.argmax(plan.rank_seconds)), int(np.argmax(plan.rank_bytes))
    mean = plan.rank_seconds.mean()
    over = plan.step_seconds / mean - 1 if mean > 0 else 0.0
    notes = [
        "",
        f"Predicted step: {seconds_text(plan.step_seconds)}, of rank {slowest}, {over:.0%} above "
        f"the mean. Most memory: {bytes_text(int(plan.rank_bytes[fullest]))}, of rank {fullest}.",
    ]
    idle = [rank for rank, its_tables in enumerate(plan.rank_tables) if not its_tables]
    if idle:
        notes.append(
            f"Without a table: rank {_ranges(idle)}. Fewer ranks would do; a smaller "
            "column_slice_threshold cuts more slices, row_slice_threshold spreads rows over all."
        )
    unknown = [each for each in plan.tables if each.is_dynamic and each.first_tier_bytes is None]
    if unknown:
        notes.append(
            f"Not in the bytes: {_count(len(unknown), 'dynamic table')} without first_tier_bytes; "
            "of a layer it is the storage_size[0] of its storage=StorageOption(...)."
        )
    return notes


def _count(number, noun):
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
