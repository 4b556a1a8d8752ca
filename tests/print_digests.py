"""Trains tables of every optimizer, filter and policy; prints a digest of what each has then.

python print_digests.py NUM_THREADS
"""

import hashlib
import json
import pathlib
import sys

import numpy as np
import tensorflow as tf

sys.path.insert(0, str(pathlib.Path(__file__).parent / "support"))
tf.config.threading.set_intra_op_parallelism_threads(int(sys.argv[1]))

import eviction_cases  # noqa: E402  (after the number of threads)
import filter_cases  # noqa: E402
import keras_sparse  # noqa: E402
from optimizer_cases import OPTIMIZERS  # noqa: E402


def digest(table, *others):
    sha = hashlib.sha256(json.dumps(others).encode())
    keys, records = (np.concatenate(part) for part in zip(*table.export(1000), strict=True))
    order = np.argsort(keys)
    sha.update(keys[order].tobytes() + records[order].tobytes())
    return sha.hexdigest()


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
    return [digest(table) for table in tables]


def train_with_filter(case):
    model = filter_cases.make_model(case.make(), "Adam")
    filter_cases.train(model, 0, 256)
    table = filter_cases.table_of(model)
    return digest(table, sorted(filter_cases.remembered(table).items()))


def train_with_policy(case):
    model, evicted = eviction_cases.make_model(case.make(), "Adam"), []
    for first in range(0, 256, 64):
        eviction_cases.train(model, first, first + 64)
        evicted.append(model.get_layer("items").evict())
    return digest(eviction_cases.table_of(model), evicted)


digests = {case.name: train(case.make()) for case in OPTIMIZERS}
digests |= {f"{c.name} clipped": train(c.make(global_clipnorm=100.0)) for c in OPTIMIZERS[::5]}
digests |= {str(case): train_with_filter(case) for case in filter_cases.CASES}
digests |= {str(case): train_with_policy(case) for case in eviction_cases.CASES}
print(json.dumps(digests))
