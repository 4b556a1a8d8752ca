import tensorflow as tf

from keras_sparse.native import library

# Whether the engine has tables in GPU memory.
_ARE_TABLES_THERE = False


def check_gpu_memory(storage_type):
    """Raises NotImplementedError, with the remedy, where tables cannot lie in GPU memory.

    Args:
        storage_type: `StorageType` whose first tier is GPU memory, for the message.
    """
    if not _ARE_TABLES_THERE:
        trouble = (
            "Tables in GPU memory are not in this version of keras_sparse. Take the storage type "
            "without HBM"
        )
    elif not library.CUDA_VERSION:
        trouble = (
            "A first tier of GPU memory needs CUDA, and this build of keras_sparse has no CUDA: "
            "install it again by `KERAS_SPARSE_CUDA=ON pip install .`, or take the storage type "
            "without HBM"
        )
    elif not tf.config.list_physical_devices("GPU"):
        trouble = (
            "A first tier of GPU memory needs a GPU, and TensorFlow sees no GPU on this machine: "
            'install NVIDIA\'s driver and `pip install "tensorflow[and-cuda]==2.21.*"`, see that '
            "CUDA_VISIBLE_DEVICES hides none, or take the storage type without HBM"
        )
    else:
        return
    raise NotImplementedError(f"{trouble}. Received: storage_type='{storage_type}'")
