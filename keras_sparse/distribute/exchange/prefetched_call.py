import collections

import tensorflow as tf

from keras_sparse.distribute.exchange.exchange_call import ExchangeCall
from keras_sparse.distribute.ranks.collectives import alltoall
from keras_sparse.native import library

# How ranks go on, as KerasSparseAgreeOnLookup gives it.
_ALL_STAGED = 0
_ALL_REQUESTS = 1

# What KerasSparseServeRows gives.
_Served = collections.namedtuple(
    "_Served", ("reply", "reply_splits", "own_reply", "served_rows", "ids", "row_splits")
)


class PrefetchedCall(ExchangeCall):
    """A lookup over ranks that uses what a stage has made ready, where all ranks have it.

    A rank whose lookup has had its round sends the others their rows at once, as they asked for
    them in that round; one whose lookup has not sends its ids, as always. What came says to all
    ranks alike which of these it was on each. Where all have rows, that is all. Where all sent ids,
    rows follow. Where ranks differ, and that is rare, all of them begin again with ids.
    """

    def _exchange(self, name, joined):
        lookup = library.lib.keras_sparse_begin_lookup(
            area=self.area,
            handles=self.handles,
            pools=self.pools,
            **self.inputs(),
            are_joined=joined,
            **self.layout.attributes,
        )
        words, splits = alltoall(lookup.first_words, lookup.first_splits, f"{name}.ids")
        first = {"words": words, "splits": splits, "own_words": lookup.first_own_words}
        layout = {k: v for k, v in self.layout.attributes.items() if k != "wire_dtype"}
        outcome = library.lib.keras_sparse_agree_on_lookup(step=lookup.step, **first, **layout)

        def staged():
            num_parts = len(self.handles)
            reply = library.lib.keras_sparse_staged_reply(
                area=self.area, step=lookup.step, **first, P=num_parts
            )
            return _Served(*reply), reply.reply, reply.reply_splits

        def begun_again():
            return alltoall(lookup.words, lookup.splits, f"{name}.ids_again")

        def served_now():
            words, splits = tf.cond(
                tf.equal(outcome, _ALL_REQUESTS),
                lambda: (first["words"], first["splits"]),
                begun_again,
            )
            served = self._serve(words, splits, lookup.own_words, False)
            words, splits = alltoall(served.reply, served.reply_splits, f"{name}.rows")
            return _Served(*served), words, splits

        served, words, splits = tf.cond(tf.equal(outcome, _ALL_STAGED), staged, served_now)
        if self.on_gpu:  # rows come to the CPU, as those that were made ready do
            served = served._replace(own_reply=tf.bitcast(served.own_reply, tf.float32))
            words = tf.bitcast(words, tf.float32)
        return lookup, served, words, splits
