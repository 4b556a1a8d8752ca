"""Ends ranks that wait for each other in different calls, and would for good."""

import json
import re
import sys
import threading
import time

import numpy as np
import tensorflow as tf

from keras_sparse.distribute.ranks.exchange_thread import ExchangeThread
from keras_sparse.distribute.ranks.exchange_thread import NamedExchange
from keras_sparse.distribute.ranks.exchange_thread import shut_down
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import horovod
from keras_sparse.distribute.ranks.runtime import stall_seconds
from keras_sparse.distribute.ranks.uncaught_errors import stalled
from keras_sparse.native import library

_begun = threading.Lock()  # taken once


class Watch(ExchangeThread):
    """Tells the other ranks now and then what this one waits for, and looks at all of it.

    A rank that computes, saves or stands in a debugger waits for none, and is no fault however long
    it takes. But where each rank waits in a call and no call has all ranks in it, none goes on.
    That is said on each, and Horovod shut down: their calls are errors then.

    Args:
        seconds: Float, the same on all ranks. How long all must have waited.
    """

    def __init__(self, seconds):
        super().__init__("keras_sparse.watch")
        self._seconds = seconds
        self._ends = threading.Event()

    def run(self):
        before = None
        try:
            exchange = NamedExchange(self.name)
            while True:
                is_closed = self._ends.wait(self._seconds / 6)
                if not horovod().is_initialized():
                    return
                # A rank that is at its end waits for none, but others may wait in this for it.
                of_ranks = self._gather(exchange, None if is_closed else _waits(self._seconds))
                if all(each is None for each in of_ranks):
                    return
                # Twice the same: within a step a rank may wait in one call and compute for another.
                if is_stall(of_ranks) and of_ranks == before:
                    self._end(of_ranks)
                    return
                before = of_ranks
        except (tf.errors.OpError, ValueError):
            return  # Horovod ends, with this rank or with another

    def _gather(self, exchange, waits):
        """Returns what all ranks give."""
        text = json.dumps(waits).encode()
        words = np.frombuffer(text + b" " * (-len(text) % 4), np.int32)
        size = horovod().size()
        received, splits = exchange(np.tile(words, size), np.full(size, len(words), np.int32))
        of_ranks = np.split(received.numpy(), np.cumsum(splits.numpy())[:-1])
        return [json.loads(each.tobytes()) for each in of_ranks]

    def _end(self, of_ranks):
        stalled.set()
        print(stall_text(error_prefix(), self._seconds, of_ranks), file=sys.stderr, flush=True)
        time.sleep(1)  # for all ranks to have it, whose calls fail as soon as one shuts down
        shut_down()

    def close(self):
        self._ends.set()

    def leave(self):
        self._ends.set()


def keep_watch():
    """Starts the watch of this process, once. Called before it waits for others.

    Not when it joins them: the watch takes TensorFlow into use, whose devices and threads the
    program may still have to set.
    """
    if _begun.acquire(blocking=False) and (seconds := stall_seconds()):
        Watch(seconds).start()


def is_stall(of_ranks):
    """Returns whether no rank can go on.

    Args:
        of_ranks: List with, of each rank, a dict whose keys are the names of the calls that it
            waits in, or `None` if it is at its end.
    """
    return all(of_ranks) and not set.intersection(*map(set, of_ranks))


def _waits(seconds):
    """The calls that have waited for so long, by name, and which call of this rank each is."""
    arrays = (each.numpy() for each in library.lib.keras_sparse_waits())
    waits = zip(*arrays, strict=True)
    return {call.decode(): int(number) for call, number, so_far in waits if so_far >= seconds}


# What the names of calls say, by how they look: the first that fits.
_MEANINGS = (
    (r"exchange_\d+.*\.(ids|ids_again|rows|samples)$", "the lookup of a batch"),
    (r"exchange_\d+.*\.gradients$", "the gradients of a batch, for tables"),
    (r"optimizer_\d+\.", "a step of `DistributedOptimizer`"),
    (r"agree_on_step", "the first step of `DistributedOptimizer`"),
    (r"average_(metrics|over_ranks)", "`MetricAverage` or `average_metrics`, after the last batch"),
    (r"regularized_parts", "the loss of a batch"),
    (r"StopTogether", "`StopTogether`"),
    (r"stop_signal", "`Checkpoint(on_signal=...)`, after a batch"),
    (r"plan_\d+", "the building of a layer"),
    (r"broadcast|about|records|export|filter", "copying, saving or loading of tables"),
    (r"save|load|checkpoint|find_base", "saving or loading"),
)


def stall_text(prefix, seconds, of_ranks):
    """Returns what is said of ranks that wait for each other.

    Args:
        prefix: String: `"[rank 3 of 8] "`.
        seconds: Float. How long all have waited.
        of_ranks: List of a dict a rank, whose keys are the names of the calls that it waits in.
    """
    waits = [f"rank {i} in {_shown(calls)}" for i, calls in enumerate(of_ranks)]
    return (
        f"{prefix}This rank ends because all ranks have waited for each other for {seconds:g} s, "
        "in different calls. All must call `fit`, `evaluate`, `predict`, what saves and what "
        "averages in the same order, with the same model and callbacks and with as many batches: "
        "`keras_sparse.distribute.shard` gives as many, `steps_per_epoch` cuts them off. Received: "
        f"{', '.join(waits)}"
    )


def _shown(calls):
    return " and ".join(f"{_meaning(call)} ('{call}')" for call in sorted(calls))


def _meaning(call):
    for pattern, meaning in _MEANINGS:
        if re.search(pattern, call):
            return meaning
    return "a call"
