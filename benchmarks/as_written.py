"""How long is a training step as users write it, from a matrix of ids on?

    python -m benchmarks.as_written [--workload W4]

W1: the rows of all tables are one tensor, and so is their gradient, which is given.

W4: the rows are one tensor for the dot interaction of a DLRM, and one compiled step trains tables
and dense part. The last table shows what each takes beside the dense part alone, whose rows are
given: the aim is 1.2 times that.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLES = {
    "W1": "W1 as users write it: a matrix of ids in, the rows of 26 tables in one tensor out",
    "W4": "W4 as users write it: DLRM, a matrix of ids in, one compiled step",
}
COLUMNS = ("forward", "sgd", "adagrad")
OURS = ("adagrad", "row_wise_adagrad", "lazy_adam", "adam")
LAZY = ("adagrad", "lazy_adam")
DENSE_ALONE = "TensorFlow, dense part alone"
TENSORFLOW, DLRM = "as_written_tensorflow", "dlrm_tensorflow"
PEERS = {
    "W1": [
        Peer("keras_sparse, output_mode", TENSORFLOW, "build_ours", COLUMNS),
        Peer("plain C++, huge pages, ids by table", "floor", "build_joined", COLUMNS),
        Peer("FBGEMM TBE", "as_written_torch", "build_fbgemm", COLUMNS),
        Peer("torch sparse, one table of all rows", "as_written_torch", "build_torch", COLUMNS, 1),
        Peer("TensorFlow by hand, one table of all rows", TENSORFLOW, "build_tensorflow", COLUMNS),
        Peer("keras.layers.Embedding, Concatenate", TENSORFLOW, "build_keras", COLUMNS, 2),
    ],
    "W4": [
        Peer("keras_sparse, output_mode", DLRM, "build_ours", OURS),
        Peer(DENSE_ALONE, DLRM, "build_dense_alone", OURS, -1),
        Peer("FBGEMM TBE", "dlrm_torch", "build_fbgemm", ("adagrad", "row_wise_adagrad")),
        Peer("torch sparse, one table of all rows", "dlrm_torch", "build", LAZY, 1),
        Peer("TensorFlow by hand, one table of all rows", DLRM, "build_by_hand", LAZY),
        Peer("keras.layers.Embedding, stack", DLRM, "build_keras", ("adagrad", "adam"), 2),
    ],
}


def main(arguments=None, name=None):
    question = __doc__.splitlines()[0]
    options, name = timing.workload_options(question, arguments, name, TITLES)
    return timing.run(TITLES[name], workloads.w1, PEERS[name], options, yardstick=DENSE_ALONE)


if __name__ == "__main__":
    main()
