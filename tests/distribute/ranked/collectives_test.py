import numpy as np
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute import collectives


def test_every_rank_gets_its_part_from_every_rank():
    splits = np.arange(ksd.size(), dtype=np.int32) + ksd.rank()
    values = np.repeat(np.arange(ksd.size()) + 100 * ksd.rank(), splits).astype(np.int32)
    received, received_splits = collectives.alltoall(tf.constant(values), splits, "parts")
    expected = np.arange(ksd.size()) + ksd.rank()
    np.testing.assert_array_equal(received_splits, expected)
    sources = 100 * np.arange(ksd.size()) + ksd.rank()
    np.testing.assert_array_equal(received, np.repeat(sources, expected))


def test_sums_and_averages():
    tensors = [tf.constant([1.0, ksd.rank()]), tf.constant(float(ksd.rank()))]
    total = ksd.size() * (ksd.size() - 1) / 2
    first, second = collectives.sum_of(tensors, "sums")
    np.testing.assert_allclose(first, [ksd.size(), total])
    np.testing.assert_allclose(second, total)
    first, _ = collectives.average_of(tensors, "averages")
    np.testing.assert_allclose(first, [1, total / ksd.size()])


def test_gathers_what_differs_in_length():
    mine = tf.fill((ksd.rank(), 2), ksd.rank())
    expected = np.repeat(np.arange(ksd.size()), np.arange(ksd.size()))
    np.testing.assert_array_equal(collectives.gather(mine, "pieces")[:, 0], expected)
    assert collectives.gather_objects({"rank": ksd.rank()}, "objects") == [
        {"rank": rank} for rank in range(ksd.size())
    ]


def test_broadcasts_from_one_rank():
    root = ksd.size() - 1
    np.testing.assert_array_equal(
        collectives.broadcast(tf.constant([ksd.rank()]), root, "numbers"), [root]
    )
    assert collectives.broadcast_object(f"of {ksd.rank()}", root, "text") == f"of {root}"
