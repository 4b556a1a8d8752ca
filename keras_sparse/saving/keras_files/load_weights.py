import functools
import warnings

import keras

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
from keras_sparse.saving.keras_files.verify_file import check_file
from keras_sparse.saving.keras_files.verify_file import verify_file
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks


def load_weights(
    model, filepath, skip_mismatch=False, grow=False, objects_to_skip=None, verify=True
):
    """Loads weights as `model.load_weights` does, also into larger tables.

    Args:
        model: Built `keras.Model`.
        filepath: Path or URL of a `.weights.h5`, `.weights.json` or `.keras` file.
        skip_mismatch: Boolean. Whether to load by names what file and model have in common, with a
            warning that lists the rest. Defaults to `False`.
        grow: Boolean. Whether a table may have more rows than the saved one, or be dynamic if the
            saved one was static. Rows that were not saved are initial rows. Defaults to `False`.
        objects_to_skip: List of layers to leave unchanged. Defaults to `None`.
        verify: Boolean. Whether to read all tables once before one changes, so that a damaged file
            leaves the model unchanged. If `False`, each byte is read once and checked then: a
            damaged chunk raises `ValueError` after the tables before it, and rows of its own table,
            were loaded. Defaults to `True`.

    Raises:
        ValueError: The file is damaged, or a table has another shape or kind than the saved one.

    Example:
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "items.weights.h5")
    >>> def catalogue(num_items):
    ...     layer = keras_sparse.layers.Embedding(num_items, 4, "sum")
    ...     return keras.Sequential([keras.Input((2,), dtype="int64"), layer])
    >>> catalogue(1000).save_weights(path)
    >>> keras_sparse.saving.load_weights(catalogue(1500), path, grow=True)
    """
    options = {} if objects_to_skip is None else {"objects_to_skip": objects_to_skip}
    with in_file_context(
        is_growing=checks.boolean(grow, "grow"), verifies=checks.boolean(verify, "verify")
    ):
        keras.saving.load_weights(model, filepath, skip_mismatch, **options)


def loading_whole(load_weights_only):
    """Wraps Keras' load function to load a file into a model wholly or not at all.

    Keras loads layer by layer and finds a mismatch only when it reaches the layer, after tables
    before it were loaded. So all tables are checked first. Then Keras loads the file once while
    tables only check whether they could be loaded, and an error restores all other values. Then
    Keras loads the file. Layers at other places in the file, and all layers with
    `skip_mismatch=True`, are loaded by their names.
    """

    @functools.wraps(load_weights_only)
    def load(model, filepath, skip_mismatch=False, objects_to_skip=None):
        options = {"skip_mismatch": skip_mismatch, "objects_to_skip": objects_to_skip}
        if not model.built or not tables_of(model):
            load_weights_only(model, filepath, **options)
            return
        with local_copy(checks.path(filepath, "filepath")) as path:
            (verify_file if file_context().verifies else check_file)(path)
            if are_tables_external():  # whoever loads them restores the other variables
                load_weights_only(model, path, **options)
                return
            with in_file_context(verified=path.resolve()):
                if not _load_by_names(model, path, **options):
                    _load_by_order(load_weights_only, model, path, **options)
        _go_back_to_update(model)

    return load


def _load_by_names(model, path, skip_mismatch, objects_to_skip):
    """Loads a file by names if requested or needed, and returns whether it did."""
    with named_load(model, path, objects_to_skip) as named:
        if named is None or not named.is_needed(skip_mismatch, path):
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


def _load_by_order(load_weights_only, model, path, **options):
    before = DenseValues(model)
    try:
        with explaining(model, path), in_file_context(is_rehearsal=True):
            load_weights_only(model, path, **options)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the rehearsal has shown them
            load_weights_only(model, path, **options)
    except BaseException:
        before.restore()
        raise


def _go_back_to_update(model):
    """Drops the accumulated gradients of dense variables, which tables lack."""
    optimizer = getattr(model, "optimizer", None)
    steps, count = (1, 0) if optimizer is None else accumulation(optimizer)
    tables = [each for each in tables_of(model) if each.accumulated is not None]
    if count % steps or any(len(each.accumulated) for each in tables):  # of tables left out, too
        forget_started_mean(optimizer, tables)
        warnings.warn(
            "Weights must be loaded between two updates; a checkpoint also restores accumulated "
            "gradients. The gradients since the last update are dropped. Received: "
            f"{count % steps} of {steps} steps accumulated",
            stacklevel=6,  # who calls `model.load_weights`
        )
