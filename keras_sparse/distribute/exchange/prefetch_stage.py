import contextlib
from typing import Any

import tensorflow as tf

from keras_sparse.distribute.ranks.exchange_thread import ExchangeThread
from keras_sparse.distribute.ranks.exchange_thread import NamedExchange
from keras_sparse.native import library
from keras_sparse.native.on_cpu import on_cpu


class PrefetchStage:
    """Makes the lookups of an `Exchange` ready ahead of their steps.

    It ends with the last dataset, iterator or function that has its handle. Its courier, a thread
    that takes part in the rounds of `PrefetchRounds` (ops/core/exchange/prefetch_rounds.h), goes on
    until the stages of all ranks have ended, as those of others may still wait for its rows.

    All ranks must make the same stages in the same order.

    Args:
        exchange: `Exchange`.
        capacity: Integer. How many batches are ready or in work at most. 0 for as many as it takes.
        reads_rows: Boolean. Whether rows are exchanged too, rather than ids alone.
    """

    @on_cpu
    def __init__(self, exchange, capacity, reads_rows):
        area = exchange.make_area()
        number = exchange.num_stages
        exchange.num_stages += 1
        with tf.init_scope():
            handles = library.lib.keras_sparse_create_exchange_stage(
                area=area,
                number=number,
                capacity=capacity,
                reads_rows=reads_rows,
                **exchange.layout.attributes,
            )
        self.handle = handles.stage
        name = f"{exchange.name}.ahead_{number}"
        _Courier(exchange, handles.courier, reads_rows, name).start()

    @on_cpu
    def stage(self, batch, lookups):
        """Gives the lookups of a batch to the stage, and returns at once.

        Args:
            batch: int64 scalar. The number of the batch in its data, for errors.
            lookups: List of dicts, each of the inputs of one lookup as the native ops take them.

        Returns:
            `tf.Operation`, or `None` outside of a graph.
        """
        inputs = {
            name: [each for lookup in lookups for each in lookup[name]] for name in lookups[0]
        }
        return library.lib.keras_sparse_stage_requests(
            stage=self.handle,
            batch=batch,
            lookup_sizes=[len(lookup["ids"]) for lookup in lookups],
            **inputs,
        )


class _Courier(ExchangeThread):
    """Carries what a stage's rounds exchange.

    Args:
        exchange: `Exchange`.
        handle: Tensor of dtype resource.
        reads_rows: As for `PrefetchStage`.
        name: String. What the names of its exchanges begin with, the same on all ranks.
    """

    def __init__(self, exchange, handle, reads_rows, name):
        super().__init__(name)
        self.handle = handle
        self._exchange = exchange
        self._reads_rows = reads_rows
        self._owes_rows = False  # to ranks that have asked for them
        self._exchange_ids: Any = None
        self._exchange_rows: Any = None

    def run(self):
        try:
            # Here, where no graph is being made that these would keep, and the stage with it.
            self._exchange_ids = NamedExchange(f"{self.name}.ids")
            self._exchange_rows = NamedExchange(f"{self.name}.rows")
            while not self._take_part():
                pass
        except Exception as error:
            with contextlib.suppress(tf.errors.OpError):  # Horovod's own, which all ranks have
                self._tell_all(error)
        del self._exchange

    @on_cpu
    def _take_part(self):
        """Takes part in one round. Returns whether it was the last one."""
        ids = library.lib.keras_sparse_next_round(courier=self.handle)
        if ids.is_over:
            return True
        words, splits = self._exchange_ids(ids.words, ids.splits)
        self._owes_rows = self._reads_rows
        served = library.lib.keras_sparse_serve_round(
            courier=self.handle,
            handles=[variable.native for variable in self._exchange.variables],
            words=words,
            splits=splits,
            own_words=ids.own_words,
            pools=self._exchange.pools,
        )
        if served.is_last:
            return True
        words, splits = served.reply, served.reply_splits
        if self._reads_rows:
            words, splits = self._exchange_rows(words, splits)
        self._owes_rows = False
        library.lib.keras_sparse_end_round(
            courier=self.handle, words=words, splits=splits, own_words=served.own_reply
        )
        return False

    def close(self):
        library.lib.keras_sparse_close_rounds(courier=self.handle)

    def leave(self):
        _fail(self.handle, "this process ends")

    def _tell_all(self, error):
        """Makes an error that of the lookups which wait for a round, on all ranks."""
        blocks = _fail(self.handle, f"{type(error).__name__}: {error}")
        if self._exchange_rows is None:
            return  # it has not come so far that it could tell others
        if self._owes_rows:
            self._exchange_rows(blocks.words, blocks.splits)
        self._exchange_ids(blocks.words, blocks.splits)


def _fail(handle, message):
    return library.lib.keras_sparse_fail_rounds(courier=handle, message=message)
