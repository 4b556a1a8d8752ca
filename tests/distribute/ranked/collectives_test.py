import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks.runtime import horovod
from keras_sparse.native import library


@pytest.mark.parametrize(
    "num_values",
    [
        lambda source, to: source + to,
        lambda source, to: (source + to) % ksd.size(),  # none to one of the ranks
        lambda source, to: 3 * source,  # none from rank 0
        lambda source, to: to * 1000,  # none to rank 0
        lambda source, to: 0,
    ],
    ids=["some", "not_to_one", "not_from_0", "not_to_0", "none"],
)
def test_every_rank_gets_its_part_from_every_rank(num_values):
    """Rank `source` has `num_values(source, to)` for rank `to`; each says whence and whither."""
    here, ranks = ksd.rank(), range(ksd.size())
    splits = np.array([num_values(here, to) for to in ranks], np.int32)
    values = np.repeat([100 * here + to for to in ranks], splits).astype(np.int32)
    exchange = tf.function(lambda *parts: collectives.alltoall(*parts, "parts"))
    received, received_splits = exchange(values, splits)
    expected = [num_values(source, here) for source in ranks]
    np.testing.assert_array_equal(received_splits, expected)
    sent_here = np.repeat([100 * source + here for source in ranks], expected)
    np.testing.assert_array_equal(received, sent_here)


@pytest.mark.skipif(ksd.size() == 1, reason="one rank has no Horovod")
def test_a_horovod_with_nccl_is_known():
    assert collectives.sends_from_gpus() == bool(horovod().nccl_built())


def test_sums_and_averages():
    tensors = [tf.constant([1.0, ksd.rank()]), tf.constant(float(ksd.rank()))]
    total = ksd.size() * (ksd.size() - 1) / 2
    first, second = collectives.sum_of(tensors, "sums")
    np.testing.assert_allclose(first, [ksd.size(), total])
    np.testing.assert_allclose(second, total)
    first, _ = collectives.average_of(tensors, "averages")
    np.testing.assert_allclose(first, [1, total / ksd.size()])


def test_a_sum_has_the_same_bits_whatever_horovods_cache_has_of_it():
    # Of three floats and more the order shows in which they are added up. It went by the place of a
    # number among all of its exchange, and that by which of their names the cache had.
    rng = np.random.default_rng(ksd.rank())
    tensors = [tf.constant(rng.normal(size=shape), tf.float32) for shape in ((140, 1), (1,))]
    others = [tf.constant(1)] * 1023  # the cache holds one more, that of one of two tensors

    @tf.function
    def exchange():
        return collectives.sum_of(tensors, "cached_sum")

    @tf.function
    def fill_the_cache():
        return horovod().grouped_allreduce(others, name="others", ignore_name_scope=True)

    expected = exchange()
    if ksd.size() > 1:
        fill_the_cache()
    for again, first in zip(exchange(), expected, strict=True):
        np.testing.assert_array_equal(again, first)


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


@pytest.mark.skipif(ksd.size() == 1, reason="one rank asks no Horovod")
@pytest.mark.parametrize(
    "call",
    [
        collectives.gather,
        lambda value, name: collectives.sum_of([value], name),
        lambda value, name: collectives.broadcast(value, 0, name),
        lambda value, name: collectives.alltoall(value[0], [9] * ksd.size(), name),
    ],
    ids=["gather", "sum_of", "broadcast", "alltoall"],
)
def test_what_fails_waits_no_more(call):
    with pytest.raises(tf.errors.OpError):
        call(tf.zeros((1, 2 + ksd.rank())), "fails")
    assert not library.lib.keras_sparse_waits().calls.numpy().size


@pytest.mark.skipif(ksd.size() == 1, reason="one rank calls what it calls")
@pytest.mark.parametrize(
    "call", [collectives.gather_objects, lambda v, name: collectives.broadcast_object(v, 0, name)]
)
def test_objects_of_different_calls_are_an_error(call):
    if ksd.rank() == 0 and call is not collectives.gather_objects:
        assert call(7, "call_of_0") == 7  # the root does not hear of others
        return
    with pytest.raises(
        RuntimeError, match=r"must make the same calls.*'call_of_\d' here.*call_of_0"
    ):
        call(7, f"call_of_{ksd.rank()}")
