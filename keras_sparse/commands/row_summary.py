import math

import numpy as np

_MOST_SHOWN = 15  # keys of a ranking


class RowSummary:
    """Counts the rows of a saved table, by norm, age and frequency, a piece at a time.

    Args:
        width: Integer. The number of columns of a row; a record goes on with its slots.

    Attributes:
        num_rows: Integer.
        bins: Dict of measures ("norm", "age", "frequency") that the rows have: each a dict of
            exponents and numbers of rows. Exponent `e` counts values from `2**e` to below
            `2**(e + 1)`, `None` counts zeros, and `math.inf` values that are not finite.
        most: Dict of measures, without "age": each a list of `(key, value)` of finite values, the
            largest first.
    """

    def __init__(self, width):
        self._width = width
        self.num_rows = 0
        self.bins = {}
        self.most = {}

    def add(self, piece):
        """Counts the rows of a `RowPiece`."""
        if len(piece.keys) == 0:
            return
        self.num_rows += len(piece.keys)
        rows = piece.records[:, : self._width].astype(np.float64)
        values = {"norm": np.sqrt(np.einsum("ij,ij->i", rows, rows))}
        values |= {"age": piece.ages, "frequency": piece.frequencies}
        for measure, each in values.items():
            if each is not None:
                self._count(measure, np.asarray(each, np.float64))
                if measure != "age":  # many rows are equally old
                    self._rank(measure, piece.keys, each)

    def _count(self, measure, values):
        bins = self.bins.setdefault(measure, {})
        is_finite = np.isfinite(values)
        exponents = np.frexp(values[is_finite & (values > 0)])[1] - 1
        found, numbers = np.unique(exponents, return_counts=True)
        for exponent, number in zip(found.tolist(), numbers.tolist(), strict=True):
            bins[exponent] = bins.get(exponent, 0) + number
        for name, is_it in ((None, values == 0), (math.inf, ~is_finite)):
            if number := int(np.count_nonzero(is_it)):
                bins[name] = bins.get(name, 0) + number

    def _rank(self, measure, keys, values):
        is_finite = np.isfinite(values)
        keys, values = keys[is_finite], values[is_finite]
        best = np.lexsort((keys, -values.astype(np.float64)))[:_MOST_SHOWN]
        ranked = [(int(keys[i]), values[i].item()) for i in best]
        merged = sorted(self.most.get(measure, []) + ranked, key=lambda each: (-each[1], each[0]))
        self.most[measure] = merged[:_MOST_SHOWN]
