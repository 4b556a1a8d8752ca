"""What `measure` found, as Markdown."""

from benchmarks.gpu import timeline
from benchmarks.report import markdown
from benchmarks.synthetic.models import GPU_SOURCE
from keras_sparse.utils.byte_sizes import bytes_text

NAMES = {
    "ours": "keras_sparse",
    "keras": "keras.layers.Embedding",
    "dense": "dense part alone, rows given",
}
HEAD = (
    "",
    "ms a step",
    "fastest",
    "samples/s",
    "gathered, GB/s",
    "of memory's rate",
    "tables' memory a rank",
    "disk a rank",
)


def report(facts):
    """The text: what was run, a line a way to keep tables, and what it stands beside."""
    rows = [cells(api, found, facts["gather"]) for api, found in facts["apis"].items()]
    lines = [title(facts), markdown(HEAD, rows), *notes(facts)]
    return "\n\n".join([*lines, timeline.table(facts["trace"])] if facts["trace"] else lines)


def title(facts):
    options = facts["options"]
    scale = "" if options["scale"] == 1 else f", {options['scale']:g} of its rows"
    return (
        f"{facts['model']}{scale}: {facts['tables']} tables, {bytes_text(facts['table_bytes'])} "
        f"of rows; batches of {options['batch_size']:,}, {options['optimizer']}, "
        f"{options['storage']}; {facts['num_ranks']} x {options['threads']} threads."
    )


def cells(api, found, gather):
    gathered = found["gathered_rate"]
    share = gathered / gather["rate"] if gather and gathered else None
    disk = max(found["table_disk_bytes"])
    return [
        NAMES[api],
        f"{found['iteration_ms']:.4g}",
        f"{found['fastest_ms']:.4g}",
        f"{found['samples_per_second']:,.0f}",
        f"{gathered:.3g}" if gathered else "",
        "" if share is None else f"{share:.0%}",
        bytes_text(max(found["table_memory_bytes"])) if gathered else "",
        bytes_text(disk) if disk else "",
    ]


def notes(facts):
    memory, plan = facts["memory"], facts["plan"]
    lines = [
        f"A process holds {bytes_text(max(memory['resident_bytes']))}, at most "
        f"{bytes_text(max(memory['peak_bytes']))}, with batches and all else."
    ]
    if plan:
        lines.append(
            f"The plan has {bytes_text(max(plan['rank_bytes']))} of rows and slots a rank and "
            f"predicts {1e3 * max(plan['rank_seconds']):.3g} ms for the tables alone."
        )
    if facts["gather"]:
        gather = facts["gather"]
        rates = ", ".join(f"{int(row)} bytes: {n:.3g}" for row, n in gather["row_rates"].items())
        lines.append(
            f"Memory gives {gather['rate']:.3g} GB/s of such rows at random ({rates}), "
            f"{gather['in_order_rate']:.3g} in order. A step does more than gather."
        )
    if facts["gpu_ms"] and facts["options"]["scale"] == 1:
        on = ", ".join(f"{ms} ms on {n}" for n, ms in facts["gpu_ms"].items())
        lines.append(f"Not of this machine: {on} GPUs ({GPU_SOURCE}, batches of 65,536).")
    return lines
