import time

from keras_sparse.callbacks.tensorboard_charts import numbers_at_rest
from keras_sparse.callbacks.tensorboard_charts import tensorboard_charts

_OF_ROWS = ("_rows", "_bytes", "_hit_rate")


class MonitoredTable:
    """A table, and what it was when it was last looked at.

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
        """Returns statistics of the last look and of now, and the charts of what was in between."""
        before_step, seconds, before = self._before
        self._before = now_step, now_seconds, now = step, time.monotonic(), self.table.stats()
        charts = tensorboard_charts(before, now, now_step - before_step, now_seconds - seconds)
        return before, now, {name: each for name, each in charts.items() if self._shows(name, each)}

    def _shows(self, name, number):
        """Whether a chart has been, or is now, another than that of a table at rest."""
        if number is not None and number != self._at_rest[name]:
            self._shown.add(name)
        return name in self._shown


def _counting_anew(stats):
    first, *lower = stats["tiers"]
    zeros = {tier: dict.fromkeys(stats["tiers"][tier], 0) for tier in lower}
    return {**stats, "tiers": {first: stats["tiers"][first], **zeros}}
