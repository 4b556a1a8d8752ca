import pytest
import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.storage import gpu_memory


@pytest.mark.parametrize(
    ("cuda_version", "gpus", "words"),
    [
        ("", ["GPU:0"], "has no CUDA: .* `KERAS_SPARSE_CUDA=ON pip install"),
        ("13.0.88", [], r"sees no GPU on this machine: .* `pip install \"tensorflow\[and-cuda\]"),
    ],
)
def test_says_which_of_the_two_is_missing_and_the_remedy(cuda_version, gpus, words, monkeypatch):
    monkeypatch.setattr(gpu_memory, "_ARE_TABLES_THERE", True)
    monkeypatch.setattr(library, "CUDA_VERSION", cuda_version)
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    with pytest.raises(NotImplementedError, match=f"{words}.* Received: storage_type='HBM_DRAM'$"):
        gpu_memory.check_gpu_memory("HBM_DRAM")


def test_takes_them_where_both_are_there(monkeypatch):
    monkeypatch.setattr(gpu_memory, "_ARE_TABLES_THERE", True)
    monkeypatch.setattr(library, "CUDA_VERSION", "13.0.88")
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: ["GPU:0"])
    gpu_memory.check_gpu_memory("HBM")
