"""Trains on all ranks, of which rank 1 alone receives a signal.

python tests/distribute/stopping_rank.py FOLDER STEP

It comes in the step after STEP, and is sent to no rank if the training does not come so far.
"""

import hashlib
import os
import signal
import sys

import keras
import numpy as np

import keras_sparse.distribute as ksd
from keras_sparse.callbacks import Checkpoint
from keras_sparse.data import prefetch_lookups
from prefetch_on_ranks import make_data
from prefetch_on_ranks import make_model

folder, step = sys.argv[1:]


class Send(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):
        if ksd.rank() == 1 and int(self.model.optimizer.iterations) == int(step):
            os.kill(os.getpid(), signal.SIGTERM)


ksd.init()
model = make_model()
model.optimizer.build(model.trainable_variables)
data = prefetch_lookups(make_data(batches=30), model)
callbacks = [Checkpoint(folder, on_signal="SIGTERM"), Send()]
model.fit(data, epochs=8, shuffle=False, verbose=0, callbacks=callbacks)
kernel, _ = model.layers[-1].get_weights()
rows = model.predict(make_data(seed=1, batches=4, rank=0), verbose=0)
content = np.ascontiguousarray(kernel).tobytes() + np.ascontiguousarray(rows).tobytes()
print(f"rank {ksd.rank()} ends with {hashlib.md5(content).hexdigest()}", flush=True)
