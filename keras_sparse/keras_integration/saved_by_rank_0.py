"""How ranks write one SavedModel together."""

import functools

import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import check_agreement
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.distribute.tables.table_for_saved_model import TableForSavedModel
from keras_sparse.saved_model.saved_model_scope import traced_for_saved_model


def saved_by_rank_0(save):
    """Returns `tf.saved_model.save` that all ranks call together where tables are over ranks.

    Rank 0 writes. The others give it their parts of the tables before it begins to, and wait until
    it is done. An error of one rank is raised on all.
    """

    @functools.wraps(save)
    def saving(obj, *args, **kwargs):
        tables = [] if size() == 1 else _tables_of_ranks(obj)
        if not tables:
            return save(obj, *args, **kwargs)
        check_agreement(
            [(f"number {table.number}", f"('{table.path}')") for table in tables],
            "All ranks must export the same model, of layers that all have built in the same order",
            "exported_tables",
        )
        try:
            for table in tables:
                table.read_together()
            with errors_on_all_ranks("saved_model"):
                return save(obj, *args, **kwargs) if rank() == 0 else None
        finally:
            for table in tables:
                table.forget()

    return saving


@traced_for_saved_model
def _tables_of_ranks(obj):
    """Returns each `TableForSavedModel` of an object, in the order of all ranks."""
    cache: dict = {}

    class View(tf.train.TrackableView):
        @classmethod
        def children(cls, obj, save_type="savedmodel", **kwargs):
            return super().children(obj, save_type, cache=cache)

    # In an archive there are the variables that functions read, without their layers.
    finders = (getattr(each, "find_table", None) for each in View(obj).descendants())
    found = [find() for find in finders if find is not None]
    tables = {each.number: each for each in found if isinstance(each, TableForSavedModel)}
    return [tables[number] for number in sorted(tables)]
