"""What optimizers do to a row that is not in the batch, in numbers and as a picture.

    python examples/untouched_rows.py [--picture untouched_rows.svg]

One row of a table has a gradient in a few steps only. It is trained by a Keras optimizer on
`keras.layers.Embedding`, which rewrites the whole table at every step, and by optimizers of
keras_sparse, which touch the rows of the batch.
"""

import argparse
import pathlib

import keras
import matplotlib
import numpy as np
import tensorflow as tf

import keras_sparse
from keras_sparse import optimizers

matplotlib.use("Agg")  # writes files, needs no display

from matplotlib import pyplot

STEPS = 120
STEPS_WITH_GRADIENT = (*range(5), 50, 51, 90)
SCHEDULE = keras.optimizers.schedules.ExponentialDecay(0.02, decay_steps=40, decay_rate=0.5)


def compared():
    """New optimizers by the panel they are drawn in; the first of each is Keras'."""
    with_both = {"momentum": 0.9, "weight_decay": 0.5}
    return {
        "Adam": {
            "keras.optimizers.Adam": keras.optimizers.Adam(SCHEDULE),
            "Adam": optimizers.Adam(SCHEDULE),
            "LazyAdam": optimizers.LazyAdam(SCHEDULE),
        },
        "SGD with momentum and weight decay": {
            "keras.optimizers.SGD": keras.optimizers.SGD(0.01, **with_both),
            "SGD": optimizers.SGD(0.01, **with_both),
            "SGD without either": optimizers.SGD(0.01),
        },
    }


def train(optimizer):
    """Returns the value of row 0 after each step."""
    if isinstance(optimizer, optimizers.SparseOptimizer):
        layer = keras_sparse.layers.Embedding(1000, 1, embeddings_initializer="ones")
    else:
        layer = keras.layers.Embedding(1000, 1, embeddings_initializer="ones")
    layer.build((None,))
    values = []
    for step in range(STEPS):
        row = 0 if step in STEPS_WITH_GRADIENT else 1 + step
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant([row])) * (-1) ** (step // 50))
        optimizer.apply(tape.gradient(loss, [layer.embeddings]), [layer.embeddings])
        values.append(float(layer(tf.constant([0]))[0, 0]))
    return np.array(values)


def draw(curves, path):
    """Writes the picture: one panel a comparison."""
    figure, panels = pyplot.subplots(1, len(curves), figsize=(11, 4), layout="constrained")
    for axes, (title, lines) in zip(panels, curves.items(), strict=True):
        reference, ours, other = lines
        axes.plot(lines[reference], color="#b9cdd9", linewidth=7, label=reference)
        axes.plot(lines[ours], color="#00796b", label=f"keras_sparse: {ours}")
        axes.plot(lines[other], "--", color="#d0743c", label=f"keras_sparse: {other}")
        low = min(line.min() for line in lines.values())
        for step in STEPS_WITH_GRADIENT:
            axes.plot(step, low, "|", color="black", markersize=9)
        axes.set(title=title, xlabel="step (bars below: steps with a gradient)", ylabel="the row")
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)
    pyplot.close(figure)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=pathlib.Path, help="also draw the curves into this file")
    options = parser.parse_args(arguments)
    curves = {}
    for title, panel in compared().items():
        curves[title] = {name: train(optimizer) for name, optimizer in panel.items()}
        keras_values, *_ = curves[title].values()
        for name, values in curves[title].items():
            difference = np.abs(values - keras_values).max()
            print(f"{title}: {name} ends at {values[-1]:.6f}, at most {difference:.1e} from Keras")
    if options.picture:
        options.picture.parent.mkdir(parents=True, exist_ok=True)
        draw(curves, options.picture)
        print(f"Picture: {options.picture}")
    return curves


if __name__ == "__main__":
    main()
