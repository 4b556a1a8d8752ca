"""How long is a step from a matrix of ids to one tensor of rows, as users write it?

python -m benchmarks.as_written
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W1 as users write it: a matrix of ids in, the rows of 26 tables in one tensor out"
COLUMNS = ("forward", "sgd", "adagrad")
PEERS = [
    Peer("keras_sparse, output_mode", "as_written_tensorflow", "build_ours", COLUMNS),
    Peer(
        "keras_sparse, unstack and concat", "as_written_tensorflow", "build_ours_as_list", COLUMNS
    ),
    Peer("plain C++, huge pages, ids by table", "floor", "build_joined", COLUMNS),
    Peer("FBGEMM TBE", "as_written_torch", "build_fbgemm", COLUMNS),
    Peer("torch sparse, one table of all rows", "as_written_torch", "build_torch", COLUMNS, 1),
    Peer(
        "TensorFlow by hand, one table of all rows",
        "as_written_tensorflow",
        "build_tensorflow",
        COLUMNS,
    ),
    Peer("keras.layers.Embedding, Concatenate", "as_written_tensorflow", "build_keras", COLUMNS, 2),
]


def main(arguments=None):
    options = timing.parser(TITLE).parse_args(arguments)
    return timing.run(TITLE, workloads.w1, PEERS, options)


if __name__ == "__main__":
    main()
