"""What do rows and slots in 16 bits cost in quality?

    python -m benchmarks.row_dtype_quality [--only movielens] [--seeds 9]

`movielens` is the click model of `make demo` on MovieLens-1M. `dlrm` is the model of
`examples/dlrm` on made-up clicks, whose chances are known: the best possible AUC is known too.

Every form of the tables trains from each seed, and a table shows the mean of the differences to
float32 by seed. A seed sets initial rows, dense layers, dropout and the order of samples. The
learning rate falls by a cosine to a hundredth of its start, so that the last updates are smaller
than half a bit of a bfloat16 row: there the two ways of rounding differ. The weights of the last
step are measured, because a choice of the best epoch would hide updates that were lost later.
"""

import argparse
import contextlib
import io
import pathlib
import sys
import tempfile
import time

from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import options_of
from benchmarks.report import show
from benchmarks.stale_quality import with_error

# The MovieLens modules are scripts beside the package, not in it.
sys.path.append(str(pathlib.Path(__file__).parents[1] / "examples"))

TITLE = "Test AUC and log-loss of rows and slots in 16 bits"
BASE = "float32"
FORMS = {BASE: {}}  # arguments of tables
for _title, _rows, _slots in (
    ("bfloat16 rows", "bfloat16", "float32"),
    ("bfloat16 rows and slots", "bfloat16", "bfloat16"),
    ("float16 rows", "float16", "float32"),
):
    for _rounding in ("stochastic", "nearest"):
        _form = {"row_dtype": _rows, "slot_dtype": _slots, "rounding": _rounding}
        FORMS[f"{_title}, {_rounding}"] = _form
# Its second moment would never fall: docs/how-to/row-dtypes.md.
REFUSED = {("LazyAdam", "bfloat16 rows and slots, nearest")}
EVALUATION_BATCH = 16384
STEPS_A_CALL = 16
LEAST_RATE = 0.01  # to the highest


class MovieLens:
    """The ratings, cut as `make demo` does, and its click model.

    Attributes:
        features: Dict of tensors, an entry a sample.
        labels: Float array, 1 for a click.
        train, test: Integer arrays, positions of samples.
        batch_size, epochs: Integers.
        optimizers: Dict, the arguments by the name of an optimizer; the rate is the highest.
        facts: String. What a reader needs to know of the data.
    """

    batch_size = 4096
    epochs = 2

    def __init__(self, options):
        import tensorflow as tf

        import movielens_data

        self.optimizers = {"LazyAdam": {"learning_rate": 0.005}}
        ratings = movielens_data.load(options.size, options.data)
        genres = tf.RaggedTensor.from_row_splits(ratings.genre_ids, ratings.genre_splits)
        self._vocabularies = ratings.vocabularies
        self.features = {name: tf.constant(each) for name, each in ratings.columns.items()}
        self.features["genres"] = genres
        self.labels = ratings.labels
        self.train, _, self.test = movielens_data.split(len(ratings))
        self.facts = f"{len(self.train):,} ratings to train on, {len(self.test):,} to test"

    def model(self, seed, form):
        import movielens_model

        return movielens_model.make_model(self._vocabularies, **form)


class Dlrm:
    """Made-up clicks, of which the last seventh is the test part; attributes as of `MovieLens`."""

    batch_size = 1024
    epochs = 2

    def __init__(self, options):
        import numpy as np
        import tensorflow as tf

        from examples.dlrm import generate
        from examples.dlrm import preprocess
        from examples.dlrm import split_binary

        # A row's gradient is of a mean over a batch: Keras' start of Adagrad, .1, would dwarf it.
        adagrad = {"learning_rate": 0.05, "initial_accumulator_value": 1e-8, "epsilon": 1e-12}
        self.optimizers = {"Adagrad": adagrad, "LazyAdam": {"learning_rate": 0.01}}
        parser = argparse.ArgumentParser()
        preprocess.add_options(parser)
        with tempfile.TemporaryDirectory() as folder:
            planted = generate.generate(folder, options.samples)
            words = ["--train", f"{folder}/train.txt", "--output", f"{folder}/features"]
            with contextlib.redirect_stdout(io.StringIO()):  # its progress
                preprocess.main(parser.parse_args([*words, "--frequency_threshold", "100"]))
            parts = [split_binary.Part(f"{folder}/features", name) for name in ("train", "test")]
            arrays = zip(*(part.read(0, len(part)) for part in parts), strict=True)
            numerical, ids, labels = map(np.concatenate, arrays)
            self._num_ids = parts[0].num_ids
        self.features = {"numerical": tf.constant(numerical), "ids": tf.constant(ids)}
        self.labels = labels[:, 0]
        self.train, self.test = np.split(np.arange(len(labels)), [len(parts[0])])
        best = quality(self.labels[self.test], planted.chances[self.test])
        self.facts = (
            f"{len(self.train):,} samples to train on, {len(self.test):,} to test, whose chances "
            "have AUC {:.4f} and log-loss {:.4f}".format(*best)
        )

    def model(self, seed, form):
        import keras

        from examples.dlrm.model import make_model

        form = {**form, "seed": 1000 * seed}
        model = make_model(self._num_ids, 8, (32,), (64, 32), table_options=form)
        click = keras.layers.Activation("sigmoid")(model.output)
        return keras.Model(model.input, click)


MODELS = {"dlrm": Dlrm, "movielens": MovieLens}


def quality(labels, chances):
    """Returns the exact AUC, and the log-loss."""
    import numpy as np

    clicked, chances = np.asarray(labels) > 0.5, np.asarray(chances, np.float64)
    _, places, counts = np.unique(chances, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]  # equal chances share their mean rank
    num_clicks = clicked.sum()
    below = ranks[clicked].sum() - num_clicks * (num_clicks + 1) / 2
    auc = below / (num_clicks * (len(clicked) - num_clicks))
    chances = np.clip(np.where(clicked, chances, 1 - chances), 1e-7, 1)
    return float(auc), float(-np.log(chances).mean())


def batches_of(data, positions, batch_size):
    """Returns the dataset of the samples at the positions, without those that fill no batch.

    A gathered batch takes a fraction of the time of one that is put together from samples.
    """
    import tensorflow as tf

    places = tf.constant(positions[: len(positions) // batch_size * batch_size], tf.int64)
    labels = tf.constant(data.labels)

    def gather(batch):
        features = {name: tf.gather(each, batch) for name, each in data.features.items()}
        return features, tf.gather(labels, batch)

    rows = tf.reshape(places, (-1, batch_size))
    dataset = tf.data.Dataset.range(len(rows)).map(lambda i: gather(rows[i]))
    return dataset.apply(tf.data.experimental.assert_cardinality(len(rows))).prefetch(2)


def train(data, optimizer, form, seed, epochs):
    """Trains a model; returns the AUC and the log-loss of the test part."""
    import keras
    import numpy as np
    import tensorflow as tf

    import keras_sparse

    keras.backend.clear_session()
    keras.utils.set_random_seed(seed)
    orders = np.random.default_rng(seed)
    order = np.concatenate([orders.permutation(data.train) for _ in range(epochs)])
    batches = batches_of(data, order, data.batch_size)
    model = data.model(seed, form)
    arguments = dict(data.optimizers[optimizer])
    rate = keras.optimizers.schedules.CosineDecay(
        arguments.pop("learning_rate"), decay_steps=len(batches), alpha=LEAST_RATE
    )
    model.compile(
        getattr(keras_sparse.optimizers, optimizer)(rate, **arguments),
        loss="binary_crossentropy",
        steps_per_execution=min(STEPS_A_CALL, len(batches)),
        jit_compile=False,
    )
    model.fit(batches, shuffle=False, verbose=0)
    predict = tf.function(lambda features: model(features, training=False), reduce_retracing=True)
    chances = []
    for first in range(0, len(data.test), EVALUATION_BATCH):
        places = data.test[first : first + EVALUATION_BATCH]
        some = {name: tf.gather(each, places) for name, each in data.features.items()}
        chances.append(predict(some).numpy()[:, 0])
    return quality(data.labels[data.test], np.concatenate(chances))


def measure(name, options):
    """Returns, by a line of facts on each optimizer, form and seed, what `train` returns."""
    data = MODELS[name](options)
    epochs = options.epochs or data.epochs
    results = {}
    for optimizer, arguments in data.optimizers.items():
        call = ", ".join(f"{key}={each}" for key, each in arguments.items())
        forms = results[
            f"`{name}`, {optimizer}({call}), {epochs} epochs of batches of {data.batch_size:,}: "
            f"{data.facts}."
        ] = {form: {} for form in FORMS if (optimizer, form) not in REFUSED}
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for form, found in forms.items():
                started = time.perf_counter()
                found[seed] = train(data, optimizer, FORMS[form], seed, epochs)
                print(
                    "  {}, {}, seed {}, {}: AUC {:.5f}, log-loss {:.5f} in {:.0f} s".format(
                        *(name, optimizer, seed, form, *found[seed], time.perf_counter() - started)
                    ),
                    flush=True,
                )
    return results


def table(forms):
    """Markdown: a row a form, the means over seeds with their standard errors."""
    rows = []
    for form, found in forms.items():
        cells = [form]
        for i in range(2):
            differences = [each[i] - forms[BASE][seed][i] for seed, each in found.items()]
            cells.append(with_error((each[i] for each in found.values()), ""))
            cells.append("" if form == BASE else with_error(differences))
        rows.append(cells)
    return markdown(["rows and slots", "AUC", "to float32", "log-loss", "to float32"], rows)


def main(arguments=None):
    options = options_of(
        __doc__,
        arguments,
        only=tuple(MODELS),
        seeds=9,
        first_seed=0,
        epochs=0,
        samples=150_000,
        size="1m",
        data=None,
    )
    parts = []
    for name in options.only:
        results = in_fresh_process(measure, name, options)
        parts += [f"{facts}\n\n{table(forms)}" for facts, forms in results.items()]
    parts.append(f"{options.seeds} seeds; ± is one standard error.")
    return show(TITLE, "\n\n".join(parts))


if __name__ == "__main__":
    main()
