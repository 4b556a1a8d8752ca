"""Which of the GPUs of a machine a rank takes, where the driver says that there are two."""

import os
import subprocess
import sys

import pytest

SCRIPT = """
import warnings

import tensorflow as tf

from keras_sparse.distribute.ranks.rank_gpu import take_gpu

gpus = tf.config.list_physical_devices("GPU")


def taken(local_rank, local_size, visible=gpus):
    tf.config.set_visible_devices(visible, "GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, False)
    take_gpu(local_rank, local_size)
    left = tf.config.get_visible_devices("GPU")
    return [gpus.index(gpu) for gpu in left], [
        bool(tf.config.experimental.get_memory_growth(gpu)) for gpu in left
    ]


assert taken(0, 1) == ([0, 1], [False, False])  # alone on its machine
assert taken(0, 2) == ([0], [False])
assert taken(1, 2) == ([1], [False])
assert taken(2, 3) == ([0], [True])  # more ranks than GPUs
for local_size, has_nccl in ((3, True), (3, False), (2, True)):
    tf.config.set_visible_devices(gpus, "GPU")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        take_gpu(0, local_size, has_nccl)
    assert len(caught) == (local_size > 2 and has_nccl)
    for each in caught:
        assert "built with NCCL, which refuses two on one" in str(each.message)
        assert "Received: 3 ranks on a machine with 2 GPUs" in str(each.message)
assert taken(0, 2, gpus[1:]) == ([1], [False])  # the script has chosen
assert taken(0, 2, []) == ([], [])
tf.config.set_visible_devices(gpus, "GPU")
tf.zeros(1)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    take_gpu(1, 2)
assert "before TensorFlow begins to use any" in str(caught[0].message)
assert "Received: 2 ranks on a machine with 2 GPUs" in str(caught[0].message)
print("done")
"""


@pytest.mark.slow("starts processes")
def test_each_rank_takes_the_gpu_of_its_local_rank(driver):
    environment = dict(os.environ, LD_LIBRARY_PATH=str(driver), FAKE_GPUS="2")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True
    )
    assert done.stdout == "done\n", done.stderr[-2000:]
