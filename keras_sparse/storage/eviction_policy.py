import keras

from keras_sparse.utils import checks


class EvictionPolicy:
    """Base class of eviction policies, which decide which rows leave a dynamic table.

    Rows are evicted by `layer.evict()`, by the callback `EvictRows`, when the table is saved, or
    when an update would exceed the table's `max_rows`. They leave all tiers with their slots. A key
    that is trained again starts anew.

    Args:
        at_save: Boolean. Whether rows are also evicted each time the table is saved, just before it
            is written, so that file and model have the same rows. Defaults to `True`.
    """

    kind = ""  # the native policy's name
    needs_ages = False  # whether the table must remember when rows had their last gradient
    ages_in_seconds = False  # whether these ages are seconds, rather than training steps
    needs_frequencies = False  # whether it must count the steps in which they had one
    needs_limit = False  # whether it evicts only rows beyond the table's `max_rows`

    def __init__(self, at_save=True):
        self.at_save = checks.boolean(at_save, "at_save")

    def constants(self):
        """Returns the numbers that the native policy takes, by name."""
        return {}

    def get_config(self):
        """Returns the arguments as a serializable dict."""
        return {"at_save": self.at_save, **self.constants()}

    @classmethod
    def from_config(cls, config):
        """Creates the policy that `get_config` describes."""
        return cls(**config)


def check_eviction(eviction, input_dim, max_rows=None):
    """Returns the policy of a table, or `None`; also deserializes a config."""
    if isinstance(eviction, dict):
        eviction = keras.saving.deserialize_keras_object(eviction)
    if eviction is None:
        return None
    if not isinstance(eviction, EvictionPolicy):
        raise TypeError(
            "`eviction` must be a policy of keras_sparse.storage, like "
            f"keras_sparse.GlobalStepEvict(100_000). Received: eviction={eviction!r}"
        )
    if input_dim is not None:
        raise ValueError(
            "`eviction` must be used with a dynamic table: all ids of a static one keep their "
            "rows. Pass input_dim=None, or leave `eviction` out. Received: "
            f"input_dim={input_dim} with eviction={type(eviction).__name__}"
        )
    if eviction.needs_limit and max_rows is None:
        raise ValueError(
            f"`eviction` of class {type(eviction).__name__} must be used with `max_rows`, within "
            "which it keeps the table. Pass it: Embedding(None, ..., max_rows=10_000_000). "
            "Received: max_rows=None"
        )
    return eviction
