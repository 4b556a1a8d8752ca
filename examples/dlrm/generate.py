"""Makes up raw click logs of Criteo's form: `python -m examples.dlrm generate`.

Categories follow a power law, fields are missing here and there, and each click is drawn with a
chance that is known: what the best possible model would predict. It follows from three of the
numbers, from four of the categories, and from how the values of two further ones go together. All
else is noise.
"""

import argparse
import dataclasses
import pathlib

import keras
import numpy as np

from examples.dlrm.raw_lines import NUM_CATEGORICAL
from examples.dlrm.raw_lines import NUM_NUMERICAL

# How many values each category has: of such different sizes as Criteo's, from 3 to 100,000.
NUM_VALUES = (
    *(100, 60, 100_000, 20_000, 50, 15, 5000, 200, 3, 10_000, 2000, 50_000, 1500),
    *(26, 4000, 30_000, 10, 40, 1000, 4, 80_000, 12, 14, 8000, 48, 6000),
)
# Of the numbers, of which these are the indices.
NUMBER_EFFECTS = {0: 0.6, 3: -0.5, 7: 0.4}
# Of each value of a category: the standard deviation.
CATEGORY_EFFECTS = {0: 1.2, 4: 1.0, 17: 0.8, 24: 0.8}
PAIR = 5, 13  # what two values have in common: the product of a number that each has
PAIR_EFFECT = 1.0
BIAS = -1.6
POWER = 1.05
MISSING_NUMBERS, MISSING_CATEGORIES = 0.1, 0.03
CHUNK = 50_000


@dataclasses.dataclass(frozen=True)
class Planted:
    """What was drawn: whether there was a click, and the chance of it; an entry a sample."""

    labels: np.ndarray
    chances: np.ndarray

    def last(self, num_samples):
        begin = len(self.labels) - num_samples
        return Planted(self.labels[begin:], self.chances[begin:])

    def best_auc(self):
        """The AUC on these samples of a model that knows the chance of each: no model has more.

        (By luck one may, on few samples: one that knew the clicks to come.)
        """
        auc = keras.metrics.AUC(num_thresholds=8000)
        auc.update_state(self.labels, self.chances)
        return float(auc.result())


class Clicks:
    """Draws samples. Those of two objects with the same seed are the same."""

    def __init__(self, seed):
        self._generator = np.random.default_rng((seed, 0))
        effects = np.random.default_rng((seed, 1))
        self._effects = {
            i: scale * effects.standard_normal(NUM_VALUES[i])
            for i, scale in CATEGORY_EFFECTS.items()
        }
        self._pair = [effects.standard_normal(NUM_VALUES[i]) for i in PAIR]
        self._texts = [_texts(feature, n) for feature, n in enumerate(NUM_VALUES)]

    def draw(self, num_samples):
        """Returns raw lines, a string, and the `Planted` of them."""
        logits = np.full(num_samples, BIAS)
        numbers = [self._draw_numbers(i, logits) for i in range(NUM_NUMERICAL)]
        values = [power_law(self._generator, n, num_samples) for n in NUM_VALUES]
        is_there = self._generator.random((NUM_CATEGORICAL, num_samples)) >= MISSING_CATEGORIES
        for i, effects in self._effects.items():
            logits += is_there[i] * effects[values[i]]
        first, second = (
            is_there[i] * each[values[i]] for i, each in zip(PAIR, self._pair, strict=True)
        )
        logits += PAIR_EFFECT * first * second
        chances = 1 / (1 + np.exp(-logits))
        labels = self._generator.random(num_samples) < chances
        categories = [
            np.where(is_there[i], self._texts[i][values[i]], "") for i in range(NUM_CATEGORICAL)
        ]
        columns = [labels.astype(int).astype(str), *numbers, *categories]
        lines = zip(*(column.tolist() for column in columns), strict=True)
        text = "".join("\t".join(fields) + "\n" for fields in lines)
        return text, Planted(labels, chances)

    def _draw_numbers(self, i, logits):
        """Returns the texts of a column of numbers, and adds the effect that they have."""
        normal = self._generator.standard_normal(len(logits))
        numbers = np.floor(np.exp(1 + 1.5 * normal)).astype(np.int64) - (i == 1)
        is_there = self._generator.random(len(logits)) >= MISSING_NUMBERS
        logits += is_there * NUMBER_EFFECTS.get(i, 0.0) * (np.log(numbers + 3.0) - 1.8)
        return np.where(is_there, numbers.astype(str), "")


def power_law(generator, num_values, num_samples):
    """Draws integers from 0 to `num_values - 1`, the first ones the most often."""
    end = (1 + num_values) ** (1 - POWER)
    drawn = (generator.random(num_samples) * (end - 1) + 1) ** (1 / (1 - POWER))
    return np.clip(drawn.astype(np.int64) - 1, 0, num_values - 1)


def _texts(feature, num_values):
    """Eight hexadecimal digits for each value of a category; all of them differ."""
    # An odd factor makes another order of the numbers of 32 bits.
    hashes = (np.arange(num_values, dtype=np.uint64) * 2654435761 + 97 * feature) % 2**32
    return np.array([f"{each:08x}" for each in hashes.tolist()])


def generate(folder, num_samples, days=None, seed=0):
    """Writes `train.txt`, or so many files `day_0`, `day_1` ..., and returns the `Planted`."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = ["train.txt"] if days is None else [f"day_{i}" for i in range(days)]
    clicks, planted = Clicks(seed), []
    for i, name in enumerate(names):
        end, begin = ((i + k) * num_samples // len(names) for k in (1, 0))
        with open(folder / name, "w", encoding="ascii") as file:
            for first in range(begin, end, CHUNK):
                text, drawn = clicks.draw(min(CHUNK, end - first))
                file.write(text)
                planted.append(drawn)
    return Planted(
        np.concatenate([each.labels for each in planted]),
        np.concatenate([each.chances for each in planted]),
    )


def add_options(parser):
    parser.description = __doc__
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--output", required=True, metavar="FOLDER", help="for the raw files")
    parser.add_argument("--samples", type=int, default=500_000, help="of all files (500000)")
    parser.add_argument("--days", type=int, help="day files; default: one train.txt, as Kaggle's")
    parser.add_argument("--seed", type=int, default=0)


def main(options):
    for name in ("samples", "days"):
        received = getattr(options, name)
        if received is not None and received < 1:
            raise ValueError(f"`--{name}` must be at least 1. Received: {received}")
    planted = generate(options.output, options.samples, options.days, options.seed)
    num_test = len(planted.labels) // 7
    if options.days:
        num_test = -(-len(planted.labels) // options.days)  # the last day has what is left over
    best = planted.last(num_test).best_auc()
    print(
        f"{options.samples:,} samples, {planted.labels.mean():.1%} clicks: {options.output}\n"
        f"No model can have an AUC above {best:.4f} on the last {num_test:,} samples (the test "
        "part), but by luck."
    )
    return best
