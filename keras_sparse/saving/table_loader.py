import numpy as np

from keras_sparse import ops
from keras_sparse.saving.load_table import check_fits
from keras_sparse.saving.load_table import has_same_slots
from keras_sparse.saving.load_table import may_load_filter


class TableLoader:
    """Loads one table of a checkpoint.

    A table with the rule of the saved one, and its constants, takes over the records as they lay,
    and the rule's history: it goes on bit for bit as if it had never stopped, and what it was
    loaded from need not be saved again. Another one is given rows that have caught up, and slots if
    they are the same.

    Args:
        variable: `EmbeddingVariable`.
        index: Integer: the table's number in the checkpoint.
        reader: `CheckpointReader`.
    """

    def __init__(self, variable, index, reader):
        self._variable = variable
        self._index = index
        self._reader = reader
        self._table = reader.manifest.tables[index]
        check_fits(variable, self._table)
        self.is_exact = _describe(variable) == (
            self._table.rule,
            self._table.rule_constants,
            self._table.rule_weight_decay,
            self._table.slot_names,
            self._table.keeps_ages,
        )

    def load(self, progress):
        """Loads rows, and what the admission filter remembers.

        Args:
            progress: `Progress` that counts records.
        """
        variable, reader = self._variable, self._reader
        variable.set_initial_rows(self._table.initial_rows)
        import_ = self._begin()
        for folder, part in reader.parts(self._index):
            erased = reader.read_erased(folder, part)
            if len(erased) > 0:
                ops.erase_rows([variable], [erased])
            for keys, raw in reader.read(self._index, folder, part):
                import_(keys, raw)
                progress.add(len(keys))
        if may_load_filter(variable, self._table):
            for keys, counts in reader.read_filter(self._index):
                ops.import_filter([variable], [keys], [counts])

    def _begin(self):
        """Clears the table, and returns the function that records are imported by."""
        history = self._reader.history(self._index)
        if self.is_exact:
            ops.restore(self._variable, history)
            return self._variable.import_
        ops.clear_tables([self._variable])
        return self._importer_of_rows(history)

    def _importer_of_rows(self, history):
        table = self._table
        width = None if has_same_slots(self._variable, table) else table.output_dim
        rule = None
        if table.rule is not None:
            rule = ops.SavedRule(
                table.rule,
                table.rule_constants,
                table.rule_weight_decay,
                table.output_dim,
                history,
                table.keeps_ages,
            )

        def import_(keys, raw):
            records = raw[:, : table.record_floats] if rule is None else rule.catch_up(raw)
            ages = None
            if table.keeps_ages:  # the last word of a record is the step of its last gradient
                steps = np.ascontiguousarray(raw[:, -1]).view(np.uint32)
                ages = np.uint32(history.table_step) - steps
            self._variable.import_(keys, records[:, :width], ages)

        return import_


def _describe(variable):
    """What two tables must have alike for records of one to be used by the other as they are."""
    return (
        variable.rule,
        variable.rule_constants,
        variable.rule_weight_decay,
        variable.slot_names,
        variable.keeps_ages,
    )
