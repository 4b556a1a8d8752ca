import heapq


def even_columns(width, num_slices):
    """Returns the widths of slices that differ by one column at most: a list, wider ones first."""
    columns, wider = divmod(width, num_slices)
    return [columns + 1] * wider + [columns] * (num_slices - wider)


def num_slices_below(table, threshold, num_ranks):
    """Returns into how few slices a table may be cut that none has more than `threshold` elements.

    Args:
        table: `TableSpec`, static.
        threshold: Integer, elements.
        num_ranks: Integer. There are not more slices than ranks, nor than columns; what is above
            the threshold then stays so.
    """
    columns = max(1, threshold // table.rows)
    return min(-(-table.width // columns), num_ranks, table.width)


def num_slices_for_all_ranks(tables, num_ranks):
    """Returns into how many slices to cut each table, so that there is one for each rank.

    If there are as many tables as ranks none is cut. Otherwise, time after time, the table with the
    largest slice gets one more, of equal ones the first; not beyond a slice a rank and column.

    Args:
        tables: List of static `TableSpec`.
        num_ranks: Integer.

    Returns:
        List of integers, one a table.
    """
    counts = [1] * len(tables)
    largest = [(-table.num_elements, i) for i, table in enumerate(tables)]
    heapq.heapify(largest)
    num_slices = len(tables)
    while num_slices < num_ranks and largest:
        _, i = heapq.heappop(largest)
        if counts[i] == min(num_ranks, tables[i].width):
            continue  # it cannot be cut further
        counts[i] += 1
        num_slices += 1
        widest = -(-tables[i].width // counts[i])
        heapq.heappush(largest, (-widest * tables[i].rows, i))
    return counts
