"""How fast do 26 static tables of 400,000 rows of 32 train, with one id a sample each?

python -m benchmarks.static_tables
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W1: 26 static tables, 400,000 x 32, one id each"
PEERS = [
    Peer("keras_sparse, 26 layers", "ours", columns=timing.OURS),
    Peer("keras_sparse, 26 layers, in one call", "ours", columns=timing.STEPS, in_one_call=True),
    Peer("keras_sparse, one grouped lookup", "ours", "build_grouped", timing.OURS),
    Peer(
        "keras_sparse, one grouped lookup, in one call",
        "ours",
        "build_grouped",
        timing.STEPS,
        in_one_call=True,
    ),
    Peer("plain C++, huge pages", "floor", "build_huge", columns=timing.PLAIN),
    Peer("plain C++, 4 KiB pages", "floor", columns=timing.PLAIN),
    Peer("FBGEMM TBE", "fbgemm", columns=timing.FBGEMM),
    Peer("torch sparse", "torch_bags", extra_copies=1),
    Peer("TensorFlow by hand", "tensorflow_variable"),
    Peer("keras.layers.Embedding", "keras_layers", columns=timing.KERAS, extra_copies=2),
    Peer("keras.layers.Embedding, untrained", "keras_layers", "build_untrained", ("forward",)),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w1, PEERS, arguments)


if __name__ == "__main__":
    main()
