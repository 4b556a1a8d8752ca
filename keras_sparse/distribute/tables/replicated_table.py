from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.distribute.tables.agreed_arguments import agreed_keys
from keras_sparse.tables.table import Table


class ReplicatedTable(Table):
    """A table that each rank has all of, or one process alone.

    All ranks must call its methods together, with the same arguments, so that copies stay alike.

    Args:
        local: `LocalTable`.
    """

    def __init__(self, local):
        self._local = local
        self.input_dim = local.input_dim
        self.output_dim = local.output_dim

    @property
    def local(self):
        return self._local

    def describe(self):
        return self._local.describe()

    def contains(self, keys):
        return self._local.contains(agreed_keys("contains", keys))

    def find(self, keys):
        return self._local.find(agreed_keys("find", keys))

    def assign(self, keys, rows, slots=None):
        keys = agreed_keys("assign", keys)
        with errors_on_all_ranks("replicated_table.assign"):
            self._local.assign(keys, rows, slots)

    def erase(self, keys):
        keys = agreed_keys("erase", keys)
        with errors_on_all_ranks("replicated_table.erase"):
            self._local.erase(keys)

    def compact(self):
        with errors_on_all_ranks("replicated_table.compact"):
            self._local.compact()

    def checked_keys(self, method, keys):
        return agreed_keys(method, keys)

    def export_pieces(self, chunk_rows):
        return self._local.export_pieces(chunk_rows)

    def export_filter(self, max_entries):
        return self._local.export_filter(max_entries)
