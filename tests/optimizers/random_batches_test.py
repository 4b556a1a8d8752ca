"""Whatever rows the batches have, and whenever they are read: the rule in float64."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_sparse.optimizers import RowWiseAdagrad
from optimizer_cases import each_optimizer
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import NumpyModel
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices

ROWS = 6
# Less than a processor's vector, and one with something left over.
WIDTHS = (1, 3, 9)


class Trained:
    """Tables of all widths and both kinds and their optimizer, compiled once for all examples."""

    def __init__(self, case):
        self.keys = [keys for keys in (np.arange(ROWS), KEYS[:ROWS]) for _ in WIDTHS]
        self.start = [random_rows(ROWS, width) for width in WIDTHS] * 2
        pairs = zip(self.keys, self.start, strict=True)
        self.tables = [make_table(keys, rows) for keys, rows in pairs]
        self.optimizer = case.make()
        self.optimizer.build(self.tables)
        self.initial = [variable.numpy() for variable in self.optimizer.variables]
        signature = (
            tf.TensorSpec([None], tf.int64),
            tf.TensorSpec([None]),
            tf.TensorSpec([], "int32"),
        )
        self._compiled = tf.function(self._steps, input_signature=signature)

    def restart(self):
        for table, keys, rows in zip(self.tables, self.keys, self.start, strict=True):
            table.clear()
            table.import_(keys, rows)
        for variable, value in zip(self.optimizer.variables, self.initial, strict=True):
            variable.assign(value)

    def _steps(self, ids, gradients, steps):
        values = [gradients[:, tf.newaxis] * columns(width) for width in WIDTHS] * 2
        keys = [tf.gather(tf.constant(each), ids) for each in self.keys]
        for _ in tf.range(steps):
            self.optimizer.apply([slices(k, v) for k, v in zip(keys, values, strict=True)])

    def apply(self, ids, gradients):
        self._compiled(ids, gradients, 1)

    def idle(self, steps):
        self._compiled(np.zeros(0, np.int64), np.zeros(0, np.float32), steps)

    def rows(self):
        """The rows of all widths, side by side: those of static tables, and of dynamic ones."""
        rows = [read(table, keys) for table, keys in zip(self.tables, self.keys, strict=True)]
        num_widths = len(WIDTHS)
        return [np.hstack(kind) for kind in (rows[:num_widths], rows[num_widths:])]


class Models:
    """The rule in float64 of tables of all widths."""

    def __init__(self, case):
        # In one table, where each element goes its own way.
        widths = [WIDTHS] if case.ours is not RowWiseAdagrad else [(width,) for width in WIDTHS]
        self.columns = [np.concatenate([columns(w) for w in each]) for each in widths]
        rows = [np.hstack([random_rows(ROWS, w) for w in each]) for each in widths]
        self.models = [NumpyModel(case, each) for each in rows]

    def apply(self, ids, gradients, rate):
        for model, factors in zip(self.models, self.columns, strict=True):
            model.rate = rate
            model.apply(ids, gradients[:, np.newaxis] * factors)

    def rows(self):
        return np.hstack([model.rows for model in self.models])


def columns(width):
    """What an id's gradient is multiplied by in each column: exact in float32."""
    return np.float32([1, 2, 0.5, -1, 1.5, -0.25, 1, -2, 0.75])[:width]


def events(case):
    """Lists of: steps without ids, the ids and gradients of a step, its rate, whether to read."""
    size = st.sampled_from([size for size in case.sizes if size])
    gradient = st.builds(lambda quarters, size: quarters / 4 * size, st.integers(-8, 8), size)
    touches = st.lists(st.tuples(st.integers(0, ROWS - 1), gradient), max_size=6)
    gap = st.sampled_from([0, 0, 1, 7, 60, 120])
    factor = st.sampled_from([1.0, 1.0, 0.5, 0.125])
    return st.lists(st.tuples(gap, touches, factor, st.booleans()), min_size=1, max_size=8)


@each_optimizer
def test_follows_its_rule_in_float64_whatever_the_batches(case):
    trained = Trained(case)

    @settings(max_examples=8, deadline=None, derandomize=True, database=None)
    @given(events=events(case))
    def follows(events):
        trained.restart()
        models = Models(case)
        rate = case.arguments["learning_rate"]
        for gap, touches, factor, reads in [*events, (9, [], 1.0, True)]:
            if gap:
                trained.idle(gap)
            for _ in range(gap):
                models.apply([], np.zeros(0), rate)
            rate = np.float64(np.float32(factor * case.arguments["learning_rate"]))
            trained.optimizer.learning_rate = rate
            ids = np.array([i for i, _ in touches], np.int64)
            gradients = np.array([g for _, g in touches], "float32")
            trained.apply(ids, gradients)
            models.apply(ids, gradients, rate)
            if reads:
                for rows in trained.rows():
                    np.testing.assert_allclose(rows, models.rows(), rtol=0, atol=2e-6)

    follows()
