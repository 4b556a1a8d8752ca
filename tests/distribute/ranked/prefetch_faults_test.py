"""What goes wrong in a stage on one rank is an error on all, and nothing is left of it."""

import collections
import gc
import threading
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse.distribute as ksd
from keras_sparse.data import prefetch_lookups
from keras_sparse.distribute.exchange import exchange_call
from keras_sparse.layers import DistributedEmbedding
from keras_sparse.layers import Embedding
from keras_sparse.native import library
from prefetch_on_ranks import make_data
from prefetch_on_ranks import make_model
from prefetch_on_ranks import model_around
from stages import wait_until


def test_a_bad_id_of_one_rank_is_an_error_of_all_and_names_the_batch():
    layer = DistributedEmbedding([Embedding(30, 2, "sum", name="users")])
    model = model_around(layer)
    bad = np.where((np.arange(10) == 6) & (ksd.rank() == 1), 99, np.arange(10))
    batches = tf.data.Dataset.from_tensor_slices(bad[:, None]).batch(2)
    ahead = prefetch_lookups(batches, model, capacity=2)
    look_up = tf.function(lambda ids: layer([ids])[0])
    ahead = iter(ahead)
    for _ in range(3):
        look_up(next(ahead))
    words = r"\[rank 1 of \d\] (batch 3 of prefetch_lookups: )?.*users.*99"
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        look_up(next(ahead))


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_an_error_of_one_rank_in_a_round_is_that_of_all(mode, monkeypatch):
    serve = library.lib.keras_sparse_serve_round
    rounds = collections.Counter()  # by stage: one of a test before may be ending

    def serve_or_fail(**kwargs):
        rounds[id(kwargs["courier"])] += 1
        if ksd.rank() == 1 and rounds[id(kwargs["courier"])] == 5:
            raise MemoryError("no memory in round 5")
        return serve(**kwargs)

    monkeypatch.setattr(library.lib, "keras_sparse_serve_round", serve_or_fail)
    model = make_model()
    ahead = prefetch_lookups(make_data(), model, capacity=2, mode=mode)
    words = r"batch \d+ of prefetch_lookups: .*MemoryError: no memory in round 5"
    with pytest.raises(tf.errors.FailedPreconditionError, match=words):
        model.fit(ahead, shuffle=False, verbose=0)


@pytest.mark.parametrize("mode", ["exact", "stale"])
def test_an_error_of_a_rank_that_serves_in_the_step_is_that_of_all(mode, monkeypatch):
    serve = exchange_call.ExchangeCall._serve

    def serve_an_error(self, *words):
        bad = {**self.inputs(), "ids": [tf.constant([-5], tf.int64) for _ in self.ids]}
        error = library.lib.keras_sparse_request_rows(**bad, **self.layout.attributes)
        return serve(self, *words)._replace(
            reply=error.words, reply_splits=error.splits, own_reply=error.own_words
        )

    layer = DistributedEmbedding([Embedding(2000, 1) for _ in range(2)], row_slice_threshold=1)
    inputs = [keras.Input((1,), dtype="int64") for _ in range(2)]
    model = keras.Model(inputs, keras.layers.Concatenate()(layer(inputs)))
    ids = tf.data.Dataset.range(8).map(lambda n: ((tf.fill((1, 1), n), tf.fill((1, 1), n)),))
    wait_for_couriers(0)  # of tests before
    ahead = iter(prefetch_lookups(ids, model, capacity=3, mode=mode))
    for _ in range(4):
        time.sleep(0.2)  # so that all ranks have staged it
        ((first, second),) = next(ahead)
        layer([first, second])
    # One rank has not staged what it looks up, and none can use what it has.
    ((first, second),) = next(ahead)
    if ksd.rank() == 1:
        monkeypatch.setattr(exchange_call.ExchangeCall, "_serve", serve_an_error)
        first += 1000
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"rank 1 of \d.*\[0, 2000\).*-5"):
        layer([first, second])
    assert len(list(ahead)) == 3


def test_other_modes_on_other_ranks_are_an_error_of_all():
    model = make_model()
    ahead = prefetch_lookups(make_data(), model, mode="stale" if ksd.rank() else "exact")
    with pytest.raises(tf.errors.FailedPreconditionError, match="with the same `mode`"):
        model.fit(ahead, shuffle=False, verbose=0)


def wait_for_couriers(number):
    """Returns once so many stages exchange ids: they begin and end in their time."""

    def are_there():
        gc.collect()
        return sum(".ahead_" in each.name for each in threading.enumerate()) == number

    wait_until(are_there, f"{number} couriers")


def test_nothing_is_left_of_a_stage_that_has_ended():
    wait_for_couriers(0)  # of the tests before
    model = make_model()
    ahead = prefetch_lookups(make_data(), model, capacity=2)
    model.fit(ahead, steps_per_epoch=3, shuffle=False, verbose=0)
    wait_for_couriers(int(ksd.size() > 1))
    del ahead, model
    wait_for_couriers(0)
