import contextlib
import errno
import os
import pathlib
import tempfile

import numpy as np
import tensorflow as tf

from keras_sparse.saved_model.saved_model_scope import current_save
from keras_sparse.utils.byte_sizes import bytes_text


class FileArray:
    """An array that may be larger than memory, to be filled in pieces and written as a tensor.

    Where the `Save` that runs has no memory left it is a file without a name beside the SavedModel,
    whose disk has to have room for it anyway, and which the system takes out of memory as it needs
    to.

    Args:
        shape: Tuple of integers.
        dtype: NumPy dtype.

    Attributes:
        array: `np.ndarray` of that shape and dtype.
    """

    def __init__(self, shape, dtype):
        num_bytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        if num_bytes <= current_save().memory_bytes:
            current_save().memory_bytes -= num_bytes
            self.array = np.empty(shape, dtype)
            return
        with tempfile.TemporaryFile(dir=_folder()) as file:
            _reserve(file, num_bytes)
            self.array = np.memmap(file, dtype, "r+", shape=shape)

    def as_tensor(self):
        """Returns a tensor of the array, of a large one without a copy."""
        if not isinstance(self.array, np.memmap):
            return tf.convert_to_tensor(self.array)
        return tf.experimental.dlpack.from_dlpack(self.array.__dlpack__())


def _folder():
    """Returns a folder on the disk of the SavedModel, or `None` for that of temporary files."""
    if "://" in current_save().export_dir:
        return None
    folder = pathlib.Path(current_save().export_dir).absolute()
    return next((each for each in (folder, *folder.parents) if each.is_dir()), None)


def _reserve(file, num_bytes):
    """Takes the room on disk at once: a write to mapped memory without any ends the process."""
    try:
        os.posix_fallocate(file.fileno(), 0, num_bytes)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        with contextlib.suppress(OSError):
            file.truncate(0)
        raise OSError(
            error.errno,
            "The disk of a SavedModel must have room for its tables twice while it is written. "
            f"Free some, or write it to another disk. Received: too little room for another "
            f"{bytes_text(num_bytes)}",
            str(_folder() or tempfile.gettempdir()),
        ) from None
