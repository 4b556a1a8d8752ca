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
COLUMNS = ("adagrad",)
DENSE_ALONE = "TensorFlow, dense part alone"
MODULE = "dlrm_as_written_tensorflow"
PEERS = [
    Peer("keras_sparse, output_mode", MODULE, "build_ours", COLUMNS),
    Peer("keras_sparse, unstack and stack", MODULE, "build_ours_as_list", COLUMNS),
    Peer(DENSE_ALONE, MODULE, "build_dense_alone", COLUMNS, -1),
    Peer("FBGEMM TBE", "dlrm_torch", "build_fbgemm_of_matrix", COLUMNS),
    Peer("torch sparse, one table of all rows", "dlrm_torch", "build_of_matrix", COLUMNS, 1),
    Peer("TensorFlow by hand, one table of all rows", MODULE, "build_by_hand", COLUMNS),
    Peer("keras.layers.Embedding, stack", MODULE, "build_keras", COLUMNS, 2),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w1, PEERS, arguments, yardstick=DENSE_ALONE)


if __name__ == "__main__":
    main()
