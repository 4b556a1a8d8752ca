"""What do rows that have missed updates cost in quality?

    python -m benchmarks.stale_quality [--seeds 8] [--capacity 4] [--data FOLDER]

The model of `examples/movielens.py` on MovieLens-1M, trained as it is there: LazyAdam, a learning
rate of .005 that falls by a cosine over 7 epochs, batches of 4096, and the weights of the epoch
that is best on the validation ratings. It trains with `prefetch_lookups(mode="exact")`, which is
bit for bit the training without it, and with `"stale"`, with as many threads as batches ahead:
nearly all rows then miss `capacity` updates.

A seed makes initial rows, dropout and the order of batches, and two seeds differ by more than what
is looked for. So both modes train from each seed, and what counts is the mean of their differences
in test AUC, beside its standard error.
"""

import math
import pathlib
import statistics
import sys
import tempfile
import time

from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import show

# The example's modules are scripts beside the package, not in it.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

TITLE = "Test AUC on MovieLens, of rows that have missed updates"
MODES = ("exact", "stale")
NUM_THRESHOLDS = 10_000  # the AUC is then off by about a thousandth of what is looked for
EVALUATION_BATCH = 8192


def train(mode, seed, ratings, options):
    """Trains a model; returns its test AUC, and the mean and the most of what its rows missed."""
    import keras

    import keras_sparse
    import movielens_data
    import movielens_model

    keras.utils.set_random_seed(seed)
    parts = movielens_data.split(len(ratings))
    batches = movielens_model.make_batches(ratings, parts[0], options.batch_size, shuffle=True)
    validation, test = (
        movielens_model.make_batches(ratings, part, EVALUATION_BATCH) for part in parts[1:]
    )
    model = movielens_model.make_model(ratings.vocabularies)
    schedule = keras.optimizers.schedules.CosineDecay(
        options.learning_rate, decay_steps=options.epochs * len(batches), alpha=0.05
    )
    model.compile(
        optimizer=keras_sparse.optimizers.LazyAdam(schedule),
        loss="binary_crossentropy",
        metrics=[keras.metrics.AUC(NUM_THRESHOLDS, name="auc")],
    )
    capacity = options.capacity
    ahead = keras_sparse.data.prefetch_lookups(batches, model, capacity, capacity, mode)
    fit_best_epoch(model, ahead, validation, options.epochs)
    missed = staleness(movielens_model.table_stats(model))
    return model.evaluate(test, return_dict=True, verbose=0)["auc"], *missed


def fit_best_epoch(model, batches, validation, epochs):
    """Trains, and leaves the model with the weights of its best epoch."""
    import keras

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "best.weights.h5")
        keep_best = keras.callbacks.ModelCheckpoint(
            path, monitor="val_auc", mode="max", save_best_only=True, save_weights_only=True
        )
        model.fit(
            batches,
            validation_data=validation,
            epochs=epochs,
            callbacks=[keep_best],
            shuffle=False,  # the dataset does it
            verbose=0,
        )
        model.load_weights(path)


def staleness(stats):
    """Mean and maximum over the staged lookups that steps have used."""
    stats = [table["prefetch"] for table in stats.values()]
    used = sum(each["used"] for each in stats)
    total = sum(each["staleness_mean"] * each["used"] for each in stats)
    return total / max(1, used), max(each["staleness_max"] for each in stats)


def measure(ratings, options):
    """Returns what `train` says, by mode, for each seed."""
    pairs = {}
    for seed in range(options.first_seed, options.first_seed + options.seeds):
        pairs[seed] = {}
        for mode in MODES:
            started = time.perf_counter()
            pairs[seed][mode] = train(mode, seed, ratings, options)
            seconds = time.perf_counter() - started
            print(f"  {mode}: {pairs[seed][mode][0]:.5f} in {seconds:.0f} s", flush=True)
        mean = with_error(map(difference, pairs.values()))
        print(
            f"seed {seed}, {len(pairs)} of {options.seeds}: {difference(pairs[seed]):+.5f}, "
            f"mean so far {mean}",
            flush=True,
        )
    return pairs


def difference(pair):
    return pair["stale"][0] - pair["exact"][0]


def with_error(numbers, sign="+"):
    """The mean and its standard error, as a text."""
    numbers = list(numbers)
    if len(numbers) < 2:
        return f"{numbers[0]:{sign}.5f}"
    error = statistics.stdev(numbers) / math.sqrt(len(numbers))
    return f"{statistics.mean(numbers):{sign}.5f} ± {error:.5f}"


def table(pairs):
    """Markdown: a row a seed, and the means with their standard errors."""
    rows = []
    for seed, pair in pairs.items():
        (exact, _, _), (stale, mean, most) = (pair[mode] for mode in MODES)
        cells = [f"{seed}", f"{exact:.5f}", f"{stale:.5f}", f"{difference(pair):+.5f}"]
        rows.append([*cells, f"{mean:.2f}, {most}"])
    cells = [with_error((pair[mode][0] for pair in pairs.values()), "") for mode in MODES]
    cells.append(with_error(map(difference, pairs.values())))
    _, means, most = zip(*(pair["stale"] for pair in pairs.values()), strict=True)
    rows.append(["mean", *cells, f"{statistics.mean(means):.2f}, {max(most)}"])
    return markdown(["seed", "exact", "stale", "stale - exact", "staleness mean, max"], rows)


def main(arguments=None):
    import movielens_data

    options = options_of(
        __doc__,
        arguments,
        seeds=8,
        first_seed=0,
        capacity=4,
        size="1m",
        epochs=7,
        batch_size=4096,
        learning_rate=0.005,
        data=None,
    )
    ratings = movielens_data.load(options.size, options.data)
    pairs = in_fresh_process(measure, ratings, options)
    facts = f"{len(ratings):,} ratings, capacity {options.capacity}, {options.epochs} epochs of "
    facts += f"batches of {options.batch_size:,}. ± is one standard error."
    return show(TITLE, f"{facts}\n\n{table(pairs)}")


if __name__ == "__main__":
    main()
