import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy


@keras.saving.register_keras_serializable(package="keras_sparse")
class LfuEvict(EvictionPolicy):
    """Evicts the least frequently trained rows to keep a table within `max_rows`.

    Before a training step would exceed `max_rows`, it evicts as many rows as it needs: those with a
    gradient in the fewest steps, among equally frequent rows those whose last training step is
    oldest, and among rows of one step those with the lowest keys. Rows with a gradient in the step
    stay. A key that is trained again after its eviction counts from 1.

    Rows in constant use stay even when many keys appear once in between, which would evict them
    with `LruEvict`. Rows that were frequent long ago stay too: use `LruEvict` where interests
    change.

    The table stores the number of steps and the last step of each row in 8 bytes. Both are saved
    with the table; rows imported without a number have 0.

    Args:
        at_save: Boolean. Whether rows in excess of `max_rows` are also evicted each time the table
            is saved. Defaults to `True`.

    Example:
    >>> eviction = keras_sparse.LfuEvict()
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction, max_rows=10_000_000)
    """

    kind = "lfu"
    needs_ages = True
    needs_frequencies = True
    needs_limit = True
