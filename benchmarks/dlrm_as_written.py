"""How long is a training step of a DLRM, as users write it, and how much of that are its tables?

    python -m benchmarks.dlrm_as_written

A matrix of ids comes in, the rows of all tables are one tensor for the dot interaction, and one
compiled step trains tables and dense part. The last table shows what each takes beside the dense
part alone, whose rows are given: the aim is 1.2 times that.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W4 as users write it: DLRM, a matrix of ids in, one compiled step"
OURS = ("adagrad", "row_wise_adagrad", "lazy_adam", "adam")
LAZY = ("adagrad", "lazy_adam")
DENSE_ALONE = "TensorFlow, dense part alone"
MODULE = "dlrm_as_written_tensorflow"
PEERS = [
    Peer("keras_sparse, output_mode", MODULE, "build_ours", OURS),
    Peer("keras_sparse, unstack and stack", MODULE, "build_ours_as_list", OURS),
    Peer(DENSE_ALONE, MODULE, "build_dense_alone", OURS, -1),
    Peer("FBGEMM TBE", "dlrm_torch", "build_fbgemm", ("adagrad", "row_wise_adagrad")),
    Peer("torch sparse, one table of all rows", "dlrm_torch", "build_of_matrix", LAZY, 1),
    Peer("TensorFlow by hand, one table of all rows", MODULE, "build_by_hand", LAZY),
    Peer("keras.layers.Embedding, stack", MODULE, "build_keras", ("adagrad", "adam"), 2),
]


def main(arguments=None):
    options = timing.parser(TITLE).parse_args(arguments)
    return timing.run(TITLE, workloads.w1, PEERS, options, yardstick=DENSE_ALONE)


if __name__ == "__main__":
    main()
