"""What TensorFlow takes to call a function like that of a training step, which computes nothing.

The arguments, the captured gradients and as many variables and results as ours has: a table is a
handle, and a variable that stands for it in Keras. What is left of a step's time is the engine's.
"""

import tensorflow as tf

from benchmarks.peers.keras_layers import bind


def build(workload, column):
    variables = [tf.Variable(0.0) for _ in range(2 * workload.num_tables)]
    iterations = tf.Variable(0)

    def lookup(ids, splits):
        raise NotImplementedError("the call alone has no forward column")

    def step(ids, splits, output_grads):
        arguments = [tf.identity(tensor) for tensor in (*ids, *splits)]
        with tf.control_dependencies([*arguments, *(v.read_value() for v in variables)]):
            iterations.assign_add(1)
            return [tf.identity(grad) for grad in output_grads]

    return bind(workload, column, lookup, step)
