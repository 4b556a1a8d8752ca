import numpy as np

from keras_sparse.distribute.planner.table_placement import TablePlacement
from keras_sparse.utils.byte_sizes import bytes_text


def bytes_of_ranks(tables, placements, num_ranks):
    """Returns the bytes of rows and slots on each rank: an int64 array of shape `(num_ranks,)`."""
    of_ranks = np.zeros(num_ranks, np.int64)
    for table, placement in zip(tables, placements, strict=True):
        for each in placement.slices:
            of_ranks[each.rank] += table.bytes_of(each.num_rows, each.num_columns)
    return of_ranks


def check_budget(plan):
    """Raises `ValueError` if a rank of a plan has more bytes than its `memory_budget`."""
    if plan.memory_budget is None or plan.rank_bytes.max() <= plan.memory_budget:
        return
    refuse_impossible(plan.tables, plan.num_ranks, plan.memory_budget)
    rank = int(np.argmax(plan.rank_bytes))
    parts = [(_part(plan, i, rank), plan.tables[i].name) for i in plan.tables_of(rank)]
    its_bytes, name = max(parts, key=lambda part: part[0])
    raise ValueError(
        f"`memory_budget` must be enough for each rank: with strategy '{plan.strategy}' "
        f"rank {rank} would have {bytes_text(int(plan.rank_bytes[rank]))}, of which "
        f"{bytes_text(its_bytes)} are of table '{name}'. Take strategy='auto', which "
        "looks for a plan that fits; or spread large tables: column_slice_threshold by columns, "
        f"row_slice_threshold by rows. Received: memory_budget={plan.memory_budget}"
    )


def refuse_impossible(tables, num_ranks, memory_budget):
    """Raises `ValueError` if the tables do not fit the ranks even if all are spread by rows."""
    spread = by_rows_bytes(tables, num_ranks)
    if spread <= memory_budget:
        return
    sizes = [_all_bytes(table, num_ranks) for table in tables]
    largest = max(range(len(tables)), key=lambda i: sizes[i])
    most = f"table '{tables[largest].name}' has {bytes_text(sizes[largest])} with its slots"
    total, largest_of = most, ""
    if sizes[largest] <= num_ranks * memory_budget and len(tables) > 1:
        total = f"the {len(tables)} tables have {bytes_text(sum(sizes))} with slots"
        largest_of = f" (of which {most})"
    enough = ranks_that_do(tables, memory_budget)
    more = "" if enough is None else f"{enough} ranks, or "
    raise ValueError(
        f"`memory_budget` of all ranks together must hold all tables: {total}{largest_of}, more "
        f"than {num_ranks} x {bytes_text(memory_budget)}. Take {more}a memory_budget of "
        f"{spread}, {bytes_text(spread)}. Received: memory_budget={memory_budget}, "
        f"num_ranks={num_ranks}"
    )


def by_rows_bytes(tables, num_ranks):
    """Returns the bytes of the fullest rank, the first one, if all tables are spread by rows."""
    if num_ranks == 1:
        return sum(table.bytes_of(table.rows, table.width) for table in tables)
    placements = [TablePlacement.by_rows(table, num_ranks) for table in tables]
    return int(bytes_of_ranks(tables, placements, num_ranks)[0])


def ranks_that_do(tables, memory_budget):
    """Returns how few ranks hold all tables spread by rows, or `None` if no number does."""
    fixed = sum(table.bytes_of(None, table.width) for table in tables if table.is_dynamic)
    of_row = [(table.rows, table.bytes_of(1, table.width)) for table in tables if table.rows]
    if fixed + sum(row for _, row in of_row) > memory_budget:
        return None  # a rank has a row of each table at least

    def fits(num_ranks):
        held = sum(-(-rows // num_ranks) * row for rows, row in of_row)
        return fixed + held <= memory_budget

    low, high = 0, max(rows for rows, _ in of_row)  # fits(high), not fits(low)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _all_bytes(table, num_ranks):
    if table.is_dynamic:
        return num_ranks * table.bytes_of(None, table.width)
    return table.bytes_of(table.rows, table.width)


def _part(plan, table, rank):
    part = plan.slice_of(table, rank)
    return plan.tables[table].bytes_of(part.num_rows, part.num_columns)
