"""Replaces attributes of Keras and TensorFlow once keras_sparse is imported.

Each is needed for a right result, and is in a place where no class of ours would be asked: models
are of classes that users choose, `compile` under mixed_float16 wraps the optimizer in a class of
Keras by itself, and `fit` is given Keras' own callbacks.
`docs/explanation/keras-integration.md` lists them.
"""

import importlib
from typing import Any

import keras
import tensorflow as tf
from keras.src.saving import saving_lib  # what all of Keras' ways to save and load call

from keras_sparse.keras_integration.export_model import exporting_tables
from keras_sparse.keras_integration.finite_gradients import check_finite
from keras_sparse.keras_integration.input_signature import knowing_inputs
from keras_sparse.keras_integration.save_model import begin_backup
from keras_sparse.keras_integration.save_model import save_model
from keras_sparse.keras_integration.save_model import save_weights_only
from keras_sparse.keras_integration.saved_by_rank_0 import saved_by_rank_0
from keras_sparse.keras_integration.write_out import ArchiveClass
from keras_sparse.keras_integration.write_out import writing_plain_ops
from keras_sparse.saved_model.saved_model_scope import knowing_its_save
from keras_sparse.saving.keras_files.load_weights import loading_whole

keras.optimizers.LossScaleOptimizer.check_finite = check_finite
keras.callbacks.BackupAndRestore.on_train_begin = begin_backup
saving_lib.save_model = save_model
saving_lib.save_weights_only = save_weights_only
saving_lib.load_weights_only = loading_whole(saving_lib.load_weights_only)
keras.Model.export = exporting_tables(keras.Model.export)
ArchiveClass.write_out = writing_plain_ops(ArchiveClass.write_out)
# Before Keras imports it, which would make another module of that name.
_tf_saved_model: Any = importlib.import_module("tensorflow.saved_model")
_tf_saved_model.save = knowing_its_save(knowing_inputs(saved_by_rank_0(tf.saved_model.save)))
tf.saved_model.save = _tf_saved_model.save
