import functools

import keras

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.keras_integration.save_model import is_saved_together

_begin_backup = keras.callbacks.BackupAndRestore.on_train_begin


@functools.wraps(_begin_backup)
def begin_backup(callback, logs=None):
    """`BackupAndRestore.on_train_begin`, which refuses a model that ranks save together.

    Each rank would look for the backup, copy and remove its folder by itself, while others write.
    """
    if size() > 1 and is_saved_together(callback.model):
        raise NotImplementedError(
            f"{error_prefix()}BackupAndRestore must be given to a model that one process saves. "
            "Ranks that train together take `keras_sparse.callbacks.Checkpoint(folder)`, which "
            "goes on from where training was cut off, too. Received: BackupAndRestore with "
            f"backup_dir='{callback.backup_dir}' on {size()} ranks"
        )
    _begin_backup(callback, logs)
