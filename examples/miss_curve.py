"""How large the first tier of a table should be, from the ids it is trained on.

    python examples/miss_curve.py [--picture miss_curve.svg]

Ids of a made-up shop: few items have most of the clicks, and new items come up all the time. The
same clicks are put through `keras_sparse.storage.miss_curve` in the order in which they happened,
and shuffled.
"""

import argparse
import pathlib

import matplotlib
import numpy as np

import keras_sparse

matplotlib.use("Agg")  # writes files, needs no display

from matplotlib import pyplot

BATCH_SIZE = 512
OUTPUT_DIM = 64
NUM_SLOTS = 1  # of Adagrad
WANTED = 0.95
COLORS = {"in order of time": "#00796b", "shuffled": "#d0743c"}


def clicks(num_clicks=400_000, num_items=20_000, new_items=200_000):
    """Returns ids in order of time. The n-th newest item has the n-th part of clicks, roughly."""
    rng = np.random.default_rng(0)
    age = num_items ** rng.random(num_clicks)
    newest = num_items + np.linspace(0, new_items, num_clicks)
    return (newest - age).astype(np.int64)


def measure():
    """Returns the `MissCurve` of each order, printed."""
    ids = clicks()
    orders = {"in order of time": ids, "shuffled": np.random.default_rng(1).permutation(ids)}
    curves = {}
    for name, ordered in orders.items():
        print(f"Clicks {name}:")
        curves[name] = keras_sparse.storage.miss_curve(ordered, BATCH_SIZE)
        rows = curves[name].rows_for(WANTED)
        storage_size = curves[name].bytes_for(WANTED, OUTPUT_DIM, NUM_SLOTS)
        print(f"A hit rate of {WANTED:.0%} takes {rows:,} rows: {storage_size / 1e6:.1f} MB.\n")
    return curves


def draw(curves, path):
    """Writes the picture: both curves, and where they reach the wanted hit rate."""
    figure, axes = pyplot.subplots(figsize=(8, 4), layout="constrained")
    for name, curve in curves.items():
        curve.plot(axes)
        axes.lines[-1].set(color=COLORS[name], label=f"clicks {name}")
        rows = curve.rows_for(WANTED)
        axes.plot([rows, rows], [0, WANTED], ":", color=COLORS[name])
        axes.plot(rows, WANTED, "o", color=COLORS[name])
        place = {"xytext": (-6, 4), "textcoords": "offset points", "ha": "right"}
        axes.annotate(f"{rows:,}", (rows, 0), color=COLORS[name], **place)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper left")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=pathlib.Path, help="also draw the curves into this file")
    options = parser.parse_args(arguments)
    curves = measure()
    if options.picture:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        draw(curves, options.picture)
        print(f"Picture: {options.picture}")
    return curves


if __name__ == "__main__":
    main()
