"""Adds to functions of Keras and h5py once keras_sparse is imported.

Models are of classes that users choose, `compile` under mixed_float16 wraps the optimizer in a
class of Keras by itself, `fit` is given Keras' own callbacks, and Keras opens its files by their
paths: in these places no class of ours would be asked.
"""

import importlib

import h5py
import keras
from keras.src.saving import saving_lib  # what Keras does with memory has no public name

from keras_sparse.optimizers.support.finite_gradients import check_finite
from keras_sparse.saving.keras_files.hdf5_write_errors import open_carefully
from keras_sparse.saving.keras_files.load_weights import verifying
from keras_sparse.saving.keras_files.refuse_backup import on_train_begin
from keras_sparse.saving.keras_files.save_weights import carefully
from keras_sparse.saving.keras_files.save_weights import is_memory_sufficient

# What `tf.keras` is: by that name TensorFlow may have the old Keras, or look for it in vain.
_tf_keras_models = importlib.import_module("keras._tf_keras.keras.models")


h5py.File.__init__ = open_carefully
saving_lib.is_memory_sufficient = is_memory_sufficient
keras.optimizers.LossScaleOptimizer.check_finite = check_finite
keras.callbacks.BackupAndRestore.on_train_begin = on_train_begin
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
