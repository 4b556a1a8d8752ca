"""Trains, saves and reloads a click model on MovieLens whose tables are all keras_sparse layers.

python examples/movielens.py                           # MovieLens-1M, what `make demo` runs
python examples/movielens.py --size 100k               # a tenth of the ratings, some seconds
python examples/movielens.py --evaluate PATH.keras     # a saved model on the test ratings
"""

import argparse
import dataclasses
import pathlib
import subprocess
import sys
import time

import keras
import numpy as np

import keras_sparse
import movielens_data
import movielens_model
import movielens_plot

SEED = 0


@dataclasses.dataclass(frozen=True)
class Settings:
    """What training takes for a size of the data."""

    epochs: int
    batch_size: int
    learning_rate: float


SETTINGS = {
    "1m": Settings(epochs=7, batch_size=4096, learning_rate=0.005),
    "100k": Settings(epochs=7, batch_size=1024, learning_rate=0.005),
}


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
        model = keras.saving.load_model(options.evaluate)
        print_quality(model, ratings, parts[2])
    else:
        train_and_report(options, ratings, parts, started)


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=sorted(SETTINGS), default="1m", help="default: 1m")
    parser.add_argument("--epochs", type=int, help="default: 7")
    parser.add_argument(
        "--data", metavar="FOLDER", help="cache of the download; default: ~/.cache/keras_sparse"
    )
    parser.add_argument(
        "--output",
        metavar="FOLDER",
        type=pathlib.Path,
        default=pathlib.Path(__file__).parent / "output",
        help="where the model and the picture go; default: examples/output",
    )
    parser.add_argument("--evaluate", metavar="PATH", help="evaluate a saved model, train nothing")
    options = parser.parse_args(arguments)
    if options.epochs is not None and options.epochs < 1:
        parser.error(f"--epochs must be at least 1. Received: --epochs {options.epochs}")
    return options


def train_and_report(options, ratings, parts, started):
    options.output.mkdir(parents=True, exist_ok=True)
    model_path = options.output / f"movielens-{options.size}.keras"
    picture_path = model_path.with_suffix(".png")
    training_started = time.perf_counter()
    model, history = train(options, ratings, parts, model_path)
    seconds = time.perf_counter() - training_started

    print("\nTest ratings, this process:")
    quality = print_quality(model, ratings, parts[2])
    print("\nTest ratings, the saved model in a second process:")
    check_second_process(options, model_path, quality)

    stats = movielens_model.table_stats(model)
    best_epoch = 1 + int(np.argmax(history["val_auc"]))
    title = f"Clicks on MovieLens-{options.size.upper()}: test {quality}"
    movielens_plot.save_picture(picture_path, title, history, best_epoch, stats)
    print_tables(stats)
    num_epochs = len(history["loss"])
    print(
        f"\nTest {quality} with the weights of epoch {best_epoch} of {num_epochs}.\n"
        f"{seconds / num_epochs:.1f} s an epoch, {time.perf_counter() - started:.0f} s in all.\n"
        f"Model:   {model_path}\nPicture: {picture_path}"
    )


def train(options, ratings, parts, model_path):
    """Fits a model, saving it after each epoch that is the best so far.

    Returns:
        The model with the weights of its best epoch, and the history of all epochs.
    """
    settings = SETTINGS[options.size]
    epochs = options.epochs or settings.epochs
    keras.utils.set_random_seed(SEED)
    train_part, validation_part, _ = parts
    batches = movielens_model.make_batches(ratings, train_part, settings.batch_size, shuffle=True)
    model = movielens_model.make_model(ratings.vocabularies)
    schedule = keras.optimizers.schedules.CosineDecay(
        settings.learning_rate, decay_steps=epochs * len(batches), alpha=0.05
    )
    model.compile(
        optimizer=keras_sparse.optimizers.LazyAdam(schedule),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(name="auc")],
    )
    keep_best = keras.callbacks.ModelCheckpoint(
        model_path, monitor="val_auc", mode="max", save_best_only=True
    )
    history = model.fit(
        batches,
        validation_data=movielens_model.make_batches(ratings, validation_part, 8192),
        epochs=epochs,
        callbacks=[keep_best],
        shuffle=False,  # the dataset does it
    ).history
    model.load_weights(model_path)
    return model, history


def print_quality(model, ratings, positions):
    """Prints and returns the line with the model's AUC and log-loss on some of the ratings."""
    batches = movielens_model.make_batches(ratings, positions, 8192)
    clicks = model.predict(batches, verbose=0)[:, 0].astype(np.float64)
    labels = ratings.labels[positions]
    line = f"AUC {area_under_curve(labels, clicks):.4f}, log-loss {log_loss(labels, clicks):.4f}"
    print(line)
    return line


def check_second_process(options, model_path, expected):
    """Evaluates the saved model in a new Python process, which must find the same quality."""
    command = [sys.executable, __file__, "--evaluate", str(model_path), "--size", options.size]
    if options.data:
        command += ["--data", options.data]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"the second process must load {model_path}. Received:\n{done.stderr}")
    print(done.stdout, end="", flush=True)
    received = done.stdout.splitlines()[-1]
    if received != expected:
        raise RuntimeError(
            f"the loaded model must give what the saved one gave: {expected}. Received: {received}"
        )


def print_tables(stats):
    print(f"\n{'table':<12}{'rows':>8}{'MB':>8}   (a row and its optimizer slots are one record)")
    for name, table in stats.items():
        print(f"{name:<12}{table['rows']:>8,}{table['bytes'] / 1e6:>8.3f}")


def area_under_curve(labels, scores):
    """The exact area under the ROC curve; ties count half."""
    order = np.argsort(scores)
    _, first, counts = np.unique(scores[order], return_index=True, return_counts=True)
    ranks = np.empty(len(scores))
    ranks[order] = np.repeat(first + (counts + 1) / 2, counts)
    clicks = labels > 0
    num_clicks = clicks.sum()
    above = ranks[clicks].sum() - num_clicks * (num_clicks + 1) / 2
    return above / (num_clicks * (len(labels) - num_clicks))


def log_loss(labels, probabilities):
    """The mean of minus the logarithm of the probability given to what happened."""
    given = np.where(labels > 0, probabilities, 1 - probabilities)
    return -np.mean(np.log(np.maximum(given, 1e-7)))  # as Keras: a sure mistake costs a finite loss


if __name__ == "__main__":
    main()
