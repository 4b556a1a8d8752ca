"""Adds to functions of Keras, TensorFlow and h5py once keras_sparse is imported.

Models are of classes that users choose, `compile` under mixed_float16 wraps the optimizer in a
class of Keras by itself, `fit` is given Keras' own callbacks, and Keras opens its files by their
paths: in these places no class of ours would be asked.
"""

import importlib
from typing import Any

import h5py
import keras
import tensorflow as tf
from keras.src.backend.tensorflow.export import TFExportArchive  # `ExportArchive` makes one
from keras.src.export import saved_model_export_archive  # `ExportArchive` has no hook for specs
from keras.src.saving import saving_lib  # what Keras does with memory has no public name

from keras_sparse.keras_integration.export_model import exporting_tables
from keras_sparse.keras_integration.finite_gradients import check_finite
from keras_sparse.keras_integration.finite_gradients import of_inner_optimizer
from keras_sparse.keras_integration.input_signature import default_signature
from keras_sparse.keras_integration.input_signature import keeping_composites
from keras_sparse.keras_integration.input_signature import knowing_inputs
from keras_sparse.keras_integration.input_signature import naming_components
from keras_sparse.keras_integration.input_signature import remembering_calls
from keras_sparse.keras_integration.reject_backup_and_restore import begin_backup
from keras_sparse.keras_integration.reject_backup_and_restore import begin_tensorboard
from keras_sparse.keras_integration.save_model import carefully
from keras_sparse.keras_integration.save_model import is_memory_sufficient
from keras_sparse.keras_integration.saved_by_rank_0 import saved_by_rank_0
from keras_sparse.keras_integration.saved_by_rank_0 import silent_on_other_ranks
from keras_sparse.saved_model.saved_model_scope import knowing_its_save
from keras_sparse.saved_model.saved_model_scope import traced_for_saved_model
from keras_sparse.saved_model.saved_model_scope import writing_plain_ops
from keras_sparse.saving.keras_files.hdf5_write_errors import open_carefully
from keras_sparse.saving.keras_files.load_weights import verifying

# What `tf.keras` is: by that name TensorFlow may have the old Keras, or look for it in vain.
_tf_keras_models = importlib.import_module("keras._tf_keras.keras.models")


h5py.File.__init__ = open_carefully
saving_lib.is_memory_sufficient = is_memory_sufficient
keras.optimizers.LossScaleOptimizer.check_finite = check_finite
keras.optimizers.LossScaleOptimizer.__getattr__ = of_inner_optimizer
keras.callbacks.BackupAndRestore.on_train_begin = begin_backup
keras.callbacks.TensorBoard.on_train_begin = begin_tensorboard
# Before Keras imports it, which would make another module of that name.
_tf_saved_model: Any = importlib.import_module("tensorflow.saved_model")
_tf_saved_model.save = knowing_its_save(knowing_inputs(saved_by_rank_0(tf.saved_model.save)))
tf.saved_model.save = _tf_saved_model.save
keras.Model.export = exporting_tables(keras.Model.export)
# Ragged and sparse inputs, which Keras takes for dense in the signatures that it writes.
keras.Model.__call__ = remembering_calls(keras.Model.__call__)
keras.Model._default_save_signature = default_signature(keras.Model._default_save_signature)
saved_model_export_archive.make_tf_tensor_spec = keeping_composites(
    saved_model_export_archive.make_tf_tensor_spec
)
TFExportArchive._get_concrete_fn = naming_components(TFExportArchive._get_concrete_fn)
TFExportArchive.write_out = silent_on_other_ranks(writing_plain_ops(TFExportArchive.write_out))
# Where it traces, what a model says of itself too.
for _name in ("_get_concrete_fn", "_filter_and_track_resources"):
    setattr(TFExportArchive, _name, traced_for_saved_model(getattr(TFExportArchive, _name)))
# The functions of `keras.saving` are what the methods call, or are called by themselves.
for _owner in (keras.Model, keras.saving):
    _owner.load_weights = verifying(_owner.load_weights)
for _owner, _name in (
    (keras.Model, "save_weights"),
    (keras.Model, "save"),
    (keras.saving, "save_weights"),
    (keras.saving, "save_model"),
    (keras.models, "save_model"),
    (_tf_keras_models, "save_model"),
):
    setattr(_owner, _name, carefully(getattr(_owner, _name)))
