"""How long is a training step of a small DLRM whose 26 tables are those of W1?

    python -m benchmarks.dlrm

The clock covers the whole step: lookup, dense part, gradients, and the update of tables
and dense variables.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W4: DLRM on the tables of W1, one training step"
OURS = ("adagrad", "row_wise_adagrad", "lazy_adam", "adam")
LAZY = ("adagrad", "lazy_adam")
PEERS = [
    Peer("keras_sparse, 26 layers", "dlrm_tensorflow", "build_ours", OURS),
    Peer("keras_sparse, one grouped lookup", "dlrm_tensorflow", "build_ours_grouped", OURS),
    Peer("TensorFlow, dense part alone", "dlrm_tensorflow", "build_dense_alone", OURS, -1),
    Peer("FBGEMM TBE", "dlrm_torch", "build_fbgemm", ("adagrad", "row_wise_adagrad")),
    Peer("torch sparse", "dlrm_torch", "build", LAZY, 1),
    Peer("TensorFlow by hand", "dlrm_tensorflow", "build_by_hand", LAZY),
    Peer("keras.layers.Embedding", "dlrm_tensorflow", "build_keras", ("adagrad", "adam"), 2),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w1, PEERS, arguments)


if __name__ == "__main__":
    main()
