import keras
import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.runtime import folder_of_rank
from keras_sparse.storage.storage_option import StorageOption
from keras_sparse.tables.gradient_anchor import make_gradient_anchor
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.initial_rows import native_initial_rows
from keras_sparse.tables.initial_rows import resolve_seed
from keras_sparse.tables.initial_rows import seeded
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.saved_files import SavedFiles
from keras_sparse.tables.saved_model_part import SavedModelPart
from keras_sparse.tables.table_config import LAYER_OPTIONS
from keras_sparse.tables.table_config import TableConfig
from keras_sparse.tables.unsupported_operations import UnsupportedOperations
from keras_sparse.tables.variable_keys import VariableKeys
from keras_sparse.tables.variable_statistics import variable_statistics


class EmbeddingVariable(SavedModelPart, UnsupportedOperations, VariableKeys, keras.Variable):
    """The Python face of a native table of embedding rows.

    To Keras it is a trainable variable: a layer tracks it, and `tape.gradient` gives
    `tf.IndexedSlices` for it. Its rows, and the optimizer's slots beside them, live in the native
    table. They are read by `keras_sparse.ops.lookup` and changed by the optimizers of
    `keras_sparse.optimizers` alone: what TensorFlow sees as its value is a small anchor for
    gradients, and computing with the variable itself is an error.

    A static table has a row for each id in `[0, input_dim)`. A dynamic one takes any int64 key: a
    lookup reads a key without a row as its initial row, the first gradient makes the row, and
    `admission` changes both.

    Args:
        input_dim: Integer, rows of a static table. `None` for a dynamic one.
        output_dim: Integer. Width of a row.
        initializer: `keras.initializers.Initializer`, its name or, for a static table, any
            callable. A row is a function of the seed and its key. Defaults to `"uniform"`.
        seed: Integer. Defaults to `None`: the initializer's seed, or else Keras' default, which
            `keras.utils.set_random_seed` makes reproducible.
        out_of_range: `"error"` or `"zero"`. What a lookup does with an id outside a static table.
            Defaults to `"error"`.
        storage: `keras_sparse.StorageOption`: the tiers of a dynamic table. Defaults to `None`,
            memory alone.
        admission: A filter of `keras_sparse.storage`, which says when a key of a dynamic table gets
            its row. Defaults to `None`: at its first gradient.
        eviction: A policy of `keras_sparse.storage`, which says what rows of a dynamic table
            `evict` lets go. Defaults to `None`: none.
        trainable: Boolean. Defaults to `True`.
        name: String. Defaults to `"embeddings"`.
        part: `keras_sparse.tables.table_part.TablePart`, which this variable holds of a table that
            several ranks share. `input_dim` and `output_dim` are then those of the part; the
            initializer and the seed make the rows of the whole table, of which this has its part,
            bit for bit. Defaults to `None`: a table of its own.
        max_rows: Integer: the most rows that a dynamic table may have in this process, in all
            tiers. Defaults to `None`: any number. See `keras_sparse.layers.Embedding`.
        frequency: Boolean. Whether a dynamic table counts in how many training steps each row had a
            gradient. Defaults to `False`. See `keras_sparse.layers.Embedding`.

    Example:
    >>> table = EmbeddingVariable(None, 8, initializer="zeros")
    >>> keras_sparse.ops.lookup([table], [tf.constant([-5, 2**62])])[0].shape
    TensorShape([2, 8])
    >>> table.num_rows
    0
    """

    def __init__(
        self,
        input_dim,
        output_dim,
        initializer="uniform",
        seed=None,
        out_of_range="error",
        storage=None,
        admission=None,
        eviction=None,
        trainable=True,
        name="embeddings",
        part=None,
        max_rows=None,
        frequency=False,
    ):
        config = TableConfig(
            input_dim,
            output_dim,
            initializer,
            seed,
            out_of_range,
            storage,
            admission,
            eviction,
            trainable,
            name,
            part,
            max_rows,
            frequency,
        )
        native.refuse_strategies("created")
        self.config = config
        for option in ("part", *LAYER_OPTIONS):
            setattr(self, option, getattr(config, option))
        self.storage = config.storage or StorageOption()
        self.initializer = seeded(config.initializer, config.seed)
        # Of the whole table, as a file says them too.
        self.initial_rows = self._describe_initial_rows(config.seed)
        self.native = None
        self._owner = None
        self.rule = None
        self.rule_constants = {}
        self.rule_weight_decay = 0.0
        self.slot_names = ()
        self.record_floats = self.output_dim
        self.rule_generation = 0
        self.rule_owner = None
        self.saved_state = None  # of `saving.save_checkpoint`
        self.saved_files = SavedFiles()
        self.loaded_state = None  # of `saving.load_checkpoint`
        super().__init__(
            initializer=self.initializer,
            shape=(self.input_dim or 0, self.output_dim),
            dtype="float32",
            trainable=config.trainable,
            autocast=False,
            name=config.name,
        )

    def _describe_initial_rows(self, seed):
        seed = resolve_seed(self.initializer, seed)
        input_dim, output_dim = self.whole_shape()
        rows = native_initial_rows(self.initializer, input_dim, output_dim, seed)
        self._imports_initial_rows = rows is None
        return InitialRows("constant", 0.0, 0.0, seed) if rows is None else rows

    # What Keras calls to give a variable its value, once there may be one.

    def _initialize_with_initializer(self, initializer):
        path = self.storage.storage_path
        with tf.init_scope():
            (self.native,) = native.create_tables(
                [self.path],
                [self.input_dim],
                [self.output_dim],
                [self._of_part(self.initial_rows)],
                [self.out_of_range],
                [self.storage],
                [self.metadata],
                ["" if path is None else folder_of_rank(path)],
                [(0, 1) if self.part is None else (self.part.shard, self.part.num_shards)],
            )
            self._owner = native.Owner(self.native)
            if self.admission is not None:
                native.set_filter([self], self.admission)
            if self.max_rows is not None:
                native.set_row_limit([self], self.max_rows, self.eviction)
            self._value = make_gradient_anchor(self)
            self._import_initial_rows()

    @property
    def value(self):
        """The anchor: a small `tf.Variable` that gradients of lookups arrive at."""
        return tf.zeros(()) if self._value is None else self._value

    @property
    def device(self):
        """The table's device. Functions of TensorFlow read it before they compute."""
        return self.value.device

    @property
    def is_on_gpu(self):
        """True if rows are used in a GPU's memory."""
        return self.storage.is_on_gpu

    @property
    def is_dynamic(self):
        """True if the table takes any key, rather than the ids of a fixed range."""
        return self.input_dim is None

    @property
    def num_rows(self):
        """Integer. Rows in the table now."""
        if not self.is_dynamic:
            return self.input_dim
        if self.native is None:
            return 0
        with tf.init_scope():
            return int(native.table_sizes([self])[0])

    @property
    def shape(self):
        return tf.TensorShape((self.num_rows, self.output_dim))

    def stats(self, frequencies=False):
        """Returns what is in the table and its tiers, and what they have done, as a dict.

        Args:
            frequencies: Boolean. Whether to read all rows, as `export`, to count `frequencies` too:
                of how many rows 0, 1, 2 to 3, 4 to 7, ... steps had a gradient, a dict by the least
                of these numbers; `None` if the table does not keep them. Defaults to `False`.

        Returns:
            `rows`; `bytes` of everything that holds them; `lookups`, ids looked up; `hits`, of
            these the ids that had a row; `created_rows`, made by a gradient; `out_of_range_ids`,
            read as zeros; `evicted_rows`, let go by the eviction policy; of the admission filter
            `filtered_ids`, gradients dropped, `waiting_keys` and `filter_bytes`, not among `bytes`:
            integers. `waited_seconds` that lookups and updates have waited for lower tiers: a
            float. `peak_first_tier_bytes`: the most that the first tier has held, also while an
            update needed more than its size. `tiers`: for each tier's name, from the first one
            down, a dict of integers and a float:

            - `rows` in it, `bytes` of everything there, and `memory_bytes` that a tier beyond
              memory takes of memory;
            - `hits` and `misses`: looked-up ids that the first tier had and had not; keys that a
              lower tier was asked for, once an op, and had and had not;
            - `promotions`: rows that came up into the first tier, or out of this one;
            - `demotions`: rows that went down out of the first tier, or into this one;
            - `read_bytes` and `write_bytes` of records, and `compacted_bytes` that compaction has
              moved;
            - `busy_seconds` that reading, writing and erasing rows of a lower tier have taken, in
              the background too.

            What lower tiers have done is counted since the table got its optimizer.
            `prefetch`: what became of the lookups that `keras_sparse.data.prefetch_lookups` has
            staged, where this is the first table of a lookup, as in most layers it is: `staged`,
            `used` and `dropped` ones; `missed` lookups since the first one that a step had to do
            by itself; `waited_seconds` that steps have waited for staged lookups, and
            `hidden_seconds` that these took beyond that; `staleness_max` and `staleness_mean`,
            updates that the used rows had missed.
        """
        return variable_statistics(self, frequencies)

    def evict(self, with_rows=False):
        """Lets go of the rows that the table's eviction policy names, in all tiers.

        Args:
            with_rows: Boolean. Whether to return the rows instead of their number. Defaults to
                `False`.

        Returns:
            Integer. How many rows went. With rows `(keys, records)`: arrays of int64, `(n,)`, and
            float32, `(n, record_floats)`, as `export` would have given them.

        Raises:
            ValueError: The table has no policy.
        """
        if self.eviction is None:
            raise ValueError(
                "`evict` must be called on a table with an eviction policy. Give it one: "
                "Embedding(None, ..., eviction=keras_sparse.GlobalStepEvict(100_000)). Received: "
                f"variable '{self.path}' without one"
            )
        if not tf.executing_eagerly():
            raise RuntimeError(
                "`evict` must be called outside of a `tf.function`. Call it between two steps, or "
                f"use `keras_sparse.ops.evict_rows`. Received: variable '{self.path}'"
            )
        if not with_rows:
            return int(native.evict_rows([self], self.eviction)[0])
        _, keys, records = native.evict_rows([self], self.eviction, with_rows=True)
        return keys[0].numpy(), records[0].numpy()

    def set_rule(self, rule, constants, weight_decay=0.0):
        """Gives the table an update rule, and its rows fresh slots. Optimizers call it when built.

        Args:
            rule: String. Name of a native rule.
            constants: Dict of floats: the rule's hyperparameters by name.
            weight_decay: Float. A step takes this part, times the learning rate, of the row.
        """
        generations, widths, slot_names = native.set_rule([self], rule, constants, [weight_decay])
        self.rule = rule
        self.rule_constants = {name: float(constant) for name, constant in constants.items()}
        self.rule_weight_decay = float(weight_decay)
        self.rule_generation = generations[0]
        self.record_floats = widths[0]
        self.slot_names = tuple(slot_names)
        known = RecordLayout(self.output_dim, self.slot_names).floats
        if known != self.record_floats:
            raise RuntimeError(
                "The widths of a rule's slots must be known to `tables/record_layout.py`, which "
                f"takes columns out of records. Received: rule='{rule}' with slots "
                f"{self.slot_names} in records of {self.record_floats} floats, not {known}"
            )

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.numpy(), dtype)

    def __repr__(self):
        rows = "dynamic" if self.is_dynamic else self.input_dim
        return f"<EmbeddingVariable path={self.path}, shape=({rows}, {self.output_dim})>"
