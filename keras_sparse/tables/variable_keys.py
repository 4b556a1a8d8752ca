from typing import Any

import numpy as np
import tensorflow as tf

from keras_sparse import native
from keras_sparse.tables.find_result import FindResult
from keras_sparse.tables.keyed_arrays import as_keys
from keras_sparse.tables.keyed_arrays import as_records
from keras_sparse.tables.keyed_arrays import check_range
from keras_sparse.tables.record_layout import RecordLayout
from keras_sparse.tables.table_part import TablePart
from keras_sparse.tables.variable_rows import VariableRows


class VariableKeys(VariableRows):
    """Rows of an embedding variable by hand: by their keys, beside training.

    Each method is one operation on the table: a step beside it comes before it or after it. They
    are called outside of a `tf.function`.

    A variable with a part of a table that is spread over ranks knows of the keys whose rows this
    rank owns: it says of others that they are not there, with zeros for rows, and leaves them out
    of what is written. The layer's methods of these names have all ranks take part, and give all of
    them the whole answer.
    """

    out_of_range: str
    slot_names: tuple[str, ...]
    saved_files: Any

    def contains(self, keys):
        """Says which keys have a row, in any tier.

        Args:
            keys: List, array or tensor of integers of shape `(n,)`; repeats are fine.

        Returns:
            Boolean array of shape `(n,)`. Every id in the range of a static table has a row, none
            outside has.
        """
        keys, held = self._keys_here(keys, "contains")
        exist = np.zeros(len(held), bool)
        with tf.init_scope():
            exist[held] = native.have_rows([self], [tf.constant(keys)])[0].numpy()
        return exist

    def find(self, keys):
        """Reads the rows of keys, with their slots. It makes no row, and is no lookup.

        Args:
            keys: As of `contains`.

        Returns:
            `keras_sparse.tables.find_result.FindResult`: `exist`, whether each key has a row;
            `rows`, as a lookup reads them, with the moves of steps that they have missed; `slots`,
            a dict by name. A key without a row has its initial row, or the default of the table's
            admission filter, and slots as a new row begins with them.

        Raises:
            ValueError: An id is outside a static table. With `out_of_range="zero"` it has zeros.
        """
        exist, records = self.find_records(keys)
        layout = RecordLayout(self.output_dim, self.slot_names)
        return FindResult(exist, *layout.split(records))

    def find_records(self, keys):
        """Returns `(exist, records)` of `find`: a record is the row, then its slots."""
        keys, held = self._keys_here(keys, "find", self.out_of_range == "zero")
        exist = np.zeros(len(held), bool)
        with tf.init_scope():
            of_keys, records = native.read_rows([self], [tf.constant(keys)])
        exist[held] = of_keys[0].numpy()
        if held.all():
            return exist, records[0].numpy()
        all_records = np.zeros((len(held), records[0].shape[1]), np.float32)
        all_records[held] = records[0].numpy()
        return exist, all_records

    def assign(self, value, rows=None, slots=None):
        """Writes rows of keys, or with one argument, as in Keras, all rows of a static table.

        Rows that are not there are made, whatever `admission` and `max_rows` say, as where rows are
        loaded. Their age is 0.

        Args:
            value: Keys, as of `contains`; the last row of a repeated key stays. Without `rows`: an
                array, tensor or static `EmbeddingVariable` of shape `(input_dim, output_dim)`.
            rows: List, array or tensor of numbers of shape `(n, output_dim)`. Defaults to `None`.
            slots: Dict of such by the names of all slots, as `find` gives it. Defaults to `None`:
                slots stay as they are, and a new row has initial ones.

        Raises:
            ValueError: Shapes do not fit, or an id is outside a static table. Nothing has changed.
            TypeError: Keys are no integers, or rows no numbers.
        """
        if rows is None:
            if slots is not None:
                raise ValueError("`slots` must be given with `rows`. Received: rows=None")
            return super().assign(value)
        layout = RecordLayout(self.output_dim, self.slot_names)
        keys, held = self._keys_here(value, "assign")
        records = as_records(len(held), rows, slots, layout)
        self.import_local(TablePart.of_whole(self).local_ids(keys), records[held])
        return None

    def erase(self, keys):
        """Drops the rows of keys of a dynamic table, from all tiers, as if they had never been.

        Their slots go too, what is fetched ahead of them, and what an admission filter has counted
        of a key that waits for its row (not a `CBFFilter`, whose counters many keys share). The
        next checkpoint is without them, and the next delta tells whoever loads it that they are
        gone. A key that comes again begins anew.

        Args:
            keys: As of `contains`. Keys without a row are left out.

        Raises:
            NotImplementedError: The table is static.
        """
        if self.input_dim is None:
            keys, _ = self._keys_here(keys, "erase")
            with tf.init_scope():
                native.erase_rows([self], [tf.constant(keys)])
            self.forget_accumulated(tf.constant(keys))
            return
        raise NotImplementedError(
            "Rows must be erased from a dynamic table, as every id of a static one has its row. "
            "Write others over them: `assign(ids, rows, slots)`. Received: variable "
            f"'{self.path}' with input_dim={self.input_dim}"
        )

    def compact(self):
        """Leaves no byte of rows that have gone in the files of this table's tiers.

        A row that was erased or evicted, has moved up, or was replaced may lie in the files of
        lower tiers until they are written over. After this call none does that had gone before it.
        And no file that the table was saved to, or loaded from, is linked any more: the next
        checkpoint is of new files. Those of checkpoints, deltas and models that were saved before
        are left as they are, and memory that is free is not cleared.

        `SSDHASH` writes segments with such rows anew, one at a time, and `LEVELDB` all its rows
        where there is one, beside the old ones; `PMEM` fills places with zeros. Steps of the table
        wait for it. A table without files, and a static one, has none but the links to forget.

        Raises:
            tf.errors.ResourceExhaustedError: The disk has no room to write rows anew.
            tf.errors.DataLossError: Rows beside those that have gone cannot be read. As after every
                error, no row is lost, and some files may be as they were: call again.
        """
        self._check_eager("compact")
        with tf.init_scope():
            native.compact_tables([self])
        self.saved_files.forbid_links()

    def _check_eager(self, method):
        if not tf.executing_eagerly():
            raise RuntimeError(
                f"`{method}` must be called outside of a `tf.function`, between two steps. "
                f"Received: variable '{self.path}'"
            )

    def _keys_here(self, keys, method, takes_any=False):
        """Returns the keys that this part owns, and a boolean array: whether it owns each."""
        self._check_eager(method)
        keys = as_keys(keys)
        part: Any = TablePart.of_whole(self)
        held = part.holds(keys)
        if method == "contains" and part.input_dim is not None:
            held &= (keys >= 0) & (keys < part.input_dim)
        elif not takes_any:
            check_range(keys, part.input_dim, self.path)
        return keys[held], held
