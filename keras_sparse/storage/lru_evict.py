import keras

from keras_sparse.storage.eviction_policy import EvictionPolicy


@keras.saving.register_keras_serializable(package="keras_sparse")
class LruEvict(EvictionPolicy):
    """Makes room in a table of `max_rows`: the rows go whose last gradient lies furthest back.

    A training step with new keys never fails for want of room, as long as its own keys are no more
    than `max_rows`. As many rows go as the step needs, before it changes one: first those whose
    last training step is the oldest, of rows of one step those with the lowest keys, and none that
    the step has a gradient for. Which rows these are depends on the steps alone, not on tiers,
    threads, or whether training was stopped and resumed in between. Over ranks each rank makes room
    for its own rows.

    `layer.evict()`, the callback `EvictRows` and saving let the rows go that are more than
    `max_rows`, as there may be after loading a larger table; as a rule there are none.

    The table remembers the step of each row in 4 bytes, as for `GlobalStepEvict`, which says what
    becomes of them in files.

    Args:
        at_save: Boolean. Whether rows beyond `max_rows` go each time the table is saved. Defaults
            to `True`.

    Example:
    >>> eviction = keras_sparse.LruEvict()
    >>> layer = keras_sparse.layers.Embedding(None, 64, eviction=eviction, max_rows=10_000_000)
    """

    kind = "lru"
    needs_ages = True
    needs_limit = True
