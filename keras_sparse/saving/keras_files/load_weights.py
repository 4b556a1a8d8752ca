import functools
import pathlib
import warnings

from keras_sparse.optimizers.support.started_mean import forget_started_mean
from keras_sparse.optimizers.support.step_count import accumulation
from keras_sparse.saving.format.external_tables import are_tables_external
from keras_sparse.saving.format.file_context import file_context
from keras_sparse.saving.format.file_context import in_file_context
from keras_sparse.saving.keras_files.dense_values import DenseValues
from keras_sparse.saving.keras_files.load_table import load_table
from keras_sparse.saving.keras_files.local_copy import local_copy
from keras_sparse.saving.keras_files.named_load import explaining
from keras_sparse.saving.keras_files.named_load import named_load
from keras_sparse.saving.keras_files.verify_file import verify_file
from keras_sparse.tables.tables_of import tables_of
from keras_sparse.utils import checks


def verifying(load_weights):
    """Makes `load_weights` of Keras load all of a file into a model with tables, or nothing.

    Keras loads layer by layer, and what it cannot load it finds when it comes to it: the tables
    before are loaded then. So all tables are checked first. Then Keras loads the file once while
    tables only see whether they could be loaded; if anything fails, all else gets back
    what it had. Then it loads the file. With `grow=True` tables may have more rows than the saved
    ones, or be dynamic. Layers that have other places in the file, and all with
    `skip_mismatch=True`, are loaded by their names.
    """

    @functools.wraps(load_weights)
    def load_verified(model, filepath, *args, grow=False, **kwargs):
        checks.boolean(grow, "grow")
        name = pathlib.Path(filepath).name
        if not tables_of(model) or not name.endswith((".weights.h5", ".weights.json", ".keras")):
            return load_weights(model, filepath, *args, **kwargs)
        is_growing = grow or file_context().is_growing
        with (
            local_copy(checks.path(filepath, "filepath")) as path,
            in_file_context(is_growing=is_growing),
        ):
            verify_file(path)
            if are_tables_external():  # whoever loads them restores the other variables
                return load_weights(model, path, *args, **kwargs)
            with in_file_context(verified=path.resolve()):
                if not _load_by_names(model, path, *args, **kwargs):
                    _load_by_order(load_weights, model, path, *args, **kwargs)
        _go_back_to_update(model)
        return None

    return load_verified


def _load_by_names(model, path, skip_mismatch=False, objects_to_skip=None, **unknown):
    """Loads a file by names where that is asked for, or needed; returns whether it did."""
    with named_load(model, path, objects_to_skip) as named:
        if named is None or unknown or not (skip_mismatch or named.moved()):
            return False
        before = DenseValues(model)
        try:
            tables, report = named.load(_check_table)
            if not skip_mismatch:
                named.check_complete(report, path)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the check has shown them
                for table, place in tables:
                    load_table(table, named.store.get(place))
        except BaseException:
            before.restore()
            raise
    report.warn()
    return True


def _check_table(table, store):
    with in_file_context(is_rehearsal=True):
        load_table(table, store)


def _load_by_order(load_weights, model, path, *args, **kwargs):
    with explaining(model, path):
        _rehearse(load_weights, model, path, *args, **kwargs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the rehearsal has shown them
        load_weights(model, path, *args, **kwargs)


def _go_back_to_update(model):
    """Drops the started mean of dense variables, which a file may have: tables have none of it."""
    optimizer = getattr(model, "optimizer", None)
    steps, count = (1, 0) if optimizer is None else accumulation(optimizer)
    tables = [each for each in tables_of(model) if each.accumulated is not None]
    if count % steps or any(len(each.accumulated) for each in tables):  # of tables left out, too
        forget_started_mean(optimizer, tables)
        warnings.warn(
            "Weights must be loaded between two updates, or a checkpoint be loaded, which has all "
            "accumulated gradients. The gradients since the last update are dropped. "
            f"Received: {count % steps} of {steps} steps accumulated",
            stacklevel=3,
        )


def _rehearse(load_weights, model, *args, **kwargs):
    before = DenseValues(model)
    try:
        with in_file_context(is_rehearsal=True):
            load_weights(model, *args, **kwargs)
    except BaseException:
        before.restore()
        raise
