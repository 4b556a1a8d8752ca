"""Trainings that end early and resume on another number of ranks, for resuming_ranks_test.

python tests/distribute/resuming_ranks.py FOLDER STAGE [NUMBER, CASE]...

Each training has its own number and a `Case` in JSON. Its table `seen` counts: a row is the number
of times that its id was trained, and each batch has an id of its own.
"""

import contextlib
import json
import pathlib
import sys
from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_sparse
import keras_sparse.distribute as ksd
import small_disks
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.collectives import gather_objects

EPOCHS, STEPS, BATCHES = 6, 5, 7  # steps of an epoch; batches of data that goes on over epochs
ENDS = (13, 23, EPOCHS * STEPS)  # how many batches were trained when a stage ends
SEEN, WIDTH = 60, 4
KEYS = (np.arange(40) - 20) * (2**40 + 1)
PLACES = [
    {"row_slice_threshold": 1},
    {"column_slice_threshold": 100},
    {"strategy": "auto"},
    {"data_parallel_threshold": 10_000},
    {"strategy": "memory_balanced"},
]


class Case(NamedTuple):
    ranks: list  # how many, of each stage
    saves: str
    steps_an_update: int | None
    is_ahead: bool
    is_uneven: bool  # batches have another size, which no number of ranks divides
    goes_on: bool  # the data, over epochs
    skips: bool  # whether the callback skips batches, or the data begins with the right one
    per_execution: int
    first_end: str  # what ends the first stage, or is damaged after it


def options_of(case):
    """The options of `Checkpoint`, whose steps are updates."""
    an_update = case.steps_an_update or 1
    return {
        "steps": {"every_steps": 3 // an_update},
        "epochs": {},
        "deltas": {"every_steps": 6 // an_update, "delta_every": 3 // an_update, "keep": 2},
    }[case.saves]


def make_model(case, folder, places):
    layers = [
        keras_sparse.layers.Embedding(SEEN, WIDTH, "sum", "zeros", name="seen"),
        keras_sparse.layers.Embedding(
            None,
            8,
            "mean",
            seed=1,
            name="kept",
            eviction=keras_sparse.GlobalStepEvict(4),
            storage=keras_sparse.StorageOption("DRAM_SSDHASH", folder / "tiers", [1000, 1 << 20]),
        ),
        keras_sparse.layers.Embedding(40, 3, "sum", seed=2, name="small"),
    ]
    inputs = [keras.Input((2,), dtype="int64", name=f"ids_{i}") for i in range(3)]
    seen, *rows = keras_sparse.layers.DistributedEmbedding(layers, name="tables", **places)(inputs)
    rows = keras.layers.Concatenate()(rows)
    outputs = keras.layers.Dense(1, kernel_initializer=keras.initializers.GlorotNormal(5))(rows)
    model = keras.Model(inputs, keras.layers.Concatenate()([outputs, seen]))
    options = {"gradient_accumulation_steps": case.steps_an_update}
    optimizer = keras_sparse.optimizers.MultiOptimizer(
        {
            "seen": keras_sparse.optimizers.SGD(1.0, **options),
            "others": keras_sparse.optimizers.Adam(0.02, **options),
        }
    )
    model.compile(
        ksd.DistributedOptimizer(optimizer), Loss(), steps_per_execution=case.per_execution
    )
    model.optimizer.build(model.trainable_variables)
    return model


class Loss(keras.losses.Loss):
    """Squared errors, and for the rows of `seen` a gradient of -1."""

    def call(self, y_true, y_pred):
        error = keras.ops.square(y_pred[:, 0] - y_true[:, 0])
        return error - keras.ops.sum(y_pred[:, 1:], axis=1)


def batch(number, is_uneven):
    """The inputs and targets of a batch of all ranks. The first id of `seen` is its number."""
    random = np.random.default_rng(number)
    size = (2 if number % 3 == 2 else 16) if is_uneven else 12
    seen = np.stack([np.full(size, number), random.integers(BATCHES, SEEN, size)], axis=1)
    # Some keys come in few batches, so that their rows are evicted.
    keys = random.choice(KEYS[number : number + 24], (size, 2))
    targets = random.normal(size=(size, 1)).astype(np.float32)
    return (seen, keys, random.integers(0, 40, (size, 2))), targets


def dataset_of(case, model, checkpoint):
    """The batches from the first one, or from where the callback says."""
    num_batches = BATCHES if case.goes_on else STEPS

    def batches():
        number = 0 if case.skips else checkpoint.first_batch
        while case.goes_on or number < num_batches:
            yield batch(number % num_batches, case.is_uneven)
            number += 1

    ids = (tf.TensorSpec((None, 2), tf.int64),) * 3
    signature = ids, tf.TensorSpec((None, 1), tf.float32)
    data = tf.data.Dataset.from_generator(batches, output_signature=signature)
    if case.skips and not case.goes_on:
        data = data.apply(tf.data.experimental.assert_cardinality(num_batches))
    data = ksd.shard(data, weigh_samples=case.is_uneven)
    return keras_sparse.data.prefetch_lookups(data, model) if case.is_ahead else data


class End(keras.callbacks.Callback):
    """Ends training after a number of batches, as a kill would: nothing more is saved."""

    def __init__(self, num_batches):
        super().__init__()
        self._num_batches = num_batches

    def on_epoch_begin(self, epoch, logs=None):
        self._epoch = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self._epoch * STEPS + batch + 1 >= self._num_batches < ENDS[-1]:
            raise KeyboardInterrupt


class FullDisk(keras_sparse.callbacks.Checkpoint):
    """From a batch on, what the last rank saves does not fit on its disk."""

    def _save(self, *args, **kwargs):
        is_full = self._epoch * STEPS + self._batch > ENDS[0] - 4 and ksd.rank() == ksd.size() - 1
        with small_disks.files_of_at_most(300) if is_full else contextlib.nullcontext():
            super()._save(*args, **kwargs)


def fit(case, model, folder, stage):
    """Trains until a stage ends."""
    is_full = case.first_end == "full disk" and stage == 0
    make = FullDisk if is_full else keras_sparse.callbacks.Checkpoint
    checkpoint = make(folder / "run", skip_batches=case.skips, verbose=False, **options_of(case))
    ended = pytest.raises(KeyboardInterrupt)
    if stage == len(ENDS) - 1:
        ended = contextlib.nullcontext()
    elif is_full:
        ended = pytest.raises(OSError, match="File too large: '")
    with ended:
        model.fit(
            dataset_of(case, model, checkpoint),
            epochs=EPOCHS,
            steps_per_epoch=STEPS if case.goes_on else None,
            shuffle=False,
            verbose=0,
            callbacks=[
                ksd.MetricAverage(),
                keras_sparse.callbacks.BroadcastGlobalVariables(),
                checkpoint,
                End(ENDS[stage]),
            ],
        )


def values(model):
    """All rows, as every rank can read them, and the weights of the last layer."""
    ids = [np.arange(SEEN), KEYS, np.arange(40)]
    rows = model.get_layer("tables")([tf.constant(each[:, np.newaxis]) for each in ids])
    kept = next(each for each in model.get_layer("tables").tables if each.name == "kept")
    num_rows = sum(gather_objects(sum(len(keys) for keys, _ in kept.export()), "num_rows"))
    dense = next(each for each in model.layers if isinstance(each, keras.layers.Dense))
    return [*(each.numpy() for each in rows), np.array(num_rows), *dense.get_weights()]


def expected_counts(case):
    """How often each id is in what is trained, an update's mean being that of its steps."""
    counts, steps = np.zeros(SEEN), STEPS
    if case.goes_on:  # Keras' executions are whole
        steps = -(-STEPS // case.per_execution) * case.per_execution
    for number in range(EPOCHS * steps):
        of_data = number % BATCHES if case.goes_on else number % STEPS
        (seen, _, _), targets = batch(of_data, case.is_uneven)
        np.add.at(counts, seen.ravel(), 1 / len(targets))
    return counts / (case.steps_an_update or 1)


def never_stop(folder, case):
    """Trains on one rank from beginning to end."""
    model = make_model(case, folder / "whole", {})
    fit(case, model, folder / "whole", len(ENDS) - 1)
    of_model = values(model)
    counts = expected_counts(case)[:, np.newaxis]
    np.testing.assert_allclose(of_model[0], counts.repeat(WIDTH, 1), rtol=1e-5)
    np.savez(folder / "expected.npz", *of_model)


def resume(folder, case, stage, places):
    assert ksd.size() == case.ranks[stage]
    model = make_model(case, folder, places)
    fit(case, model, folder, stage)
    left = broadcast_object(sorted(each.name for each in (folder / "run").iterdir()), 0, "left")
    assert not any("partial" in name for name in left), left
    if stage == len(ENDS) - 1:
        expected = list(np.load(folder / "expected.npz").values())
        for ours, theirs in zip(values(model), expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


if __name__ == "__main__":
    path, stage, *texts = sys.argv[1:]
    for number, fields in map(json.loads, texts):
        folder, case = pathlib.Path(path) / str(number), Case(*fields)
        if stage == "whole":
            never_stop(folder, case)
        else:
            resume(folder, case, int(stage), PLACES[(number + 2 * int(stage)) % len(PLACES)])
        if ksd.rank() == 0:
            print("done", number, flush=True)
