import dataclasses
import json

from keras_sparse.commands import info_command
from keras_sparse.commands.bench_steps import measure
from keras_sparse.commands.bench_steps import WORKLOADS
from keras_sparse.utils import checks
from keras_sparse.utils.byte_sizes import bytes_text
from keras_sparse.utils.plotting import check_picture
from keras_sparse.utils.plotting import save_picture
from keras_sparse.utils.text_table import aligned

_PEERS = {"keras_sparse": "keras_sparse", "keras": "keras.layers.Embedding"}
_KINDS = {"lookup": "lookup", "step": "training step"}


def run(options):
    """Times, prints and draws.

    Args:
        options: `argparse.Namespace` of the options of the command.
    """
    if options.picture:
        check_picture(options.picture)  # what is missing is said before the work, not after it
    found = collect(options.workloads, options.batch_size, options.scale, options.turns)
    print(json.dumps(found, indent=1) if options.json else "\n".join(_lines(found)))
    if options.picture:
        save_picture(lambda axes: _draw(found, axes), options.picture, (8, 3.5))


def collect(names, batch_size, scale, num_turns):
    """Returns the machine and the medians, as a dict for JSON.

    Args:
        names: List of keys of `WORKLOADS`.
        batch_size, num_turns: Integers.
        scale: Float, by which the rows of each table are multiplied.
    """
    checks.positive(batch_size, "batch_size")
    checks.positive(num_turns, "turns")
    if not 0 < scale < float("inf"):
        raise ValueError(f"`scale` must be above 0 and finite. Received: scale={scale}")
    results = []
    for name in names:
        rows = checks.positive(int(WORKLOADS[name].rows * scale), "rows")
        workload = dataclasses.replace(WORKLOADS[name], rows=rows)
        seconds = measure(workload, batch_size, num_turns)
        title = workload.title.format(rows=rows)
        results.append({"workload": name, "title": title, "seconds": seconds})
    return {"batch_size": batch_size, "results": results, "machine": info_command.collect()}


def _lines(found):
    cells = [("ms, medians", "", "keras_sparse", "Keras", "times")]
    for result in found["results"]:
        title = result["title"]
        for kind, name in _KINDS.items():
            ours, theirs = (result["seconds"][peer][kind] for peer in _PEERS)
            numbers = (f"{1e3 * ours:.3g}", f"{1e3 * theirs:.3g}", f"{theirs / ours:.1f}")
            cells.append((title, name, *numbers))
            title = ""
    machine = found["machine"]
    return [
        f"Batches of {found['batch_size']:,} samples, Adagrad, beside keras.layers.Embedding.",
        "",
        *aligned(cells, "llrrr"),
        "",
        f"{machine['processor']}, {machine['cores']} cores, {bytes_text(machine['memory'])}",
        f"keras_sparse {machine['keras_sparse']}, TensorFlow {machine['tensorflow']}, "
        f"Keras {machine['keras']}, Python {machine['python']}",
    ]


def _draw(found, axes):
    """Bars of the training steps, a group a workload."""
    titles = [result["title"].replace(", ", ",\n", 1) for result in found["results"]]
    for i, (peer, name) in enumerate(_PEERS.items()):
        places = [group + (i - 0.5) * 0.4 for group in range(len(titles))]
        values = [1e3 * result["seconds"][peer]["step"] for result in found["results"]]
        bars = axes.barh(places, values, 0.4, label=name)
        axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=3)
    axes.set_yticks(range(len(titles)), titles)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.margins(x=0.15)
    axes.set_xlabel(f"ms a training step of {found['batch_size']:,} samples with Adagrad")
    machine = found["machine"]
    axes.set_title(f"{machine['processor']}, {machine['cores']} cores", fontsize="medium")
    axes.figure.legend(loc="outside lower center", ncols=len(_PEERS))
