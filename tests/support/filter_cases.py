"""One case for each class of admission filter, and tables and models that use them."""

import collections
import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import pytest
import tensorflow as tf

import eviction_cases
from eviction_cases import IDS as IDS
from eviction_cases import table_of as table_of
from eviction_cases import TARGETS as TARGETS
from eviction_cases import train as train
from keras_sparse import CBFFilter
from keras_sparse import CounterFilter
from keras_sparse import native
from keras_sparse import ProbabilityFilter
from keras_sparse.ops import lookup


@dataclasses.dataclass
class FilterCase:
    """A filter that is in the middle of its work after some batches of `IDS`."""

    make: Callable

    def __str__(self):
        return type(self.make()).__name__


CASES = [
    FilterCase(lambda: CounterFilter(3)),
    FilterCase(lambda: ProbabilityFilter(0.3)),
    FilterCase(lambda: CBFFilter(3, 300, 0.1, "uint8")),
]
each_filter = pytest.mark.parametrize("case", CASES, ids=str)
step = functools.partial(eviction_cases.step, gradient=0.25)


def make_model(admission, *args, **options):
    """A model of one filtered table. Models of the same arguments start the same."""
    return eviction_cases.make_model(None, *args, admission=admission, **options)


def remembered(variable):
    """Everything that a table's filter remembers, by key."""
    entries, cursors = {}, np.zeros(1, np.int64)
    while cursors[0] >= 0:
        keys, counts, cursors = native.export_filter([variable], cursors, 100)
        entries |= dict(zip(keys[0].numpy().tolist(), counts[0].numpy().tolist(), strict=True))
    return entries


def counted(ids, filter_freq):
    """What a filter of occurrences remembers of some ids, by key, and the keys that have rows."""
    counts = collections.Counter(np.ravel(ids).tolist())
    waiting = {key: count for key, count in counts.items() if count < filter_freq}
    return waiting, set(counts) - set(waiting)


def filtered(admission, **kwargs):
    """A table with rows of ones, and the optimizer that takes gradients from them as they are."""
    return eviction_cases.make_table(None, "ones", admission=admission, **kwargs)


def read(variable, ids):
    return lookup([variable], [tf.constant(ids, tf.int64)])[0].numpy()[:, 0].tolist()
