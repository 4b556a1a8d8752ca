import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy


@keras.saving.register_keras_serializable(package="keras_sparse")
class LfuEvict(EvictionPolicy):
    """Makes room in a table of `max_rows`: the rows go that had a gradient in the fewest steps.

    As `LruEvict`, in another order: first the rows that were trained in the fewest steps, of
    equally frequent ones those whose last training step is the oldest, of rows of one step those
    with the lowest keys. A key that comes again after its row went counts from 1.

    Rows that are used all the time stay, also where many keys come once in between, which would
    push them out of a table with `LruEvict`. But what was used much long ago stays too: where
    interests move on, take `LruEvict`.

    The table remembers the number of steps and the last one of each row in 8 bytes. Both are saved
    with the table; rows that are imported without a number have 0.

    Args:
        at_save: Boolean. Whether rows beyond `max_rows` go each time the table is saved. Defaults
            to `True`.

    Example:
    >>> eviction = keras_sparse.LfuEvict()
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction, max_rows=10_000_000)
    """

    kind = "lfu"
    needs_ages = True
    needs_frequencies = True
    needs_limit = True
