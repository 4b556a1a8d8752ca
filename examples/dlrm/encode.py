"""Makes features of what Criteo's lines say. Work of one chunk, for any number of processes."""

import numpy as np

from examples.dlrm import raw_lines
from examples.dlrm import split_binary
from examples.dlrm.raw_lines import MISSING_CATEGORY
from examples.dlrm.raw_lines import MISSING_NUMBER
from examples.dlrm.raw_lines import NUM_CATEGORICAL


class Hashing:
    """Every category has the same number of ids; id 0 is that of what is missing.

    The categories are hashes already, so their remainder is one too.
    """

    def __init__(self, num_buckets):
        self.num_ids = [num_buckets] * NUM_CATEGORICAL

    def ids(self, feature, categories):
        ids = 1 + categories % (self.num_ids[feature] - 1)
        return np.where(categories == MISSING_CATEGORY, 0, ids)


class Vocabulary:
    """The categories that were seen often enough have an id each, the most frequent ones first.

    Id 0 is that of all others, and of what is missing.

    Args:
        counts: List, for each feature, of its categories in order, and how often each was seen.
        threshold: Integer: how often a category must have been seen.
    """

    def __init__(self, counts, threshold):
        self._categories, self._ids = [], []
        for categories, numbers in counts:
            is_kept = (numbers >= threshold) & (categories != MISSING_CATEGORY)
            categories, numbers = categories[is_kept], numbers[is_kept]
            ids = np.empty(len(categories), np.int32)
            ids[np.argsort(-numbers, kind="stable")] = np.arange(1, len(categories) + 1)
            self._categories.append(categories)
            self._ids.append(ids)
        self.num_ids = [1 + len(each) for each in self._ids]

    def ids(self, feature, categories):
        known, ids = self._categories[feature], self._ids[feature]
        if not len(known):
            return np.zeros(len(categories), np.int32)
        places = np.minimum(np.searchsorted(known, categories), len(known) - 1)
        return np.where(known[places] == categories, ids[places], 0)


def encode(chunk, encoder, numerical_dtype):
    """Returns the columns of a chunk as `split_binary.Writer` takes them."""
    samples = raw_lines.parse(chunk)
    columns = [samples.labels, numerical_features(samples.numbers).astype(numerical_dtype)]
    for feature, num_ids in enumerate(encoder.num_ids):
        ids = encoder.ids(feature, samples.categories[:, feature])
        columns.append(ids.astype(split_binary.id_dtype(num_ids)))
    return columns


def numerical_features(numbers):
    """`log(x + 3)`, as the original has it, and 0 for what is missing.

    A few numbers are -3 and less: they count as -2, whose logarithm is 0.
    """
    logarithms = np.log(np.maximum(numbers, -2).astype(np.float32) + 3)
    return np.where(numbers == MISSING_NUMBER, np.float32(0), logarithms)


def count(chunk):
    """Returns, for each feature, its categories in a chunk in order, and the number of each."""
    categories = raw_lines.parse(chunk).categories
    return [
        np.unique(categories[:, feature], return_counts=True) for feature in range(NUM_CATEGORICAL)
    ]


class Counts:
    """Adds up what `count` gives; it keeps 16 bytes for each distinct category, or twice that."""

    def __init__(self):
        self._waiting = [[] for _ in range(NUM_CATEGORICAL)]
        self._num_waiting = [0] * NUM_CATEGORICAL
        self._merged = [_merge([])] * NUM_CATEGORICAL

    def add(self, counts):
        for feature, some in enumerate(counts):
            self._waiting[feature].append(some)
            self._num_waiting[feature] += len(some[0])
            # Merged when that is as many again: the work stays in proportion to what comes.
            if self._num_waiting[feature] > max(1 << 16, len(self._merged[feature][0])):
                self._merge(feature)

    def all(self):
        for feature in range(NUM_CATEGORICAL):
            self._merge(feature)
        return self._merged

    def _merge(self, feature):
        self._merged[feature] = _merge([self._merged[feature], *self._waiting[feature]])
        self._waiting[feature], self._num_waiting[feature] = [], 0


def _merge(parts):
    categories = np.concatenate([np.zeros(0, np.int64), *(each for each, _ in parts)])
    numbers = np.concatenate([np.zeros(0, np.int64), *(each for _, each in parts)])
    categories, places = np.unique(categories, return_inverse=True)
    return categories, np.bincount(places, numbers, len(categories)).astype(np.int64)
