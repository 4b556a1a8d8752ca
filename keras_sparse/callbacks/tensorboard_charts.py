# What a chart of each name shows, for whoever reads it in TensorBoard.
DESCRIPTIONS = {
    "TIER_rows": "Rows in this tier.",
    "TIER_bytes": "Bytes of everything in this tier.",
    "TIER_hit_rate": "Of what this tier was asked for, the part that it had.",
    "TIER_hits_per_step": "Of what this tier was asked for in a step, how much it had.",
    "TIER_read_bytes_per_second": "Bytes of rows that were read from this tier, a second.",
    "TIER_write_bytes_per_second": "Bytes of rows that were written to this tier, a second.",
    "waited_seconds_per_step": "Seconds that a step stood still for lower tiers.",
    "prefetch_used_rate": "Of the lookups, the part that was staged, waited for or not.",
    "prefetch_waited_seconds_per_step": "Seconds that a step waited for a staged lookup.",
    "prefetch_hidden_seconds_per_step": "Seconds of a staged lookup beyond the waiting.",
}


def description_of(name):
    """What the chart of a name shows, as of `DRAM_rows`."""
    _, _, word = name.partition("_")
    return DESCRIPTIONS.get(name) or DESCRIPTIONS[f"TIER_{word}"]


def tensorboard_charts(before, after, steps, seconds):
    """Returns the numbers of a table's charts, by name, from two of its `stats`.

    They are named as in `DESCRIPTIONS`, with the tiers that the table has. A rate is `None` where
    nothing was asked or no time went by, and where counts have begun anew, as an optimizer lets
    them when it is built.

    Args:
        before, after: Dicts of `EmbeddingVariable.stats`.
        steps, seconds: Numbers: what lies between the two.
    """
    charts = {"waited_seconds_per_step": _each(before, after, "waited_seconds", steps)}
    for tier, now in after["tiers"].items():
        was = before["tiers"][tier]
        charts[f"{tier}_rows"] = now["rows"]
        charts[f"{tier}_bytes"] = now["bytes"]
        charts[f"{tier}_hit_rate"] = share_of(was, now, "hits", "misses")
        charts[f"{tier}_hits_per_step"] = _each(was, now, "hits", steps)
        for name in ("read_bytes", "write_bytes"):
            charts[f"{tier}_{name}_per_second"] = _each(was, now, name, seconds)
    was, now = before["prefetch"], after["prefetch"]
    charts["prefetch_used_rate"] = share_of(was, now, "used", "missed")
    for name in ("waited_seconds", "hidden_seconds"):
        charts[f"prefetch_{name}_per_step"] = _each(was, now, name, steps)
    return charts


def all_counters(before, after):
    """Returns the numbers of `stats` by their paths, and the hit rate of each tier as one more."""
    numbers = {name: number for name, number in after.items() if not isinstance(number, dict)}
    for folder, counts in {**after["tiers"], "prefetch": after["prefetch"]}.items():
        numbers |= {f"{folder}/{name}": number for name, number in counts.items()}
    for tier, now in after["tiers"].items():
        numbers[f"{tier}/hit_rate"] = share_of(before["tiers"][tier], now, "hits", "misses")
    return numbers


def numbers_at_rest(stats):
    """Returns what the charts of a table show while all is there and nothing happens to it."""
    charts = tensorboard_charts(stats, stats, 0, 0)
    rates = [name for name, number in charts.items() if number is None]
    return charts | {name: 1.0 if name.endswith("_hit_rate") else 0.0 for name in rates}


def share_of(before, after, wanted, other):
    """The part of both counts that one of them is, of what came in between; or `None`."""
    wanted, other = (after[name] - before[name] for name in (wanted, other))
    return wanted / (wanted + other) if wanted + other > 0 and min(wanted, other) >= 0 else None


def _each(before, after, name, duration):
    """How much a number has grown, a step or a second; or `None`."""
    grown = after[name] - before[name]
    return grown / duration if duration > 0 and grown >= 0 else None
