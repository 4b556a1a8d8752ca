"""Whatever rows the batches have, and whenever they are read: the rule in float64."""

import numpy as np
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from optimizer_cases import each_optimizer
from optimizer_cases import KEYS
from optimizer_cases import make_table
from optimizer_cases import NumpyModel
from optimizer_cases import OPTIMIZERS
from optimizer_cases import random_rows
from optimizer_cases import read
from optimizer_cases import slices

ROWS = 6
DIM = 2


class Trained:
    """A table and its optimizer, compiled once and taken back to the start for each example."""

    def __init__(self, case, keys):
        self.keys = keys
        self.table = make_table(keys, random_rows(ROWS, DIM))
        self.optimizer = case.make()
        self.optimizer.build([self.table])
        self.initial = [variable.numpy() for variable in self.optimizer.variables]
        signature = (tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, DIM]))
        self.apply = tf.function(self._apply, input_signature=signature)
        self.idle = tf.function(self._idle, input_signature=[tf.TensorSpec([], tf.int32)])

    def restart(self):
        self.table.clear()
        self.table.import_(self.keys, random_rows(ROWS, DIM))
        for variable, value in zip(self.optimizer.variables, self.initial, strict=True):
            variable.assign(value)

    def _apply(self, ids, values):
        self.optimizer.apply([slices(tf.gather(tf.constant(self.keys), ids), values)])

    def _idle(self, steps):
        for _ in tf.range(steps):
            self._apply(tf.zeros([0], tf.int64), tf.zeros([0, DIM]))


def events(case):
    """Lists of: steps without ids, the ids and gradients of a step, its rate, whether to read."""
    size = st.sampled_from([size for size in case.sizes if size])
    gradient = st.builds(lambda quarters, size: quarters / 4 * size, st.integers(-8, 8), size)
    touches = st.lists(st.tuples(st.integers(0, ROWS - 1), gradient), max_size=6)
    gap = st.sampled_from([0, 0, 1, 7, 60, 250])
    factor = st.sampled_from([1.0, 1.0, 0.5, 0.125])
    return st.lists(st.tuples(gap, touches, factor, st.booleans()), min_size=1, max_size=8)


@each_optimizer
def test_follows_its_rule_in_float64_whatever_the_batches(case):
    keys = [np.arange(ROWS), KEYS[:ROWS]][OPTIMIZERS.index(case) % 2]
    trained = Trained(case, keys)

    @settings(max_examples=15, deadline=None, derandomize=True, database=None)
    @given(events=events(case))
    def follows(events):
        trained.restart()
        model = NumpyModel(case, random_rows(ROWS, DIM))
        for gap, touches, factor, reads in [*events, (9, [], 1.0, True)]:
            trained.idle(gap)
            for _ in range(gap):
                model.apply([], np.zeros((0, DIM)))
            model.rate = np.float64(np.float32(factor * case.arguments["learning_rate"]))
            trained.optimizer.learning_rate = model.rate
            ids = np.array([i for i, _ in touches], np.int64)
            values = np.array([[g, 2 * g] for _, g in touches], "float32").reshape(-1, DIM)
            trained.apply(ids, values)
            model.apply(ids, values)
            if reads:
                rows = read(trained.table, keys)
                np.testing.assert_allclose(rows, model.rows, rtol=0, atol=2e-6)

    follows()
