"""The floor as two TensorFlow ops in a `tf.function` (`floor_ops.cc`), on huge pages.

What it takes more than the floor alone is what TensorFlow and Python take around any engine; what
ours takes more than this is ours.
"""

import tensorflow as tf

from benchmarks.peers import floor
from benchmarks.peers.keras_layers import bind


def compile_flags():
    """Those of TensorFlow, whose headers GCC warns a lot about."""
    flags = [flag.replace("-I", "-isystem", 1) for flag in tf.sysconfig.get_compile_flags()]
    return [*flags, "-std=c++17", *tf.sysconfig.get_link_flags()]


class FloorInTensorFlow(floor.Floor):
    """The floor's tables, in the library that has the ops too."""

    def _load(self):
        return floor.library(floor.OPS, compile_flags(), self._load_ops)

    def _load_ops(self, path):
        self.ops = tf.load_op_library(path)


def build(workload, column):
    tables = FloorInTensorFlow(workload, column, huge=True)
    group = tables.handle.value
    count = tf.Variable(0, dtype=tf.int64)

    def lookup(ids, splits):
        return tables.ops.floor_lookup(
            ids=ids,
            splits=splits,
            group=group,
            rows=workload.num_rows_out,
            dim=workload.output_dim,
            stream=bool(tables.stream),
        )

    def step(ids, splits, output_grads):
        outputs = lookup(ids, splits)
        number = count.assign_add(1)
        with tf.control_dependencies(outputs):
            tables.ops.floor_apply(
                ids=ids,
                splits=splits,
                grads=output_grads,
                step=number,
                group=group,
                rule=floor.RULES.get(column, 0),
            )
        return outputs

    return bind(workload, column, lookup, step)
