import statistics
import time

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.collectives import alltoall
from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.optimizers.sgd import SGD
from keras_sparse.tables.embedding_variable import EmbeddingVariable

_FLOAT_BYTES = 4
_REPEATS = 9
_WIDTH = 32  # two lines of 64 bytes, as a row in the middle of what is usual
_ROWS = 2**21  # 256 MiB: more than caches hold
_IDS = 2**16  # of a step
_TABLES = 33  # of one id each
_SENT_BYTES = 2**24


def measure_speeds():
    """Returns what `CostModel.measure` says: a dict of its arguments that were measured."""
    found = {"memory": _memory_bandwidth(), "table": _table_seconds()}
    if size() > 1:
        found["network"] = _network_bandwidth()
    of_ranks = gather_objects(found, "keras_sparse.measure_cost_model")
    slowest = {
        "memory_bandwidth": min(each["memory"] for each in of_ranks),
        "table_seconds": max(each["table"] for each in of_ranks),
    }
    if size() > 1:
        slowest["network_bandwidth"] = min(each["network"] for each in of_ranks)
    return slowest


def _memory_bandwidth():
    """Bytes a second as `CostModel` counts them: rows and gradients of ids, rows updated."""
    table = EmbeddingVariable(_ROWS, _WIDTH, initializer="zeros")
    step = _step_of([table])
    for ids in np.arange(_ROWS).reshape(-1, 16 * _IDS):  # rows are made when they are updated
        step([tf.constant(ids)])
    random = np.random.default_rng(0)
    batches = [[tf.constant(random.integers(0, _ROWS, _IDS))] for _ in range(_REPEATS)]
    touched = statistics.mean(len(np.unique(ids)) for (ids,) in batches)
    row = _FLOAT_BYTES * _WIDTH
    num_bytes = 2 * row * (_IDS + touched)
    return num_bytes / _median_seconds(step, batches)


def _table_seconds():
    """Seconds of a table more in a step, of one id."""
    seconds = []
    for num_tables in (1, _TABLES):
        tables = [EmbeddingVariable(8, 1, initializer="zeros") for _ in range(num_tables)]
        batches = [[tf.constant([3], tf.int64)] * num_tables] * (4 * _REPEATS)
        seconds.append(_median_seconds(_step_of(tables), batches))
    one, many = seconds
    return max(many - one, 0.0) / (_TABLES - 1)


def _network_bandwidth():
    """Bytes a second that this rank sends and receives, as all ranks exchange at once.

    What an exchange takes however little it sends is not in it: all plans have as many exchanges.
    """

    def exchange(values):
        splits = tf.fill([size()], tf.size(values) // size())
        return alltoall(values, splits, "keras_sparse.measure_cost_model.exchange")[0]

    seconds = []
    for num_floats in (size(), _SENT_BYTES // _FLOAT_BYTES // size() * size()):
        values = tf.ones([num_floats])
        seconds.append(_median_seconds(exchange, [values] * _REPEATS))
    nothing, much = seconds
    others = (size() - 1) / size()
    # The half is for a machine so busy that the little one was by chance the slower.
    return 2 * others * _SENT_BYTES / max(much - nothing, much / 2)


def _step_of(tables):
    optimizer = SGD()
    optimizer.build(tables)
    shapes = [tf.TensorSpec([None], tf.int64)] * len(tables)

    @tf.function(input_signature=[shapes])
    def step(ids):
        rows = native.lookup(tables, ids)
        gradients = [
            tf.IndexedSlices(of_table, of_ids, table.shape)
            for of_table, of_ids, table in zip(rows, ids, tables, strict=True)
        ]
        optimizer.apply(gradients, tables)

    return step


def _median_seconds(function, arguments):
    """Median of the times of a function, after a call that is not counted."""
    seconds = []
    function(arguments[0])
    for argument in arguments:
        begin = time.perf_counter()
        function(argument)
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)
