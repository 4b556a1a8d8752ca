import collections
import contextlib
import dataclasses
import math
import pathlib

import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.saving.checkpoint.accumulation import note_unloaded
from keras_sparse.saving.checkpoint.accumulation import resume_accumulation
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.checkpoint_writer import check_model
from keras_sparse.saving.checkpoint.last_saved import LastSaved
from keras_sparse.saving.checkpoint.loaded_state import note_loaded
from keras_sparse.saving.checkpoint.seed_states import read_seed_states
from keras_sparse.saving.checkpoint.whole_checkpoint import check_checkpoint_together
from keras_sparse.saving.checkpoint.whole_checkpoint import checkpoint_at
from keras_sparse.saving.checkpoint.whole_checkpoint import checkpoint_of_all_ranks
from keras_sparse.saving.checkpoint.whole_checkpoint import WholeCheckpoint
from keras_sparse.saving.format.external_tables import external_tables
from keras_sparse.saving.format.external_tables import number_of
from keras_sparse.saving.format.file_context import in_file_context
from keras_sparse.saving.keras_files.dense_values import DenseValues
from keras_sparse.saving.keras_files.load_report import LoadReport
from keras_sparse.saving.keras_files.named_load import explaining
from keras_sparse.saving.keras_files.named_load import named_load
from keras_sparse.saving.table_format.table_fit import check_fits
from keras_sparse.saving.table_format.table_loader import TableLoader
from keras_sparse.tables.embedding_variable import tables_of
from keras_sparse.utils import checks
from keras_sparse.utils.progress_bar import Progress


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """Describes a checkpoint or delta. `load_checkpoint` returns it.

    Args:
        path: `pathlib.Path` of the folder.
        step: Integer. Number of optimizer steps when it was saved.
        training: Dict that was passed to `save_checkpoint`.
        is_delta: Boolean. Whether it is a delta.
        report: `LoadReport` of a load by names. Defaults to `None`: layers were loaded by their
            order.
    """

    path: pathlib.Path
    step: int
    training: dict
    is_delta: bool
    report: LoadReport | None = None

    @classmethod
    def of(cls, checkpoint, report=None):
        """Returns the description of a `WholeCheckpoint`."""
        manifest = checkpoint.manifest
        is_delta = manifest.base is not None
        return cls(checkpoint.folder, manifest.step, manifest.training, is_delta, report)

    @classmethod
    def read(cls, path):
        """Reads the description of a checkpoint or delta without loading it.

        Args:
            path: Path of a checkpoint or delta, or of a folder to use its latest one.

        Raises:
            FileNotFoundError: There is no checkpoint at `path`.
            ValueError: The checkpoint is damaged or of a later version.
        """
        path = checkpoint_at(path)
        manifest = Manifest.read(path)
        return cls(path, manifest.step, manifest.training, manifest.base is not None)


def load_checkpoint(model, path, verify=True, verbose=True, grow=False, skip_mismatch=False):
    """Loads a checkpoint, or a delta with everything it builds on, into a model.

    Tiers, their sizes and the cache strategy may differ from those of the saved tables. As with
    `model.load_weights`, slots are restored if the optimizer has the slots of the saved tables, and
    the state of an admission filter if it has the same kind, count and size. Gradients that were
    accumulated since the last update are restored with the saved optimizer and its
    `gradient_accumulation_steps`, and dropped with a warning otherwise.

    On several ranks, all ranks must call it together; their number may differ from that of the
    saving ranks.

    Args:
        model: Built `keras.Model` with the same layers. An unbuilt optimizer of a compiled model is
            built.
        path: Path of a checkpoint or delta, or of a folder of `callbacks.Checkpoint` to use its
            latest one.
        verify: Boolean. Whether to read everything once before a table changes, so that a damaged
            checkpoint leaves the model unchanged. Defaults to `True`.
        verbose: Boolean. Whether to show a progress bar if loading takes long. Defaults to `True`.
        grow: Boolean. Whether static tables may be loaded into larger ones and into dynamic ones.
            New ids have the initial rows of the model. Defaults to `False`.
        skip_mismatch: Boolean. Whether to load by names what checkpoint and model have in common
            and to keep the rest: layers, tables also in another layer such as a `GroupEmbedding`,
            and the optimizer's variables of both. Layers with automatic names are matched by order
            if their numbers agree. A warning lists what was skipped. Defaults to `False`: a
            mismatch raises `ValueError`.

    Returns:
        `CheckpointInfo`.

    Raises:
        FileNotFoundError: There is no whole checkpoint at `path`, or a delta's base is missing.
        CheckpointDamagedError: The checkpoint is damaged.
        ValueError: The checkpoint is of a later version or of another model, such as one with a
            table of another name in the place of one of the model's.
    """
    checks.boolean(grow, "grow")
    checks.boolean(skip_mismatch, "skip_mismatch")
    path = checkpoint_of_all_ranks(path)
    with errors_on_all_ranks("load_begins"):
        check_model(model)
        checkpoint = WholeCheckpoint(path)
        if size() == 1 and not skip_mismatch:  # as soon as one sees all tables
            _check_tables(model, checkpoint, grow)
    if verify:
        check_checkpoint_together(checkpoint, verbose)
    with in_file_context(is_growing=grow), unchanged_unless_all_can(model, "load_weights"):
        loaded, report = load_all_but_tables(model, checkpoint, skip_mismatch)
    loaders = [loader for _, _, loader in loaded]
    with errors_on_all_ranks("load_tables"):
        for variable, _, _ in loaded:
            variable.loaded_state = None
        num_records = sum(loader.num_records() for loader in loaders)
        progress = Progress(num_records, "thousand rows", 1000, verbose)
        for loader in loaders:
            loader.load(progress)
        progress.close()
        _mark_loaded(loaded)
        note_loaded(loaded, checkpoint.manifest.step)
    if report is not None:
        report.warn()
    return CheckpointInfo.of(checkpoint, report)


def _check_tables(model, checkpoint, grow):
    """Raises ValueError unless the model has tables of the saved shapes, in any order.

    Where they may grow, it is the widths that must be the saved ones.
    """
    ours = [(variable.input_dim, variable.output_dim) for variable in tables_of(model)]
    saved = [(part.input_dim, part.output_dim) for part in _whole_tables(checkpoint)]
    if collections.Counter(ours) == collections.Counter(saved):
        return
    if sorted(width for _, width in ours) != sorted(width for _, width in saved):
        raise ValueError(_other_tables(saved, checkpoint, model, _shapes_text(ours)))
    if not grow:
        remedy = ""
        if _have_room(ours, saved):
            remedy = "With `grow=True` static tables are loaded into larger or dynamic ones. "
        raise ValueError(_other_tables(saved, checkpoint, model, _shapes_text(ours), remedy))


def _have_room(ours, saved):
    """Returns whether each saved table has a counterpart as wide and large enough."""
    of_ours, of_saved = (
        sorted((width, math.inf if rows is None else rows) for rows, width in shapes)
        for shapes in (ours, saved)
    )
    return all(theirs[1] <= own[1] for own, theirs in zip(of_ours, of_saved, strict=True))


def _whole_tables(checkpoint):
    return [saved[0].part for saved in checkpoint.tables]


def _other_tables(saved, checkpoint, model, ours, remedy=""):
    names = {parts[0].table.name for parts in checkpoint.tables}
    paths = {variable.path for variable in tables_of(model)}
    differences = ""
    if names != paths:
        remedy += "`skip_mismatch=True` loads by their names those that are in both. "
        differences = (
            f"; tables of the checkpoint alone: {sorted(names - paths)}, of the model alone: "
            f"{sorted(paths - names)}"
        )
    return (
        f"A checkpoint must be loaded into a model with tables of the same shapes. {remedy}"
        f"Received: saved (input_dim, output_dim) {_shapes_text(saved)} in '{checkpoint.folder}', "
        f"model '{model.name}' with {ours}{differences}"
    )


def _shapes_text(shapes):
    return ", ".join(f"({'dynamic' if rows is None else rows}, {width})" for rows, width in shapes)


@contextlib.contextmanager
def unchanged_unless_all_can(model, name):
    """Raises an error of one rank on all ranks, and restores dense values then.

    What is done inside must not wait for other ranks.
    """
    before: list = []
    try:
        with errors_on_all_ranks(name):
            optimizer = getattr(model, "optimizer", None)
            if optimizer is not None and not optimizer.built:
                optimizer.build(model.trainable_variables)
            before.append(DenseValues(model))
            yield
    except BaseException:
        for values in before:
            values.restore()
        raise


def load_all_but_tables(model, checkpoint, skip_mismatch=False):
    """Loads dense values and the optimizer, and returns the loaders of the tables.

    Returns:
        `(loaded, report)`: a list of `(variable, number, TableLoader)` of the tables that this rank
        has some of, with their places in the checkpoint, and a `LoadReport` or `None`.
    """
    count = note_unloaded(model)
    tables, report = _load_weights(model, checkpoint, skip_mismatch)
    if len(tables) != len(checkpoint.tables) and not skip_mismatch:
        saved = [(part.input_dim, part.output_dim) for part in _whole_tables(checkpoint)]
        raise ValueError(_other_tables(saved, checkpoint, model, f"{len(tables)} tables"))
    loaded = [
        (variable, number, TableLoader(variable, checkpoint.tables[number]))
        for variable, number in tables
        if variable is not None
    ]
    is_whole = report is None or not report.skipped
    loaders = [loader for _, _, loader in loaded]
    resume_accumulation(model, checkpoint, loaders, count, is_whole)
    return loaded, report


def _load_weights(model, checkpoint, skip_mismatch):
    """Loads everything but tables; returns tables with saved numbers, and a report."""
    try:
        with named_load(model, checkpoint.weights) as named:
            if named is not None and named.is_needed(skip_mismatch, checkpoint.folder):
                checkpoint.check_weights()  # nothing damaged is skipped
                tables, report = _load_by_names(named, checkpoint, skip_mismatch)
            else:
                with explaining(model, checkpoint.weights), external_tables() as tables:
                    model.load_weights(checkpoint.weights)
                report = None
        read_seed_states(model, checkpoint.weights)
    except Exception:
        checkpoint.check_weights()  # it may be damaged, or of another model
        raise
    return tables, report


def _load_by_names(named, checkpoint, skip_mismatch):
    def fits(table, store):
        # Another rank may have the table.
        check_fits(table.local or table.any_part, checkpoint.tables[number_of(store)][0].part)

    found, report = named.load(fits)
    if not skip_mismatch:
        named.check_complete(report, checkpoint.folder)
    variables = [table.local for table, _ in found]
    numbers = [number_of(named.store.get(place)) for _, place in found]
    return list(zip(variables, numbers, strict=True)), report


def _mark_loaded(loaded):
    """Counts changes from here, so that loaded rows need not be saved again."""
    if not loaded:
        return
    variables = [variable for variable, _, _ in loaded]
    with tf.init_scope():
        versions, _ = native.snapshot_versions(variables)
        native.mark_saved(variables, versions)
    for variable, _, loader in loaded:
        # Files do not hold records that were converted from the saved ones.
        variable.saved_state = None
        variable.saved_files.add(loader.parts())
        source = loader.source()
        if source is not None and source.rank == rank() and source.is_of(size()):
            reader, parts = source.reader, source.reader.parts(source.index)
            variable.saved_state = LastSaved(
                reader.folder, reader.manifest.id, source.index, tuple(parts), False
            )
