import numpy as np

from keras_sparse.storage.access_trace import access_trace
from keras_sparse.storage.reuse_distances import reuse_distances
from keras_sparse.utils import checks
from keras_sparse.utils.plotting import axes_or_new
from keras_sparse.utils.plotting import import_pyplot

# Of a row in the first tier, beside row and slots: bytes of its key, index and place in the order.
_INDEX_BYTES = 20
# What the tier gives away at once when it is full, and what it has then.
_KEPT_AT_LEAST = 15 / 16
# Of the rows of a stream, in the printed table.
_PRINTED_SHARES = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1)
# Of the capacity of the least tier that is printed, in followed rows: below it a sample is luck.
_LEAST_FOLLOWED = 10
_PLOTTED_POINTS = 500


def miss_curve(ids, batch_size=None, sample_rate=1.0, ignore=None, verbose=True, plot=False):
    """Says from your own ids how often a first tier of any size finds the row it needs.

    From it choose `storage_size[0]` of a `StorageOption`. A step touches each of its distinct ids
    once. A touch is a hit if the row is in the first tier when the step begins; otherwise the step
    reads the row from the lower tier, once. The first touch of a row reads nothing, as there is no
    row yet: it is no hit and no miss, and is counted apart.

    The tier is one that keeps exactly the rows touched last (`cache_strategy="LRU"`), for all sizes
    at once: see `MissCurve`.

    Args:
        ids: The ids of training, in the order of training. Either one array, tensor or RaggedTensor
            of shape `(num_samples, ...)`, or an iterable of training steps, such as a generator or
            a `tf.data.Dataset`: each an array, tensor, RaggedTensor, SparseTensor or list of all
            ids that one step looks up in the table, of any shape. Any integer type. The ids of one
            epoch show what the first epoch reads; those of two, one after the other, what both do.
        batch_size: Integer. Samples in a training step, which decides what touches of one array
            fall together; not for an iterable. Defaults to `None`, 32 for an array, as in `fit`.
        sample_rate: Float above 0, at most 1. Part of the ids that are followed, chosen by a hash
            of the id; all numbers are scaled to the whole (SHARDS: Waldspurger, Park, Garthwaite
            and Ahmad, "Efficient MRC construction with SHARDS", FAST 2015, with their correction
            for the number of touches). Memory and time shrink with it. On Zipf streams of which
            30,000 rows are followed, the hit rates of tiers for a hundredth of the rows or more
            were 0.01 off on average, 0.04 at most. Defaults to 1, exact.
        ignore: Integer. An id that is left out, such as padding. Defaults to `None`.
        verbose: Boolean. Whether to print the table. Defaults to `True`.
        plot: Boolean. Whether to draw the curve, into a new figure of matplotlib. A script shows it
            with `matplotlib.pyplot.show()`. Defaults to `False`.

    Returns:
        `MissCurve`.

    Raises:
        TypeError: Ids that are not integers, or an argument of a wrong type.
        ValueError: No row is touched in two steps, or an argument out of its range.
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
        import_pyplot()  # what is missing is said before the work, not after it
    touches, sampled = 0, []
    for keys in access_trace(ids, batch_size, ignore):
        touches += len(keys)
        sampled.append(keys if sample_rate == 1 else keys[_is_sampled(keys, sample_rate)])
    if touches == 0:
        raise ValueError(f"`ids` must have ids. Received: none in {len(sampled)} steps")
    followed = np.concatenate(sampled)
    distances = reuse_distances(followed, np.array([len(keys) for keys in sampled]))
    if len(distances) == 0:
        raise ValueError(
            "`ids` must touch a row in two steps, or there is no hit to count; give more steps or "
            f"a higher `sample_rate`. Received: {touches} touches in {len(sampled)} steps, of them "
            f"{len(followed)} followed with sample_rate={sample_rate}"
        )
    curve = MissCurve(distances, len(followed), len(sampled), touches, sample_rate)
    if verbose:
        curve.print()
    if plot:
        curve.plot()
    return curve


class MissCurve:
    """Hit rate of a first tier against its capacity. `miss_curve` makes it.

    Attributes:
        capacity_rows: int64 array of shape `(n,)`, ascending from 0: the capacities, in rows, at
            which the hit rate rises.
        hit_rate: float64 array of shape `(n,)`, from 0 to 1: the part of the repeated touches whose
            row is in a first tier of that number of rows.
        steps: Integer. Training steps.
        touches: Integer. Distinct ids of each step, summed over the steps.
        distinct: Integer. Rows, and so first touches; estimated if sampled.
        sample_rate: Float. Part of the ids that were followed.

    Args:
        distances: int64 array of shape `(num_repeated,)`: the stack distance of each repeated touch
            that was followed.
        followed: Integer. Touches that were followed.
        steps, touches, sample_rate: As the attributes.
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
        """Integer. Touches that are not the first of their row."""
        return self.touches - self.distinct

    def hit_rate_at(self, rows):
        """Returns the hit rate, a float from 0 to 1, of a first tier of `rows` rows."""
        return float(self._hit_rates(checks.not_negative(rows, "rows")))

    def misses_per_step(self, rows):
        """Returns the mean number of rows, a float, that a step reads from the lower tier if the
        first one holds `rows` rows.
        """
        return (1 - self.hit_rate_at(rows)) * self.repeated / self.steps

    def rows_for(self, hit_rate):
        """Returns the least capacity, in rows, whose hit rate is at least `hit_rate`.

        Args:
            hit_rate: Float above 0, at most 1.
        """
        hit_rate = checks.fraction(hit_rate, "hit_rate")
        return int(self.capacity_rows[np.searchsorted(self.hit_rate, hit_rate)])

    def bytes_for(self, hit_rate, output_dim, num_slots):
        """Returns the `storage_size[0]`, in bytes, of a tier with about this hit rate.

        A row takes its floats, those of its slots and some 20 bytes of index. A full tier gives
        away up to a sixteenth of its rows at once, and keeps room for as many as a step brings in,
        new ones with them, up to half of it: so it is larger than the rows it must hold.

        Args:
            hit_rate: Float above 0, at most 1.
            output_dim: Integer. Width of a row.
            num_slots: Integer. Slots of the optimizer that are as wide as a row: 0 for `SGD`, 1 for
                `Adagrad`, 2 for `Adam` and `LazyAdam`.
        """
        rows = self.rows_for(hit_rate)
        num_slots = checks.not_negative(num_slots, "num_slots")
        floats = checks.positive(output_dim, "output_dim") * (1 + num_slots)
        brought_in = self.misses_per_step(rows) + self.distinct / self.steps
        held = (rows + min(brought_in, rows)) / _KEPT_AT_LEAST
        return int(np.ceil(held * (4 * floats + _INDEX_BYTES)))

    def print(self):
        """Prints the table."""
        print(self)

    def plot(self, ax=None):
        """Draws hit rate against capacity.

        Args:
            ax: Axes of matplotlib. Defaults to `None`: those of a new figure.

        Returns:
            The axes.

        Raises:
            ImportError: matplotlib is not installed.
            TypeError: `ax` is something else.
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
