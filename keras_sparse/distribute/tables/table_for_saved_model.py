import itertools
from typing import Any

from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import raise_on_all_ranks
from keras_sparse.distribute.tables.distributed_table import DistributedTable
from keras_sparse.saved_model.saved_model_scope import current_save
from keras_sparse.saved_model.saved_table import HasSavedTable

# Tables are made in the same order on all ranks, so that these numbers are the same too.
_numbers = itertools.count()


class TableForSavedModel(HasSavedTable):
    """A table that ranks have parts or copies of, as a SavedModel of rank 0 has it: whole.

    It is to a `SavedTable` what a `LocalTable` is. Rank 0 alone reads it, piece by piece,
    and only within `read_together`, where the other ranks take part in what it asks for.

    Args:
        name: String, the same on all ranks.
        table: `DistributedTable`, or `LocalTable` for a table that each rank has all of.
        options: `Embedding` with the options of the table.

    Attributes:
        number: Integer, the same on all ranks, of this table alone.
    """

    def __init__(self, name, table, options):
        self.number = next(_numbers)
        self.path = name
        self.input_dim = options.input_dim
        self.output_dim = options.output_dim
        self.out_of_range = options.out_of_range
        self.is_dynamic = options.input_dim is None
        self._is_distributed = isinstance(table, DistributedTable)
        self._table = table
        self._whole: Any = None  # its `TableDescription`, within `read_together`
        self._pieces: Any = iter(())

    # What keys without a row read as. All ranks have a part of a dynamic table, and know it.

    @property
    def initial_rows(self):
        return self._table.local.initial_rows

    @property
    def admission(self):
        return self._table.local.admission

    # What rank 0 reads.

    @property
    def num_rows(self):
        return self._description().num_rows

    @property
    def record_floats(self):
        return self._description().layout.floats

    @property
    def metadata(self):
        return self._description().metadata

    def export(self, chunk_rows, with_ages=False, with_frequencies=False):
        """Does what `Table.export` does; records may have rows alone."""
        self._description()
        if not self._is_distributed:
            yield from self._table.export(chunk_rows, with_ages, with_frequencies)
            return
        request = chunk_rows, with_ages, with_frequencies
        broadcast_object(request, 0, "keras_sparse.export.request")
        self._pieces = self._gathered(*request)
        # In a chain, which is not closed with this: where what asks for pieces fails, the others
        # are gone through all the same, as other ranks do.
        yield from itertools.chain(self._pieces)

    def read_together(self):
        """Lets rank 0 read the table for the SavedModel that it writes. All ranks must call it."""
        self._whole = self._table.describe()
        failure = None
        try:
            if rank() == 0:
                self.saved_table.content.read()
        except Exception as error:
            failure = error
        if self._is_distributed:
            later = self._end_reading() if rank() == 0 else self._take_part()
            failure = failure or later
        raise_on_all_ranks(failure, "keras_sparse.export.read")

    def forget(self):
        """Ends what `read_together` has begun."""
        self._whole = None

    def _description(self):
        current_save()  # another one than that of `read_together` is an error
        return self._whole

    def _gathered(self, chunk_rows, with_ages, with_frequencies):
        if self.is_dynamic:  # of which each rank gives as many
            pieces = self._table.export_pieces(max(1, chunk_rows // size()))
            return (piece.selected(with_ages, with_frequencies) for piece in pieces)
        return self._table.export_rows(chunk_rows)

    def _end_reading(self):
        """Goes to the end of what has been asked for, and lets the other ranks go on.

        Returns the error of that, or `None`.
        """
        failure = _go_through(self._pieces)
        self._pieces = iter(())
        broadcast_object(None, 0, "keras_sparse.export.request")
        return failure

    def _take_part(self):
        """Takes part in what rank 0 asks for. Returns the error of that, or `None`."""
        failure = None
        while request := broadcast_object(None, 0, "keras_sparse.export.request"):
            failure = _go_through(self._gathered(*request)) or failure
        return failure


def _go_through(pieces):
    try:
        for _ in pieces:
            pass
    except Exception as error:
        return error
    return None
