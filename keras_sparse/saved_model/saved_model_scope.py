"""Whether functions are traced for a SavedModel, and which one is being written."""

import contextvars
import copy
import dataclasses
import functools
import os
from typing import Any

import tensorflow as tf
from tensorflow.python.saved_model import save_context

from keras_sparse.utils.changed_context import changed_context

# What a SavedModel has of tables in memory while it is written; what is beyond goes through files.
_MEMORY_BYTES = 64 << 20


class Save:
    """One call of `tf.saved_model.save`.

    Args:
        export_dir: String: the folder that it writes to.
        is_verbose: Boolean. Whether to show a bar if it takes long.

    Attributes:
        readings: Dict of what has been read for it: the arrays of a table by its `TableContent`.
        memory_bytes: Integer. What arrays may still take of memory.
    """

    def __init__(self, export_dir, is_verbose):
        self.export_dir = export_dir
        self.is_verbose = is_verbose
        self.readings = {}
        self.memory_bytes = _MEMORY_BYTES


@dataclasses.dataclass(frozen=True)
class SavedModelContext:
    """An export that runs. TensorFlow traces the code that asks for it, and passes nothing on.

    Attributes:
        save: The `Save`, or `None` until TensorFlow writes.
        is_verbose: Boolean that `ExportArchive.write_out` was given, or `None` outside of it.
        options: `ExportOptions` that `export_options` was given, or `None`.
    """

    save: Save | None = None
    is_verbose: bool | None = None
    options: Any = None


_NONE = SavedModelContext()
_context: contextvars.ContextVar[SavedModelContext] = contextvars.ContextVar(
    "saved_model", default=_NONE
)


def saved_model_context():
    """Returns the `SavedModelContext` of the export that runs."""
    return _context.get()


def in_saved_model_context(**changes):
    """While this is entered, `saved_model_context` returns the one before with some changes."""
    return changed_context(_context, changes)


def is_for_saved_model():
    """Returns whether what is traced now goes into a SavedModel."""
    # What is computed while a function is traced, as under `tf.init_scope`, is as ever.
    return save_context.in_save_context() and not tf.executing_eagerly()


def is_looking_for_resources():
    """Returns whether `ExportArchive.write_out` only looks for what `tf.saved_model.save` takes."""
    context = _context.get()
    return context.is_verbose is not None and context.save is None


def traced_for_saved_model(function):
    """Returns a function that is traced as `tf.saved_model.save` traces: for a SavedModel.

    TensorFlow keeps such traces apart, also those of a `tf.function` that is called in it and has
    been traced before.
    """

    @functools.wraps(function)
    def traced(*args, **kwargs):
        if save_context.in_save_context():
            return function(*args, **kwargs)
        with save_context.save_context(_with_own_traces(tf.saved_model.SaveOptions())):
            return function(*args, **kwargs)

    return traced


@dataclasses.dataclass(frozen=True)
class _PolicyOfExport:
    """A `tf.saved_model.experimental.VariablePolicy` that is another one for each row dtype.

    TensorFlow makes a trace for each policy of a SavedModel. A trace reads the variables of one row
    dtype, and a `tf.function` inside a model keeps its traces from one export to the next.
    """

    policy: Any
    row_dtype: str

    def __getattr__(self, name):
        return getattr(self.policy, name)


def _with_own_traces(save_options):
    """Returns `tf.saved_model.SaveOptions` with which functions are traced for this row dtype."""
    options = _context.get().options
    if options is None or options.row_dtype == "float32":
        return save_options
    save_options = copy.copy(save_options)
    policy = _PolicyOfExport(save_options.experimental_variable_policy, options.row_dtype)
    save_options.experimental_variable_policy = policy
    return save_options


def knowing_its_save(save):
    """Returns `tf.saved_model.save` that `current_save` knows of while it runs."""

    @functools.wraps(save)
    def saving(obj, export_dir, signatures=None, options=None):
        new = Save(os.fspath(export_dir), _context.get().is_verbose is not False)
        with in_saved_model_context(save=new):
            options = _with_own_traces(options or tf.saved_model.SaveOptions())
            return save(obj, export_dir, signatures, options)

    return saving


def current_save():
    """Returns the `Save` that runs now."""
    save = _context.get().save
    if save is None:
        raise RuntimeError(
            "A SavedModel with tables must be written by `model.export`, `keras.export."
            "ExportArchive` or `tf.saved_model.save`, which must be taken out of its module after "
            "keras_sparse is imported. Received: another call, or a function taken before"
        )
    return save
