"""Trains, saves and reloads a click model on MovieLens whose tables are all keras_sparse layers.

python examples/movielens.py                           # MovieLens-1M, what `make demo` runs
python examples/movielens.py --size 100k               # a tenth of the ratings, some seconds
python examples/movielens.py --evaluate PATH.keras     # a saved model on the test ratings
"""

import argparse
import pathlib
import subprocess
import sys
import time

import keras
import matplotlib

import keras_sparse
import movielens_data
import movielens_model

matplotlib.use("Agg")  # writes files, needs no display

from matplotlib import pyplot

SEED = 0
BATCH_SIZES = {"1m": 4096, "100k": 1024}


def main(arguments=None):
    options = parse_arguments(arguments)
    started = time.perf_counter()
    ratings = movielens_data.load(options.size, options.data)
    parts = movielens_data.split(len(ratings), SEED)
    print(
        f"MovieLens-{options.size.upper()}: {len(ratings):,} ratings (no 3s), "
        f"{ratings.labels.mean():.1%} clicks, read in {time.perf_counter() - started:.1f} s"
    )
    if options.evaluate:
        print(quality(keras.saving.load_model(options.evaluate), ratings, parts[2]))
        return
    options.output.mkdir(parents=True, exist_ok=True)
    path = options.output / f"movielens-{options.size}.keras"
    model, history = train(options, ratings, parts, path)
    here = quality(model, ratings, parts[2])
    print(f"\nTest ratings, this process:\n{here}")
    there = evaluate_saved(options, path)
    print(f"\nTest ratings, the saved model in a second process:\n{there}")
    if there != here:
        raise RuntimeError(f"The loaded model must give {here}. Received: {there}")

    stats = movielens_model.table_stats(model)
    print(f"\n{'table':<12}{'rows':>8}{'MB':>8}   (a row and its optimizer slots are one record)")
    for name, table in stats.items():
        print(f"{name:<12}{table['rows']:>8,}{table['bytes'] / 1e6:>8.3f}")
    draw(path.with_suffix(".png"), f"Clicks on MovieLens, test: {here}", history, stats)
    print(
        f"\n{time.perf_counter() - started:.0f} s in all.\n"
        f"Model:   {path}\nPicture: {path.with_suffix('.png')}"
    )


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    output = pathlib.Path(__file__).parent / "output"
    add("--size", choices=sorted(BATCH_SIZES), default="1m", help="default: 1m")
    add("--epochs", type=int, default=7, help="default: 7")
    add("--data", help="folder of the download; default: ~/.cache/keras_sparse")
    add("--output", type=pathlib.Path, default=output, help="folder of the model and the picture")
    add("--evaluate", metavar="PATH", help="evaluate a saved model, train nothing")
    return parser.parse_args(arguments)


def train(options, ratings, parts, path):
    """Fits a model, saving it after each epoch that is the best so far.

    Returns:
        The model with the weights of its best epoch, and the history of all epochs.
    """
    keras.utils.set_random_seed(SEED)
    train_part, validation_part, _ = parts
    batch_size = BATCH_SIZES[options.size]
    batches = movielens_model.make_batches(ratings, train_part, batch_size, shuffle=True)
    model = movielens_model.make_model(ratings.vocabularies)
    schedule = keras.optimizers.schedules.CosineDecay(
        0.005, decay_steps=options.epochs * len(batches), alpha=0.05
    )
    model.compile(
        optimizer=keras_sparse.optimizers.LazyAdam(schedule),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(10_000, name="auc")],  # thresholds: as good as exact
    )
    keep_best = keras.callbacks.ModelCheckpoint(
        path, monitor="val_auc", mode="max", save_best_only=True
    )
    history = model.fit(
        batches,
        validation_data=movielens_model.make_batches(ratings, validation_part, 8192),
        epochs=options.epochs,
        callbacks=[keep_best],
        shuffle=False,  # the dataset does it
    ).history
    model.load_weights(path)
    return model, history


def quality(model, ratings, positions):
    """Returns the line with the model's AUC and log-loss on some of the ratings."""
    batches = movielens_model.make_batches(ratings, positions, 8192)
    found = model.evaluate(batches, return_dict=True, verbose=0)
    return f"AUC {found['auc']:.4f}, log-loss {found['loss']:.4f}"


def evaluate_saved(options, path):
    """Returns what a new Python process says of the quality of the saved model."""
    command = [sys.executable, __file__, "--evaluate", str(path), "--size", options.size]
    command += ["--data", options.data] if options.data else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return done.stdout.splitlines()[-1]


def draw(path, title, history, stats):
    """Writes a picture of loss and AUC by epochs, and of the rows and megabytes of the tables."""
    figure, panels = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    figure.suptitle(title)
    for axes, metric, name in zip(panels[0], ("loss", "auc"), ("Log-loss", "AUC"), strict=True):
        epochs = range(1, 1 + len(history[metric]))
        axes.plot(epochs, history[metric], "o-", label="train (with dropout)")
        axes.plot(epochs, history[f"val_{metric}"], "o-", label="validation")
        axes.set(title=name, xlabel="epoch")
        axes.legend()
    names = list(reversed(stats))
    numbers = {
        "Rows of each table": [stats[name]["rows"] for name in names],
        "Megabytes, optimizer slots included": [stats[name]["bytes"] / 1e6 for name in names],
    }
    for axes, (name, values) in zip(panels[1], numbers.items(), strict=True):
        axes.bar_label(axes.barh(names, values), [f"{value:,.4g}" for value in values], padding=4)
        axes.set(title=name, xscale="log", xlim=(min(values) / 2, max(values) * 6))
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


if __name__ == "__main__":
    main()
