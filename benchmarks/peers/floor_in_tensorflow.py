"""The floor as two TensorFlow ops in a `tf.function` (`benchmarks/floor/ops.cc`), on huge pages.

What it takes more than the floor alone is what TensorFlow and Python take around any engine; what
ours takes more than this is ours.
"""

import functools

import tensorflow as tf

from benchmarks.peers import floor
from benchmarks.peers.keras_layers import bind


def compile_flags():
    """Those of TensorFlow, whose headers GCC warns a lot about."""
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()]
    return [*flags, "-std=c++17", *tf.sysconfig.get_link_flags()]


@functools.cache
def library_and_ops():
    """The floor's library with the ops in it, compiled once a process, and the ops."""
    ops = []

    def load_ops(path):
        ops.append(tf.load_op_library(path))

    return floor.library(floor.OPS, compile_flags(), load_ops), ops[0]


class FloorInTensorFlow(floor.Floor):
    """The floor's tables, looked up and updated by ops.

    Args:
        *args: As of `floor.Floor`.
        **kwargs: As of `floor.Floor`.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.ops = library_and_ops()[1]
        self.count = tf.Variable(0, dtype=tf.int64)

    def _load(self):
        return library_and_ops()[0]

    def lookup(self, ids, splits):
        """The outputs, one a table.

        Args:
            ids: List of int64 tensors, one a table.
            splits: List of int64 tensors: the bags of each, or an empty list.
        """
        return self.ops.floor_lookup(
            ids=ids,
            splits=splits,
            group=self.handle.value,
            rows=self.workload.num_rows_out,
            dim=self.workload.output_dim,
            stream=bool(self.stream),
        )

    def look_up_and_update(self, ids, splits, output_grads):
        """The same; the tables have then been updated."""
        outputs = self.lookup(ids, splits)
        number = self.count.assign_add(1)
        with tf.control_dependencies(outputs):
            self.ops.floor_apply(
                ids=ids,
                splits=splits,
                grads=output_grads,
                step=number,
                group=self.handle.value,
                rule=floor.RULES.get(self.rule, 0),
            )
        return outputs


def build(workload, column, in_one_call=False):
    tables = FloorInTensorFlow(workload, column, huge=True)
    step = tables.look_up_and_update
    return bind(workload, column, tables.lookup, step, in_one_call=in_one_call)
