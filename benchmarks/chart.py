"""Draws the picture of docs/benchmarks.md from the results in docs/benchmarks/results.md.

python -m benchmarks.chart
"""

import pathlib
import re

from keras_sparse.utils.plotting import import_pyplot

DOCS = pathlib.Path(__file__).parent.parent / "docs"
COLUMN = "adagrad"
WORKLOADS = {
    "W1": "26 tables of 400,000 x 32,\none id each",
    "W2": "5,000,000 x 64,\n1 to 20 ids, summed",
    "W3": "any 64-bit key,\n26 a sample, x 64",
}
PEERS = {
    "keras_sparse": "#1b7837",
    "plain C++, huge pages": "#999999",
    "FBGEMM TBE": "#c2a5cf",
    "torch sparse": "#9970ab",
    "TensorFlow by hand": "#f4a582",
    "keras.layers.Embedding": "#b2182b",
}


def step_times(text, workload):
    """Returns ms by the peer's name, of the first table below a workload's heading."""
    _, _, section = text.partition(f"\n### {workload}: ")
    table = re.search(r"(?:^\|.*\n)+", section, re.MULTILINE)[0]
    head, _, *rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()
    ]
    times = {row[0]: row[head.index(COLUMN)] for row in rows}
    return {
        re.sub(", (26 layers|hashed)$", "", peer): float(ms) for peer, ms in times.items() if ms
    }


def main():
    text = (DOCS / "benchmarks" / "results.md").read_text()
    pyplot = import_pyplot()
    figure, all_axes = pyplot.subplots(1, len(WORKLOADS), figsize=(10, 2.7), sharey=True)
    for axes, (workload, title) in zip(all_axes, WORKLOADS.items(), strict=True):
        times = step_times(text, workload)
        values = [times[peer] for peer in PEERS]
        bars = axes.barh(list(PEERS), values, color=list(PEERS.values()))
        axes.bar_label(bars, [f"{value:.3g}" for value in values], padding=2, fontsize=8)
        axes.set_xscale("log")
        axes.set_xlim(1, 2000)
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("ms a step (log)", fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0].invert_yaxis()
    figure.tight_layout()
    pyplot.rcParams["svg.hashsalt"] = "benchmarks"  # the same picture, the same file
    figure.savefig(DOCS / "benchmarks.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
