from typing import Any

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.runtime import folder_of_rank
from keras_sparse.storage.clear_rank_folders import clear_rank_folders
from keras_sparse.storage.storage_option import StorageOption
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.initial_rows import native_initial_rows
from keras_sparse.tables.initial_rows import resolve_seed
from keras_sparse.tables.initial_rows import rows_in_chunks
from keras_sparse.tables.initial_rows import seeded
from keras_sparse.tables.packed_records import packed_records
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.saved_files import SavedFiles
from keras_sparse.tables.table import RowMetadata
from keras_sparse.tables.table import RowPiece
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


class NativeTable:
    """A native table, what it was made of, and the rule that its optimizer has given it.

    Of a table that ranks share it has this rank's part, and counts ids as that does.

    Args:
        config: `TableConfig`.

    Attributes:
        native: Handle of the native table: `None` until `create`.
        rule, rule_constants, rule_weight_decay: What an optimizer has given to `set_rule`.
        rule_generation: Integer. How often one has.
        rule_owner: Weak reference to that optimizer, or `None`.
        record_floats: Integer. Width of a row and its slots.
        saved_state: `LastSaved` of `saving.save_checkpoint`, or `None`.
        loaded_state: `LoadedState` of `saving.load_checkpoint`, or `None`.
    """

    def __init__(self, config):
        self.config = config
        self.path = config.name
        self.part = config.part
        self.input_dim = config.input_dim
        self.output_dim = config.output_dim
        self.out_of_range = config.out_of_range
        self.storage = config.storage or StorageOption()
        self.admission = config.admission
        self.eviction = config.eviction
        self.max_rows = config.max_rows
        self.frequency = config.frequency
        self.dtypes = config.dtypes
        self.initializer = seeded(config.initializer, config.seed)
        # Of the whole table, as a file says them too.
        self.initial_rows: Any = self._describe_initial_rows(config.seed)
        self.native: Any = None
        self._owner: Any = None
        self.rule: str | None = None
        self.rule_constants: dict[str, float] = {}
        self.rule_weight_decay = 0.0
        self.rule_generation = 0
        self.rule_owner: Any = None
        self.slot_names: tuple[str, ...] = ()
        self.record_floats = self.output_dim
        self.saved_state: Any = None
        self.saved_files = SavedFiles()
        self.loaded_state: Any = None

    def _describe_initial_rows(self, seed):
        seed = resolve_seed(self.initializer, seed)
        input_dim, output_dim = self.whole_shape()
        rows = native_initial_rows(self.initializer, input_dim, output_dim, seed)
        # Whether the native table cannot make them itself.
        self._imports_initial_rows = rows is None
        return InitialRows("constant", 0.0, 0.0, seed) if rows is None else rows

    def create(self, path):
        """Makes the native table.

        Args:
            path: String. Name of the table in messages.
        """
        self.path = path
        folder = self.storage.storage_path
        if folder is not None:
            clear_rank_folders(folder)
        (self.native,) = native.create_tables(
            [path],
            [self.input_dim],
            [self.output_dim],
            [self._of_part(self.initial_rows)],
            [self.out_of_range],
            [self.storage],
            [self.metadata],
            ["" if folder is None else folder_of_rank(folder)],
            [(0, 1) if self.part is None else (self.part.shard, self.part.num_shards)],
            [self.dtypes],
        )
        self._owner = native.Owner(self.native)
        if self.admission is not None:
            native.set_filter([self], self.admission)
        if self.max_rows is not None:
            native.set_row_limit([self], self.max_rows, self.eviction)
        self._import_initial_rows()

    @property
    def is_dynamic(self):
        """True if the table takes any key, rather than the ids of a fixed range."""
        return self.input_dim is None

    @property
    def is_on_gpu(self):
        """True if rows are used in a GPU's memory."""
        return self.storage.is_on_gpu

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
    def metadata(self):
        """`RowMetadata`: what the table keeps of each row beside the row and its slots."""
        policy = self.eviction
        if policy is None:
            return RowMetadata(frequencies=self.frequency)
        unit = "seconds" if policy.ages_in_seconds else "steps"
        return RowMetadata(
            unit if policy.needs_ages else None, self.frequency or policy.needs_frequencies
        )

    @property
    def record_words(self):
        """Integer. Words of 4 bytes of a stored row and its slots."""
        packed = packed_records(self)
        return self.record_floats if packed is None else packed.words

    @property
    def rule_step(self):
        """Integer, the finished steps of the rule; `None` for a float32 table."""
        if self.dtypes.are_float32 or self.native is None:
            return None
        with tf.init_scope():
            return int(native.export_history([self])[0].step)

    @property
    def layout(self):
        """The `RecordLayout` of its records."""
        return RecordLayout(self.output_dim, self.slot_names)

    def whole_shape(self):
        """Returns `(input_dim, output_dim)` of the whole table, which this may have a part of."""
        whole = self if self.part is None else self.part
        return whole.input_dim, whole.output_dim

    def _of_part(self, initial_rows):
        return initial_rows if self.part is None else self.part.initial_rows(initial_rows)

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
        if self.layout.floats != self.record_floats:
            raise RuntimeError(
                "The widths of a rule's slots must be known to `tables/record_layout.py`, which "
                f"takes columns out of records. Received: rule='{rule}' with slots "
                f"{self.slot_names} in records of {self.record_floats} floats, not "
                f"{self.layout.floats}"
            )

    @property
    def accumulated(self):
        """`AccumulatedRows` that the optimizer keeps of this table, or `None`."""
        owner = None if self.rule_owner is None else self.rule_owner()
        return None if owner is None else owner.accumulated_rows(self)

    def forget_accumulated(self, keys=None):
        """Lets the optimizer forget gradients of rows that are replaced, or of some that go."""
        if (accumulated := self.accumulated) is not None:
            accumulated.drop(keys)

    def export_local(self, chunk_rows):
        """Yields all rows, each time a `RowPiece`, with the ids of static rows counted here."""
        cursors = np.zeros(1, np.int64)
        while cursors[0] >= 0:
            with tf.init_scope():
                *lists, cursors = native.export_rows([self], cursors, chunk_rows)
            cursors = cursors.numpy()
            keys, records, *kept = (each.numpy() for (each,) in lists)
            if len(keys):
                yield RowPiece(keys, records, *(each if len(each) else None for each in kept))

    def export_filter(self, max_entries):
        cursors = np.zeros(1, np.int64)
        while self.admission is not None and cursors[0] >= 0:
            with tf.init_scope():
                keys, counts, cursors = native.export_filter([self], cursors, max_entries)
            cursors = cursors.numpy()
            if len(keys[0]):
                yield keys[0].numpy(), counts[0].numpy()

    def import_local(self, keys, records, ages=None, frequencies=None):
        """Imports rows that are this part's, with the ids of static ones counted here."""
        native.import_rows(
            [self],
            [tf.convert_to_tensor(keys, tf.int64)],
            [tf.convert_to_tensor(records, tf.float32)],
            None if ages is None else [tf.convert_to_tensor(ages, tf.uint32)],
            None if frequencies is None else [tf.convert_to_tensor(frequencies, tf.uint32)],
        )

    def _import_initial_rows(self):
        if not self._imports_initial_rows:
            return
        input_dim, output_dim = self.whole_shape()
        # A part is cut out of the whole table, whose shape an initializer may look at.
        chunk_rows = max(1, CHUNK_BYTES // (4 * output_dim))
        for first, rows in rows_in_chunks(self.initializer, input_dim, output_dim, chunk_rows):
            if self.part is not None:
                first, rows = self.part.cut(first, rows)
            self.import_local(np.arange(first, first + len(rows)), rows)

    def set_initial_rows(self, initial_rows):
        """Changes what keys without a row read as.

        Args:
            initial_rows: `keras_sparse.tables.initial_rows.InitialRows` of the whole table.
        """
        if initial_rows != self.initial_rows:
            native.set_initial_rows([self], [self._of_part(initial_rows)])
            self.initial_rows = initial_rows

    def take_initial_rows(self, other):
        """Lets keys without a row, and a cleared table, read as those of another table."""
        self.initializer = other.initializer
        self._imports_initial_rows = other._imports_initial_rows
        self.set_initial_rows(other.initial_rows)

    def clear(self):
        """Takes the table back to before training: no rows, or each row its initial one."""
        native.clear_tables([self])
        self.forget_accumulated()
        self._import_initial_rows()
