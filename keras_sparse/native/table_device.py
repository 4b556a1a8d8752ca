import tensorflow as tf

from keras_sparse.native import library


def table_device(is_on_gpu):
    """Returns the name of the device that a table is made on, and that its ops run on."""
    return "GPU:0" if is_on_gpu else "CPU:0"


def check_gpu(storage_type):
    """Raises unless tables can be in the memory of a GPU of this process.

    Args:
        storage_type: String, for messages.

    Raises:
        NotImplementedError: The native ops were built without CUDA, or TensorFlow sees no GPU.
    """
    lack = lack_of_gpu(storage_type)
    if lack is not None:
        raise NotImplementedError(lack)


def lack_of_gpu(storage_type):
    """Returns why tables cannot be in the memory of a GPU of this process; `None` if they can."""
    if not library.CUDA_VERSION:
        return (
            "Tables in GPU memory need a build of keras_sparse with CUDA. Install it from its "
            "source tree by `KERAS_SPARSE_CUDA=ON pip install '.[gpu]'`, or take the storage type "
            f"without HBM. Received: storage_type='{storage_type}' with a build without CUDA"
        )
    if not tf.config.get_visible_devices("GPU"):
        return (
            "Tables in GPU memory need a GPU that TensorFlow can use: an NVIDIA driver, and "
            "`pip install tensorflow[and-cuda]`; see `python -m keras_sparse info`. Or take the "
            f"storage type without HBM. Received: storage_type='{storage_type}' where TensorFlow "
            f"sees no GPU"
        )
    return None
