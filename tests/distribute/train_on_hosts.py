"""Trains on hosts, or under a launcher, and resumes from the last checkpoint of a folder.

python tests/distribute/train_on_hosts.py FOLDER STEPS [SECONDS_A_STEP]
"""

import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd

BATCH_SIZE, BATCHES_AN_EPOCH = 512, 10


class Told(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(seconds)
        if ksd.rank() == 0:
            print(f"step {int(self.model.optimizer.iterations)}", flush=True)


folder, steps, seconds, *_ = [*sys.argv[1:], 0]
steps, seconds = int(steps), float(seconds)
ksd.init()
keras.utils.set_random_seed(0)
print(f"rank {ksd.rank()} of {ksd.size()} is on {os.uname().nodename}", flush=True)
rng = np.random.default_rng(0)
num_samples = BATCH_SIZE * BATCHES_AN_EPOCH
ids = rng.integers(0, 5000, (num_samples, 2))
labels = np.float32(ids.sum(axis=1, keepdims=True) % 3 == 0)
data = tf.data.Dataset.from_tensor_slices((ids, labels)).batch(BATCH_SIZE)

inputs = keras.Input((2,), dtype="int64")
tables = [keras_sparse.layers.Embedding(None, 16), keras_sparse.layers.Embedding(5000, 16)]
rows = keras_sparse.layers.DistributedEmbedding(tables, output_mode="concat")(inputs)
model = keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(rows))
model.compile(
    ksd.DistributedOptimizer(keras_sparse.optimizers.Adagrad(0.1)), loss="binary_crossentropy"
)
model.fit(
    ksd.shard(data.repeat(), weigh_samples=True),
    epochs=steps // BATCHES_AN_EPOCH,
    steps_per_epoch=BATCHES_AN_EPOCH,
    shuffle=False,
    verbose=0,
    callbacks=[
        ksd.MetricAverage(),
        keras_sparse.callbacks.Checkpoint(
            folder, every_steps=BATCHES_AN_EPOCH, on_signal="SIGTERM"
        ),
        keras_sparse.callbacks.BroadcastGlobalVariables(),
        Told(),
    ],
)
model.evaluate(ksd.shard(data, weigh_samples=True), verbose=0)
loss = ksd.average_metrics(model)["loss"]
if ksd.rank() == 0:
    print(f"loss {loss:.6f} after {int(model.optimizer.iterations)} steps", flush=True)
