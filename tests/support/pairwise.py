"""Cases of a test of many arguments whose product would be too many."""

import itertools

import pytest


def pairwise(**values):
    """Few tuples of values, one an argument, in which any two values of two arguments meet.

    The order of the values decides which: the first tuple has each argument's first one.
    """
    product = list(itertools.product(*(range(len(each)) for each in values.values())))
    missing = {pair for indices in product for pair in _pairs(indices)}
    chosen = []
    while missing:
        chosen.append(max(product, key=lambda indices: len(missing & _pairs(indices))))
        missing -= _pairs(chosen[-1])
    lists = [list(each) for each in values.values()]
    return [tuple(map(list.__getitem__, lists, indices)) for indices in chosen]


def each_pair(**values):
    """Parametrizes a test by `pairwise`."""
    return pytest.mark.parametrize(tuple(values), pairwise(**values))


def _pairs(indices):
    return set(itertools.combinations(enumerate(indices), 2))
