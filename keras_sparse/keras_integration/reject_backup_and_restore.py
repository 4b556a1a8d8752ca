import functools

import keras

from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.keras_integration.save_model import is_saved_together
from keras_sparse.tables.tables_of import tables_of

_begin_backup = keras.callbacks.BackupAndRestore.on_train_begin
_begin_tensorboard = keras.callbacks.TensorBoard.on_train_begin


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


@functools.wraps(_begin_tensorboard)
def begin_tensorboard(callback, logs=None):
    """`TensorBoard.on_train_begin`, which refuses what Keras' callback cannot do with tables.

    `embeddings_freq` would leave tables out of the projector without a word, and `histogram_freq`
    end the training at its first histogram.
    """
    samples_tables = getattr(callback, "samples_tables", False)
    if not samples_tables and tables_of(callback.model):
        for name in ("histogram_freq", "embeddings_freq"):
            if getattr(callback, name):
                raise ValueError(
                    f"`{name}` must be that of `keras_sparse.callbacks.TensorBoard` where a model "
                    "has tables: it takes the same arguments and samples rows. Received: "
                    f"keras.callbacks.TensorBoard({name}={getattr(callback, name)}) for model "
                    f"'{callback.model.name}'"
                )
    _begin_tensorboard(callback, logs)
