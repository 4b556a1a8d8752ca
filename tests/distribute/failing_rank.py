"""Trains on all ranks, of which rank 1 fails in the middle of it.

python tests/distribute/failing_rank.py raise | kill | end

Where it ends its data it was slow before, for longer than ranks may wait for each other.
"""

import os
import signal
import sys
import threading
import time

import keras
import numpy as np
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives


class Averaging(keras.optimizers.SGD):
    def apply_gradients(self, grads_and_vars, **kwargs):
        grads, variables = zip(*grads_and_vars, strict=True)
        averages = collectives.average_of(grads, "gradients")
        return super().apply_gradients(zip(averages, variables, strict=True), **kwargs)


class Counted(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch in (19, 49):
            print(f"rank {ksd.rank()} has done step {batch}", flush=True)


def batches():
    for step in range(10**9):
        if step == 20 and ksd.rank() == 1 and sys.argv[1] == "end":
            time.sleep(4 * float(os.environ["KERAS_SPARSE_STALL_SECONDS"]))
        if step == 50 and ksd.rank() == 1:
            if sys.argv[1] == "end":
                return
            if sys.argv[1] == "raise":
                raise ValueError("the 50th batch cannot be read")
            os.kill(os.getpid(), signal.SIGKILL)
        yield np.ones((4, 3), np.float32), np.ones((4, 1), np.float32)


ksd.init()
# TensorFlow is not in use by that, and takes settings.
assert not [each for each in threading.enumerate() if each.name.startswith("keras_sparse")]
tf.config.threading.set_inter_op_parallelism_threads(2)
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
model.compile(Averaging(), "mse")
spec = tf.TensorSpec((4, 3)), tf.TensorSpec((4, 1))
data = tf.data.Dataset.from_generator(batches, output_signature=spec)
model.fit(data, verbose=0, callbacks=[ksd.MetricAverage(), Counted()])
