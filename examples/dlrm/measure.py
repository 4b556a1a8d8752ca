"""Does the reader keep up with training? `python -m examples.dlrm train --measure_reader 20`."""

import time

import keras_sparse.distribute as ksd
from examples.dlrm.reader import training_batches

ROUNDS = 3


def run(model, part, options):
    """Prints samples a second of reading, of steps on one batch, and of steps on what is read.

    Each is the fastest of several rounds, in which they take turns: the machine may be busy.
    """
    num_steps = options.measure_reader
    batches = training_batches(part, options.batch_size)
    one = batches.take(1).cache().repeat()
    _fit(model, one, 1)  # makes the compiled step
    ways = {
        "reading alone": lambda: _read(batches, num_steps),
        "steps alone, on one batch": lambda: _fit(model, one, num_steps),
        "steps on what is read": lambda: _fit(model, batches, num_steps),
    }
    rounds = [{name: _seconds(way) for name, way in ways.items()} for _ in range(ROUNDS)]
    rates = {
        name: num_steps * options.batch_size / min(each[name] for each in rounds) for name in ways
    }
    if ksd.rank() == 0:
        for name, rate in rates.items():
            print(f"{name:<28}{rate:>14,.0f} samples/s")
    return rates


def _read(batches, num_steps):
    for _ in batches.take(num_steps):
        pass


def _fit(model, batches, num_steps):
    model.fit(batches, steps_per_epoch=num_steps, verbose=0, shuffle=False)


def _seconds(function):
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin
