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


def random_gradient(rng):
    ids = rng.zipf(1.2, 20000) % 3000
    values = rng.normal(size=(len(ids), 9)).astype("float32")
    return tf.IndexedSlices(tf.constant(values), tf.constant(ids), (3000, 9))


def train(optimizer):
    tables = [keras_sparse.EmbeddingVariable(input_dim, 9, seed=1) for input_dim in (3000, None)]
    rng = np.random.default_rng(0)
    for _ in range(3):
        optimizer.apply([random_gradient(rng) for _ in tables], tables)
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
