"""Does the reader keep up with training? `python -m examples.dlrm train --measure_reader 20`."""

import time

import keras_sparse.distribute as ksd
from examples.dlrm.reader import training_batches


def run(model, part, options):
    """Prints samples a second of reading, of steps on one batch, and of steps on what is read."""
    num_steps = options.measure_reader
    batches = training_batches(part, options.batch_size)
    one = batches.take(1).cache().repeat()
    _fit(model, one, 1)  # makes the compiled step
    seconds = {
        "reading alone": _seconds(lambda: _read(batches, num_steps)),
        "steps alone, on one batch": _seconds(lambda: _fit(model, one, num_steps)),
        "steps on what is read": _seconds(lambda: _fit(model, batches, num_steps)),
    }
    rates = {name: num_steps * options.batch_size / each for name, each in seconds.items()}
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
