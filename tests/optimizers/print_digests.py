"""Trains two tables by each optimizer, and prints a digest of their rows and slots.

python print_digests.py NUM_THREADS JSON_LIST_OF_OPTIMIZERS
"""

import hashlib
import json
import sys

import keras
import numpy as np
import tensorflow as tf

tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))

import keras_sparse  # noqa: E402  (after the number of threads)


def random_gradient(rng, num_ids):
    ids = rng.zipf(1.2, num_ids) % 3000
    values = rng.normal(size=(len(ids), 9)).astype("float32")
    return tf.IndexedSlices(tf.constant(values), tf.constant(ids), (3000, 9))


def train(optimizer):
    """Between batches of most rows all but a few miss some steps, which the next makes up for."""
    tables = [keras_sparse.EmbeddingVariable(input_dim, 9, seed=1) for input_dim in (3000, None)]
    rng = np.random.default_rng(0)
    for num_ids in (20000, 40, 0, 40, 40, 20000, 40, 40, 0):
        optimizer.apply([random_gradient(rng, num_ids) for _ in tables], tables)
    return tables


def digest(tables):
    sha = hashlib.sha256()
    for table in tables:
        keys, records = (np.concatenate(part) for part in zip(*table.export(1000), strict=True))
        order = np.argsort(keys)
        sha.update(keys[order].tobytes() + records[order].tobytes())
    return sha.hexdigest()


for config in json.loads(sys.argv[2]):
    print(digest(train(keras.saving.deserialize_keras_object(config))))
