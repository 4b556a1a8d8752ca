import numpy as np

from keras_sparse.storage.access_trace import access_trace
from keras_sparse.storage.reuse_distances import reuse_distances
from keras_sparse.utils import checks
from keras_sparse.utils.plotting import axes_or_new
from keras_sparse.utils.plotting import import_pyplot
from keras_sparse.utils.row_dtypes import RowDtypes

# Of a row in the first tier, beside row and slots: bytes of its key, index and place in the order.
_INDEX_BYTES = 20
# Fraction of a full tier that stays when it demotes rows.
_KEPT_AT_LEAST = 15 / 16
# Of the rows of a stream, in the printed table.
_PRINTED_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
# Of the capacity of the least tier that is printed, in followed rows: below it a sample is luck.
_LEAST_FOLLOWED = 10
_PLOTTED_POINTS = 500


def miss_curve(ids, batch_size=None, sample_rate=1.0, ignore=None, verbose=True, plot=False):
    """Computes from your ids the hit rate of a first tier of any size.

    Use it to choose `storage_size[0]` of a `StorageOption`. A step touches each of its distinct ids
    once. A touch is a hit if the row is in the first tier when the step begins; otherwise it is a
    miss, and the step reads the row from the lower tier once. The first touch of a row reads
    nothing, because no row exists yet. It is neither hit nor miss and is counted separately.

    The computed tier keeps exactly the rows that were touched last (`cache_strategy="LRU"`). The
    result covers all sizes at once: see `MissCurve`.

    Args:
        ids: Integer ids in the order of training. Either one array, tensor or RaggedTensor of shape
            `(num_samples, ...)`; or an iterable of training steps, such as a generator or a
            `tf.data.Dataset`. Each step is an array, tensor, RaggedTensor, SparseTensor or list, of
            any shape, with all ids that the step looks up in the table. The ids of one epoch show
            the reads of the first epoch; the ids of two epochs, one after the other, those of both.
        batch_size: Integer. Number of samples in a training step, for one array of ids. Invalid for
            an iterable. Defaults to `None`: 32 for an array, as in `fit`.
        sample_rate: Float above 0, at most 1. Fraction of the ids to follow, chosen by a hash of
            the id; all numbers are scaled to the whole. Memory and time shrink with it. The method
            is SHARDS (Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC construction with
            SHARDS", FAST 2015), with its correction for the number of touches. On Zipf streams with
            30,000 followed rows, the hit rates of tiers for a hundredth of the rows or more were
            off by 0.01 on average and 0.04 at most. Defaults to 1: exact.
        ignore: Integer. An id to leave out, such as padding. Defaults to `None`.
        verbose: Boolean. Whether to print the table. Defaults to `True`.
        plot: Boolean. Whether to draw the curve in a new figure of matplotlib. Call
            `matplotlib.pyplot.show()` to show it in a script. Defaults to `False`.

    Returns:
        `MissCurve`.

    Raises:
        TypeError: Ids are not integers, or an argument has a wrong type.
        ValueError: No row is touched in two steps, or an argument is out of its range.
        ImportError: `plot=True` without matplotlib.

    Example:
    >>> ids = np.array([1, 2, 1, 3, 2, 1, 4, 1])
    >>> curve = keras_sparse.storage.miss_curve(ids, batch_size=1, verbose=False)
    >>> curve.rows_for(1.0), curve.hit_rate_at(2), curve.misses_per_step(2)
    (3, 0.5, 0.25)
    """
    sample_rate = checks.fraction(sample_rate, "sample_rate")
    checks.boolean(verbose, "verbose")
    if checks.boolean(plot, "plot"):
        import_pyplot()  # raises for a missing package before the work
    touches, sampled = 0, []
    for keys in access_trace(ids, batch_size, ignore):
        touches += len(keys)
        sampled.append(keys if sample_rate == 1 else keys[_is_sampled(keys, sample_rate)])
    if touches == 0:
        raise ValueError(f"`ids` must hold at least one id. Received: none in {len(sampled)} steps")
    followed = np.concatenate(sampled)
    distances = reuse_distances(followed, np.array([len(keys) for keys in sampled]))
    if len(distances) == 0:
        raise ValueError(
            "`ids` must touch a row in two steps, or there is no hit to count. Pass more steps "
            f"or a higher `sample_rate`. Received: {touches} touches in {len(sampled)} steps, "
            f"{len(followed)} of them followed with sample_rate={sample_rate}"
        )
    curve = MissCurve(distances, len(followed), len(sampled), touches, sample_rate)
    if verbose:
        curve.print()
    if plot:
        curve.plot()
    return curve


class MissCurve:
    """Holds the hit rate of a first tier for each capacity. `miss_curve` creates it.

    Attributes:
        capacity_rows: int64 array of shape `(n,)`, ascending from 0. Capacities, in rows, at which
            the hit rate rises.
        hit_rate: float64 array of shape `(n,)`, from 0 to 1. Fraction of the repeated touches whose
            row is in a first tier of that capacity.
        steps: Integer. Number of training steps.
        touches: Integer. Number of distinct ids of each step, summed over steps.
        distinct: Integer. Number of rows, and so of first touches; estimated if sampled.
        sample_rate: Float. Fraction of the ids that were followed.

    Args:
        distances: int64 array of shape `(num_repeated,)`. Stack distance of each repeated touch
            that was followed.
        followed: Integer. Number of followed touches.
        steps: Integer. Number of training steps.
        touches: Integer. Number of distinct ids of each step, summed over steps.
        sample_rate: Float. Fraction of the ids that were followed.
    """

    def __init__(self, distances, followed, steps, touches, sample_rate):
        self.steps, self.touches, self.sample_rate = steps, touches, sample_rate
        # First touches and misses are scaled up; hits are the touches that are left, which are
        # known exactly. So the luck of a very frequent id in the draw does not move the curve.
        first_touches = round((followed - len(distances)) / sample_rate)
        self.distinct = min(first_touches, touches - len(distances))
        needed = np.rint(distances / sample_rate).astype(np.int64) + 1
        needed, counts = np.unique(np.minimum(needed, self.distinct), return_counts=True)
        misses = (len(distances) - np.cumsum(counts)) / sample_rate
        self.capacity_rows = np.concatenate(([0], needed))
        self.hit_rate = np.concatenate(([0], np.clip(1 - misses / self.repeated, 0, 1)))

    @property
    def repeated(self):
        """Integer. Number of touches that are not the first of their row."""
        return self.touches - self.distinct

    def hit_rate_at(self, rows):
        """Returns the hit rate of a first tier.

        Args:
            rows: Integer. Capacity of the tier, in rows.

        Returns:
            Float from 0 to 1.
        """
        return float(self._hit_rates(checks.not_negative(rows, "rows")))

    def misses_per_step(self, rows):
        """Returns the mean number of rows that a step reads from the lower tier.

        Args:
            rows: Integer. Capacity of the first tier, in rows.

        Returns:
            Float.
        """
        return (1 - self.hit_rate_at(rows)) * self.repeated / self.steps

    def rows_for(self, hit_rate):
        """Returns the smallest capacity, in rows, with at least a hit rate.

        Args:
            hit_rate: Float above 0, at most 1.

        Returns:
            Integer.
        """
        hit_rate = checks.fraction(hit_rate, "hit_rate")
        return int(self.capacity_rows[np.searchsorted(self.hit_rate, hit_rate)])

    def bytes_for(self, hit_rate, output_dim, num_slots, row_dtype="float32", slot_dtype="float32"):
        """Returns the `storage_size[0]`, in bytes, of a tier with about a hit rate.

        A row takes its own elements, those of its slots, and about 20 bytes of index. A full tier
        demotes up to a sixteenth of its rows at once. It also keeps room for as many rows as a step
        brings in, new ones included, up to half of the tier. So the result exceeds the size of the
        rows that the tier must hold.

        Args:
            hit_rate: Float above 0, at most 1.
            output_dim: Integer. Width of a row.
            num_slots: Integer. Number of optimizer slots that are as wide as a row: 0 for `SGD`, 1
                for `Adagrad`, 2 for `Adam` and `LazyAdam`.
            row_dtype, slot_dtype: Strings, those of the table. Default to `"float32"`.

        Returns:
            Integer.
        """
        dtypes = RowDtypes(row_dtype, slot_dtype)
        rows = self.rows_for(hit_rate)
        num_slots = checks.not_negative(num_slots, "num_slots")
        record = dtypes.record_bytes(checks.positive(output_dim, "output_dim"), num_slots)
        brought_in = self.misses_per_step(rows) + self.distinct / self.steps
        held = (rows + min(brought_in, rows)) / _KEPT_AT_LEAST
        return int(np.ceil(held * (record + _INDEX_BYTES)))

    def print(self):
        """Prints the curve as a table."""
        print(self)

    def plot(self, ax=None):
        """Draws the hit rate against the capacity.

        Args:
            ax: Axes of matplotlib. Defaults to `None`: the axes of a new figure.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: `ax` is not an axes object.
        """
        ax = axes_or_new(ax)
        rows = np.unique(np.geomspace(1, self.capacity_rows[-1], _PLOTTED_POINTS).astype(np.int64))
        ax.plot(rows, self._hit_rates(rows), drawstyle="steps-post")
        ax.set(xscale="log", ylim=(0, 1.02), xlabel="rows in the first tier", ylabel="hit rate")
        ax.grid(alpha=0.25)
        return ax

    def _hit_rates(self, rows):
        return self.hit_rate[np.searchsorted(self.capacity_rows, rows, side="right") - 1]

    def __str__(self):
        part = "" if self.sample_rate == 1 else f", estimated from {self.sample_rate:.3g} of them"
        lines = [
            f"{self.steps:,} steps, {self.touches:,} touches of {self.distinct:,} rows{part}.",
            f"{self.repeated:,} touches are of a row that is there; a miss of one is a read.",
            f"{'rows in first tier':>18}{'of all rows':>14}{'hit rate':>12}{'misses a step':>16}",
        ]
        least = 1 if self.sample_rate == 1 else _LEAST_FOLLOWED / self.sample_rate
        shown = {round(share * self.distinct) for share in _PRINTED_SHARES}
        for rows in sorted(rows for rows in shown if rows >= least or rows == self.distinct):
            share, hits = rows / self.distinct, self.hit_rate_at(rows)
            misses = self.misses_per_step(rows)
            lines.append(f"{rows:>18,}{share:>14.1%}{hits:>12.2%}{misses:>16,.2f}")
            if hits == 1:
                break
        return "\n".join(lines)


def _is_sampled(keys, sample_rate):
    """Returns whether each int64 key is followed: a boolean array of shape `(n,)`."""
    hashes = keys.view(np.uint64)
    # The finalizer of MurmurHash3, as in the engine's index.
    for multiplier in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
        hashes = (hashes ^ (hashes >> np.uint64(33))) * np.uint64(multiplier)
    hashes ^= hashes >> np.uint64(33)
    return (hashes >> np.uint64(11)) < sample_rate * 2**53  # 53 bits: a float has them all
