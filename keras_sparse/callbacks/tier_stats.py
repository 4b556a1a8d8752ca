import time

import keras
import tensorflow as tf

from keras_sparse.callbacks.check_built import check_built
from keras_sparse.callbacks.tensorboard_charts import all_counters
from keras_sparse.callbacks.tensorboard_charts import description_of
from keras_sparse.callbacks.tensorboard_charts import numbers_at_rest
from keras_sparse.callbacks.tensorboard_charts import share_of
from keras_sparse.callbacks.tensorboard_charts import tensorboard_charts
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import folder_of_rank
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks

_OF_ROWS = ("_rows", "_bytes", "_hit_rate")


class MonitoredTable:
    """Remembers the statistics of a table at the last look.

    Args:
        table: `LocalTable`.
        name: String: its name in TensorBoard.
        step: Integer. The optimizer's steps.
        is_built: Boolean. Whether the optimizer is. Lower tiers count anew when it is built.

    Attributes:
        table, name: As given.
        began: Statistics of the table when training began, of which what comes counts on.
    """

    def __init__(self, table, name, step, is_built):
        self.table = table
        self.name = name
        self._at_rest = numbers_at_rest(table.stats())
        # Charts that have something to show. Those of rows that come and go are there at once: they
        # go on where training goes on, when nothing new may come any more.
        self._shown: set[str] = set()
        if table.is_dynamic:
            self._shown = {name for name in self._at_rest if name.endswith(_OF_ROWS)}
        self.begin(step, is_built)

    def begin(self, step, is_built):
        """Counts from now on: training begins."""
        stats = self.table.stats()
        self.began = stats if is_built else _counting_anew(stats)
        self._before = step, time.monotonic(), self.began

    def look(self, step):
        """Returns the previous and current statistics, and the charts between the two."""
        before_step, seconds, before = self._before
        self._before = now_step, now_seconds, now = step, time.monotonic(), self.table.stats()
        charts = tensorboard_charts(before, now, now_step - before_step, now_seconds - seconds)
        return before, now, {name: each for name, each in charts.items() if self._shows(name, each)}

    def _shows(self, name, number):
        """Returns whether a chart has ever differed from that of a table at rest."""
        if number is not None and number != self._at_rest[name]:
            self._shown.add(name)
        return name in self._shown


def _counting_anew(stats):
    first, *lower = stats["tiers"]
    zeros = {tier: dict.fromkeys(stats["tiers"][tier], 0) for tier in lower}
    return {**stats, "tiers": {first: stats["tiers"][first], **zeros}}


class TierStats(keras.callbacks.Callback):
    """Writes the statistics of the tiers of each table to TensorBoard.

    Each table has a few charts, named `<variable path>/<chart>`. Charts that stay constant from the
    start of training are left out, except rows, bytes and hit rates of dynamic tables. Chart names
    begin with the tier (`DRAM`, `SSDHASH`, ...):

    - `DRAM_rows` and `DRAM_bytes`: rows in the tier, and bytes of everything in it;
    - `DRAM_hit_rate`: fraction of the requested rows that the tier had;
    - `DRAM_hits_per_step`: requested rows that the tier had, per step;
    - `SSDHASH_read_bytes_per_second` and `SSDHASH_write_bytes_per_second`: rows read from and
      written to a lower tier.

    `waited_seconds_per_step` is the time that a step waited for lower tiers. For lookups staged by
    `keras_sparse.data.prefetch_lookups` there are `prefetch_used_rate`,
    `prefetch_waited_seconds_per_step` and `prefetch_hidden_seconds_per_step`. Rates cover the time
    since the last write, including evaluation. The horizontal axis is the training step.

    Args:
        log_dir: Folder of the event files; created if missing. It may be the folder of
            `keras.callbacks.TensorBoard`. On several ranks, rank `r` of `n` writes the statistics
            of its part of each table to the folder `rank-r-of-n` inside it, which TensorBoard shows
            as a run of that name. `None` writes no files and needs `verbose=1`.
        update_freq: `"epoch"` or integer. Writes at the end of each epoch, or after at least this
            number of training steps. Reading the statistics waits for rows on their way to lower
            tiers. Defaults to `"epoch"`.
        verbose: 0 or 1. With 1, prints at the end of training one line for each table with lower
            tiers, with their rows and hit rates, and one line for each table with staged lookups.
            Defaults to 0.
        counters: Boolean. Whether to write all numbers of `EmbeddingVariable.stats` too, constant
            or not, as `<variable path>/<name>`, `<variable path>/<tier>/<name>` and
            `<variable path>/prefetch/<name>`. Defaults to `False`.

    Raises:
        ValueError: `log_dir` is `None` and `verbose` is 0. When training begins, if the model has
            no tables of keras_sparse.

    Example:
    >>> import tempfile
    >>> callback = keras_sparse.callbacks.TierStats(tempfile.mkdtemp())
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> ids = np.array([[1, 2], [2, 3]])
    >>> history = model.fit(ids, np.ones((2, 1)), verbose=0, callbacks=[callback])
    """

    def __init__(self, log_dir, update_freq="epoch", verbose=0, counters=False):
        super().__init__()
        self.verbose = checks.one_of(verbose, (0, 1), "verbose")
        if log_dir is None and not self.verbose:
            raise ValueError(
                "`log_dir` must be a folder, unless `verbose=1`. Received: log_dir=None, verbose=0"
            )
        self.log_dir = None if log_dir is None else checks.folder(log_dir, "log_dir")
        self.update_freq = checks.epoch_or_steps(update_freq, "update_freq")
        self._writer = tf.summary.create_noop_writer()
        self.counters = checks.boolean(counters, "counters")
        self._written = None  # the step of the last writing
        self._watched: dict[int, MonitoredTable] = {}  # by the id of the table

    def on_train_begin(self, logs=None):
        if not self._tables():
            check_built(self.model, "TierStats", "its tables are known")
            raise ValueError(
                "TierStats must be given to a model with tables of keras_sparse. Received: "
                f"model '{self.model.name}' without tables"
            )
        step = self._step()
        if self._written is None or self._written > step:  # of another optimizer
            self._written = step
        for watched in self._watched.values():
            watched.begin(step, self.model.optimizer.built)
        self._watch()
        if self.log_dir is not None:
            folder = folder_of_rank(self.log_dir)
            self._writer = tf.summary.create_file_writer(folder, filename_suffix=".tiers")

    def on_train_batch_end(self, batch, logs=None):
        if self.update_freq != "epoch" and self._step() - self._written >= self.update_freq:
            self._write()

    def on_epoch_end(self, epoch, logs=None):
        if self.update_freq == "epoch":
            self._write()

    def on_train_end(self, logs=None):
        self._writer.close()
        if self.verbose:
            for watched in self._watch():
                before, after = watched.began, watched.table.stats()
                _print_tiers(watched.name, before["tiers"], after["tiers"])
                _print_prefetched(watched.name, before["prefetch"], after["prefetch"])

    def _tables(self):
        return tables_of(self.model)

    def _watch(self):
        """Returns the `MonitoredTable` of each table: a new one once a layer has been built."""
        for table in self._tables():
            if id(table) not in self._watched:
                names = {each.name for each in self._watched.values()}
                name = _unlike(table.path, names)
                built = self.model.optimizer.built
                self._watched[id(table)] = MonitoredTable(table, name, self._step(), built)
        return [self._watched[id(table)] for table in self._tables()]

    def _step(self):
        return int(self.model.optimizer.iterations)

    def _write(self):
        self._written = self._step()
        if self.log_dir is None:
            return
        with self._writer.as_default(step=self._written):
            for watched in self._watch():
                self._write_table(watched)
        self._writer.flush()

    def _write_table(self, watched):
        before, now, charts = watched.look(self._written)
        for name, number in charts.items():
            _write_scalar(f"{watched.name}/{name}", number, description_of(name))
        if self.counters:
            for name, number in all_counters(before, now).items():
                _write_scalar(f"{watched.name}/{name}", number)


def _unlike(path, names):
    """Returns the path, numbered if another table already has it."""
    number, name = 0, path
    while name in names:
        number += 1
        name = f"{path}_{number}"
    return name


def _print_tiers(name, before, after):
    if len(after) == 1:
        return
    tiers = []
    for tier, counts in after.items():
        rate = share_of(before[tier], counts, "hits", "misses")
        hits = "" if rate is None else f", {100 * rate:.2f}% hits"
        tiers.append(f"{tier} {counts['rows']:,} rows{hits}")
    print(f"{error_prefix()}tiers, {name}: {'; '.join(tiers)}")


def _print_prefetched(name, before, after):
    both = ((1, after), (-1, before))
    numbers = {each: after[each] - before[each] for each in after}
    lookups = numbers["used"] + numbers["missed"]
    if numbers["staged"] == 0:
        return
    missed = sum(sign * each["staleness_mean"] * each["used"] for sign, each in both)
    print(
        f"{error_prefix()}prefetch_lookups, {name}: {numbers['used']:,} of {lookups:,} "
        f"lookups were ready; steps waited {numbers['waited_seconds']:.2f} s for them, "
        f"{numbers['hidden_seconds']:.2f} s were hidden; {numbers['dropped']:,} were dropped; "
        f"rows missed {missed / max(1, numbers['used']):.2f} updates on average, "
        f"{after['staleness_max']} at most so far"
    )


def _write_scalar(tag, number, description=""):
    """Writes a number as `tf.summary.scalar`, which needs TensorBoard installed."""
    if number is None:
        return
    metadata = tf.compat.v1.SummaryMetadata(summary_description=description)
    metadata.plugin_data.plugin_name = "scalars"
    tf.summary.write(tag, tf.constant(number, tf.float32), metadata=metadata)
