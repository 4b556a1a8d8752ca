"""TensorFlow by hand: gather from a variable, `unique`, and the sparse apply ops of tf.raw_ops.

The fastest that stock ops give. Gradients of equal ids are summed (`tf.unique`, then
`unsorted_segment_sum`), for SGD too, where it is as fast as to scatter each. LazyAdam has no op of
its own: it is gather, arithmetic and scatter on the distinct rows. Keys of a dynamic table are
hashed into a static one by their remainder.
"""

import tensorflow as tf

from benchmarks.peers.keras_layers import bind

raw = tf.raw_ops


class Table:
    """A variable and its slots."""

    def __init__(self, input_dim, output_dim, column):
        shape = (input_dim, output_dim)
        self.rows = tf.Variable(tf.random.uniform(shape, -0.05, 0.05))
        slots = {"adagrad": 1, "lazy_adam": 2}.get(column, 0)
        self.slots = [tf.Variable(tf.fill(shape, 0.1)) for _ in range(slots)]

    def apply(self, column, ids, grads, step):
        distinct, positions = tf.unique(ids)
        grads = tf.math.unsorted_segment_sum(grads, positions, tf.size(distinct))
        if column in ("forward", "sgd"):
            self.scatter_sub(self.rows, distinct, 0.01 * grads)
        elif column == "adagrad":
            self.adagrad(distinct, grads)
        else:
            self.lazy_adam(distinct, grads, step)

    def adagrad(self, ids, grads):
        raw.ResourceSparseApplyAdagradV2(
            var=self.rows.handle,
            accum=self.slots[0].handle,
            lr=0.01,
            epsilon=1e-7,
            grad=grads,
            indices=ids,
        )

    def lazy_adam(self, ids, grads, step):
        mean_slot, square_slot = self.slots
        old_mean, old_square = (self.gather(slot, ids) for slot in self.slots)
        mean = old_mean + 0.1 * (grads - old_mean)
        square = old_square + 0.001 * (tf.square(grads) - old_square)
        correction = tf.sqrt(1.0 - 0.999**step) / (1.0 - 0.9**step)
        self.scatter(mean_slot, ids, mean)
        self.scatter(square_slot, ids, square)
        change = 0.001 * correction * mean / (tf.sqrt(square) + 1e-7)
        self.scatter_sub(self.rows, ids, change)

    @staticmethod
    def gather(variable, ids):
        return raw.ResourceGather(resource=variable.handle, indices=ids, dtype=tf.float32)

    @staticmethod
    def scatter(variable, ids, rows):
        raw.ResourceScatterUpdate(resource=variable.handle, indices=ids, updates=rows)

    @staticmethod
    def scatter_sub(variable, ids, rows):
        raw.ResourceScatterSub(resource=variable.handle, indices=ids, updates=rows)


def make_functions(workload, column, tables, to_ids):
    """Forward and step over all tables; the gradient is written out, as a fast hand would."""
    count = tf.Variable(0.0)

    def one_lookup(table, keys, splits):
        rows = table.gather(table.rows, to_ids(keys))
        if splits is None:
            return rows
        bags = tf.repeat(tf.range(workload.batch_size), splits[1:] - splits[:-1])
        return tf.math.segment_sum(rows, bags)

    def lookup(ids, splits):
        splits = splits or [None] * len(ids)
        return [one_lookup(*each) for each in zip(tables, ids, splits, strict=True)]

    def step(ids, splits, output_grads):
        outputs = lookup(ids, splits)
        splits = splits or [None] * len(ids)
        number = count.assign_add(1.0)
        with tf.control_dependencies(outputs):
            for table, keys, split, grads in zip(tables, ids, splits, output_grads, strict=True):
                if split is not None:
                    grads = tf.repeat(grads, split[1:] - split[:-1], axis=0)
                table.apply(column, to_ids(keys), grads, number)
        return outputs

    return lookup, step


def build(workload, column, in_one_call=False):
    shape = (workload.input_dim, workload.output_dim)
    tables = [Table(*shape, column) for _ in range(workload.num_tables)]

    def to_ids(keys):
        return keys % workload.input_dim if workload.dynamic else keys

    lookup, step = make_functions(workload, column, tables, to_ids)
    return bind(workload, column, lookup, step, in_one_call=in_one_call)
