"""Writes what `inspect` has found as one HTML page that needs no other file."""

import html
import math

from keras_sparse.utils.byte_sizes import bytes_text

_STYLE = """
:root { color-scheme: light dark; --ink: #263238; --soft: #5f6f78; --ground: #fff; --pale: #f0f3f4;
  --bar: #00897b; --other: #5b7fae }
@media (prefers-color-scheme: dark) { :root { --ink: #e6ecef; --soft: #a9b6be; --ground: #1e2429;
  --pale: #2b343a; --bar: #1a9d8e; --other: #7899c4 } }
body { background: var(--ground); color: var(--ink); font: 15px/1.45 system-ui, sans-serif;
  margin: 2rem auto; max-width: 64rem; padding: 0 1rem }
h1 { font-size: 1.5rem; overflow-wrap: anywhere } h2 { font-size: 1.2rem; margin-top: 2.2rem }
h3 { font-size: 1rem; margin: .6rem 0 .4rem } p, td { color: var(--soft) } b { color: var(--ink) }
.scroll { overflow-x: auto } table { border-collapse: collapse; width: 100% }
td, th { border-bottom: 1px solid var(--pale); padding: .25rem .6rem; text-align: left }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
.charts { display: flex; flex-wrap: wrap; gap: 1.6rem } .chart { flex: 1 1 26rem; min-width: 16rem }
.bar { display: grid; grid-template-columns: 10rem 1fr 5.5rem; gap: .5rem; align-items: center;
  font-size: .85rem } .bar span:last-child { text-align: right }
.bar i { background: var(--bar); display: block; height: .8rem; min-width: 1px; border-radius: 2px }
.bar.other i { background: var(--other) }
"""
_TITLES = {
    "norm": "Rows by the norm of the embedding",
    "age": "Rows by age, in {unit} since the last gradient",
    "frequency": "Rows by the number of steps that trained them",
}
_MOST = {"norm": "Keys with the largest norms", "frequency": "Most used keys"}


def page_of(found):
    """Returns the page.

    Args:
        found: Dict, as `collect` returns, with `saves`, pairs of a name and bytes. Each table has
            its `summary`, the unit of its `ages`, `sizes`, records by kind of file, and `columns`,
            those that norms are of.
    """
    title = html.escape(str(found["path"]))
    parts = [f"<h1>{html.escape(found['kind'])} {title}</h1>", *_about(found)]
    if len(found["saves"]) > 1:
        parts += ["<h2>Checkpoints and deltas</h2>", _saves(found["saves"])]
    parts += ["<h2>Tables</h2>", _tables(found["tables"])]
    parts.append(_charts([_sizes_of_tables(found["tables"])]))
    for table in found["tables"]:
        parts += [f"<h2>{html.escape(table['name'])}</h2>", _of_table(table)]
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        '<meta name="viewport" content="width=device-width"><style>'
        + _STYLE
        + "</style></head><body>\n"
        + "\n".join(parts)
        + "\n</body></html>\n"
    )


def dtypes_text(table):
    """Returns the dtypes of rows and slots of a table that `collect` has found, as one string."""
    row, slots = table["row_dtype"], table["slot_dtype"]
    return row if slots == row or not table["slots"] else f"{row}, slots {slots}"


def _about(found):
    if found["kind"] == "weights":
        return []
    base = found["goes_on_from"]
    words = [f"<b>step {found['step']:,}</b>", bytes_text(found["bytes"])]
    words += [f"saved by {found['ranks']} ranks"] if found["ranks"] > 1 else []
    words += [f"based on {html.escape(base)}"] if base else []
    return [f"<p>{', '.join(words)}</p>"]


def _saves(saves):
    bars = [(name.removeprefix("step-"), size, bytes_text(size)) for name, size in saves]
    kinds = ["other" if "-delta" in name else "" for name, _ in saves]
    return _charts([_chart("Bytes that each save has written", bars, kinds)])


def _tables(tables):
    head = ("table", "keys", "rows", "width", "dtype", "optimizer", "slots", "bytes")
    rows = [
        (
            html.escape(table["name"]),
            "any" if table["input_dim"] is None else f"below {table['input_dim']:,}",
            f"{table['summary'].num_rows:,}",
            str(table["output_dim"]),
            dtypes_text(table),
            table["optimizer"] or "none",
            ", ".join(table["slots"]) or "none",
            bytes_text(_bytes_of(table)),
        )
        for table in tables
    ]
    lines = [_line("th", head), *(_line("td", row) for row in rows)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _line(tag, cells):
    numbers = (2, 3, 7)
    return "<tr>" + "".join(
        f"<{tag}{' class=number' if place in numbers else ''}>{cell}</{tag}>"
        for place, cell in enumerate(cells)
    ) + "</tr>"  # fmt: skip


def _bytes_of(table):
    return table["bytes_a_row"] * table["summary"].num_rows


def _sizes_of_tables(tables):
    bars = [(each["name"], _bytes_of(each), bytes_text(_bytes_of(each))) for each in tables]
    return _chart("Bytes of rows and slots", bars)


def _of_table(table):
    charts = []
    if len(table["sizes"]) > 1:
        bars = [(name, number, f"{number:,}") for name, number in table["sizes"].items()]
        charts.append(_chart("Records by rank and kind of file", bars))
    summary = table["summary"]
    columns = table.get("columns", table["output_dim"])
    if columns < table["output_dim"]:
        charts.append(f"<p>Norms are of the first {columns} columns, a slice of the table.</p>")
    for measure, bins in summary.bins.items():
        title = _TITLES[measure].format(unit=table.get("ages", ""))
        # Zeros first, then the powers of two in their order.
        keys = sorted(bins, key=lambda exponent: (exponent is not None, exponent or 0))
        bars = [(_range(key, measure), bins[key], f"{bins[key]:,}") for key in keys]
        charts.append(_chart(title, bars))
        if measure in _MOST:
            most = [(str(key), value, f"{value:,.4g}") for key, value in summary.most[measure]]
            charts.append(_chart(_MOST[measure], most, ["other"] * len(most)))
    return _charts(charts) if charts else "<p>no rows</p>"


def _range(exponent, measure):
    if exponent is None:
        return "0"
    if math.isinf(exponent):
        return "not finite"
    first, end = 2.0**exponent, 2.0 ** (exponent + 1)
    if measure == "norm":
        return f"{first:.3g} to {end:.3g}"
    return f"{first:,.0f}" if exponent == 0 else f"{first:,.0f} to {end - 1:,.0f}"


def _charts(charts):
    return f'<div class="charts">{"".join(charts)}</div>'


def _chart(title, bars, kinds=None):
    """A chart of horizontal bars: `(label, value, text)` each."""
    most = max((value for _, value, _ in bars), default=0) or 1
    lines = [
        f'<div class="bar {kind}"><span>{html.escape(label)}</span>'
        f'<i style="width:{100 * value / most:.1f}%"></i><span>{text}</span></div>'
        for (label, value, text), kind in zip(bars, kinds or [""] * len(bars), strict=True)
    ]
    return f'<div class="chart"><h3>{title}</h3>{"".join(lines)}</div>'
