"""Which GPU a rank uses."""

import sys
import warnings

_REMEDY = (
    "Call `keras_sparse.distribute.init()` before anything is computed, or choose each rank's GPU "
    "by `tf.config.set_visible_devices` or CUDA_VISIBLE_DEVICES"
)


def take_gpu(local_rank, local_size, has_nccl=False):
    """Leaves a rank one GPU of its machine, that of its local rank, for all that it does.

    Ranks that are more than GPUs share them, and then TensorFlow takes memory as it needs it, not
    all at once. A rank that is alone on its machine keeps all GPUs, and so does one whose user has
    said which are visible.

    Args:
        local_rank: Integer. The number of the rank among those of its machine.
        local_size: Integer. How many these are.
        has_nccl: Boolean. Whether Horovod was built with NCCL. Defaults to `False`.
    """
    tf = sys.modules["tensorflow"]  # which Horovod has loaded; where there is none nothing is
    gpus = tf.config.list_physical_devices("GPU")
    if local_size == 1 or not gpus or tf.config.get_visible_devices("GPU") != gpus:
        return
    if has_nccl and local_size > len(gpus):
        warnings.warn(
            "Ranks must have a GPU each where Horovod was built with NCCL, which refuses two on "
            "one: what they exchange from there will fail. Start as many ranks as GPUs, hide these "
            'by CUDA_VISIBLE_DEVICES="", or build Horovod without NCCL. Received: '
            f"{local_size} ranks on a machine with {len(gpus)} GPUs",
            stacklevel=2,
        )
    gpu = gpus[local_rank % len(gpus)]
    try:
        if len(gpus) > 1:
            tf.config.set_visible_devices(gpu, "GPU")
        if local_size > len(gpus) and not tf.config.get_logical_device_configuration(gpu):
            tf.config.experimental.set_memory_growth(gpu, True)
    except RuntimeError:  # TensorFlow uses GPUs already, all of them
        warnings.warn(
            "Ranks must each take a GPU before TensorFlow begins to use any: now each has begun to "
            f"use all, and the memory of all. {_REMEDY}. Received: {local_size} ranks on a machine "
            f"with {len(gpus)} GPUs",
            stacklevel=2,
        )
