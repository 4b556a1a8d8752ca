import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy


@keras.saving.register_keras_serializable(package="keras_sparse")
class LruEvict(EvictionPolicy):
    """Evicts the rows with the oldest last gradient to keep a table within `max_rows`.

    Before a training step would exceed `max_rows`, it evicts as many rows as it needs: those whose
    last training step is oldest, and among rows of one step those with the lowest keys. Rows with a
    gradient in the step stay. So a step never fails for lack of room if its own keys are at most
    `max_rows`. The evicted rows depend on the steps alone, not on tiers, threads, or a resumed
    training. Over ranks, each rank makes room for its own rows.

    `layer.evict()`, the callback `EvictRows` and saving evict the rows in excess of `max_rows`,
    which a table can have after loading a larger one.

    The table stores the step of each row in 4 bytes. Ages are saved with the table; a row imported
    without an age has age 0.

    Args:
        at_save: Boolean. Whether rows in excess of `max_rows` are also evicted each time the table
            is saved. Defaults to `True`.

    Example:
    >>> eviction = keras_sparse.LruEvict()
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction, max_rows=10_000_000)
    """

    kind = "lru"
    needs_ages = True
    needs_limit = True
