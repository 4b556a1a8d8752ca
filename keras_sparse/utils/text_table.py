def aligned(rows, sides):
    """Returns a table as text: a line a row, its cells two blanks apart.

    Args:
        rows: List of lists of strings, one a column.
        sides: String: for each column the side that its cells stand at, `l` or `r`.

    Returns:
        List of strings.

    Example:
    >>> aligned([("table", "rows"), ("users", "7")], "lr")
    ['table  rows', 'users     7']
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if side == "l" else cell.rjust(width)
            for cell, width, side in zip(row, widths, sides, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
