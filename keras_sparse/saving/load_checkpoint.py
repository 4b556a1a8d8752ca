import dataclasses
import pathlib

import tensorflow as tf

from keras_sparse import ops
from keras_sparse.embedding_variable import EmbeddingVariable
from keras_sparse.saving.checkpoint_reader import CheckpointReader
from keras_sparse.saving.load_table import check_fits
from keras_sparse.saving.load_table import has_same_slots
from keras_sparse.saving.load_table import may_load_filter
from keras_sparse.saving.progress import Progress
from keras_sparse.saving.saved_state import SavedState
from keras_sparse.saving.tables_elsewhere import tables_elsewhere


@dataclasses.dataclass(frozen=True)
class CheckpointInfo:
    """What `load_checkpoint` tells of a checkpoint.

    Args:
        path: `pathlib.Path`.
        step: Integer. The optimizer's steps when it was saved.
        training: Dict, that which `save_checkpoint` was given.
        is_delta: Boolean.
    """

    path: pathlib.Path
    step: int
    training: dict
    is_delta: bool


def load_checkpoint(model, path, verify=True, verbose=True):
    """Loads a checkpoint, or a delta with all that it goes back to, into a model.

    The tiers, their sizes and the cache strategy of the tables may be others than when it was
    saved. As with `model.load_weights`, slots are restored if the optimizer has those of the saved
    tables, and what a filter remembers if it is of the same kind and size.

    Args:
        model: A built `keras.Model` of the same layers. If it is compiled, its optimizer is built.
        path: Path of the folder.
        verify: Boolean. Whether to read everything once before anything in the model changes, so
            that a damaged checkpoint leaves it as it is. Defaults to `True`.
        verbose: Boolean. Whether to show a bar if it takes long. Defaults to `True`.

    Returns:
        `CheckpointInfo`.

    Raises:
        FileNotFoundError: There is no whole checkpoint, or not all that a delta goes back to.
        ValueError: It is damaged, or of another model.
    """
    reader = CheckpointReader(path)
    _check_tables(model, reader)
    if verify:
        progress = Progress(reader.num_records(), "thousand rows checked", 1000, verbose)
        reader.check(progress)
        progress.close()
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and not optimizer.built:
        optimizer.build(model.trainable_variables)
    with tables_elsewhere() as tables:
        model.load_weights(reader.weights)
    progress = Progress(reader.num_records(), "thousand rows", 1000, verbose)
    for variable, index in tables:
        _load(variable, index, reader, progress)
    progress.close()
    _mark_loaded(tables, reader)
    manifest = reader.manifest
    return CheckpointInfo(
        reader.folder, manifest.step, manifest.training, manifest.base is not None
    )


def _check_tables(model, reader):
    """Raises ValueError unless the model has tables of the saved shapes, in any order."""
    ours = [
        (variable.input_dim or 0, variable.output_dim)
        for variable in model.variables
        if isinstance(variable, EmbeddingVariable)
    ]
    saved = [(table.input_dim or 0, table.output_dim) for table in reader.manifest.tables]
    if sorted(ours) != sorted(saved):
        raise ValueError(
            "A checkpoint must be loaded into a model with tables of the same shapes. Received: "
            f"saved (input_dim, output_dim; 0: dynamic) {saved} in '{reader.folder}', model "
            f"'{model.name}' with {ours}"
        )


def _load(variable, index, reader, progress):
    table = reader.manifest.tables[index]
    check_fits(variable, table)
    same_slots = has_same_slots(variable, table)
    variable.set_initial_rows(table.initial_rows)
    if variable.is_dynamic or not same_slots:
        ops.clear_tables([variable])
    rule = reader.saved_rule(index)
    for folder, part in reader.parts(index):
        erased = reader.read_erased(folder, part)
        if len(erased) > 0:
            ops.erase_rows([variable], [erased])
        for keys, raw in reader.read(index, folder, part):
            records = raw if rule is None else rule.catch_up(raw)
            variable.import_(keys, records if same_slots else records[:, : variable.output_dim])
            progress.add(len(keys))
    if may_load_filter(variable, table):
        for keys, counts in reader.read_filter(index):
            ops.import_filter([variable], [keys], [counts])


def _mark_loaded(tables, reader):
    """Lets changes count from here, so that what was loaded need not be saved again."""
    if not tables:
        return
    variables = [variable for variable, _ in tables]
    with tf.init_scope():
        versions, _ = ops.snapshot_versions(variables)
        ops.mark_saved(variables, versions)
    for variable, index in tables:
        if has_same_slots(variable, reader.manifest.tables[index], warn=False):
            parts = tuple(reader.parts(index))
            variable.saved_state = SavedState(reader.folder, reader.manifest.id, parts, False)
        else:
            variable.saved_state = None
