"""How fast does one static table of 5,000,000 rows of 64 train on bags of 1 to 20 ids?

python -m benchmarks.pooled_bags
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W2: one static table, 5,000,000 x 64, ragged 1 to 20 ids, sum"
PEERS = [
    Peer("keras_sparse", "ours", columns=timing.OURS),
    Peer("keras_sparse, in one call", "ours", columns=timing.STEPS, in_one_call=True),
    Peer("plain C++, huge pages", "floor", "build_huge", columns=timing.PLAIN),
    Peer("plain C++, 4 KiB pages", "floor", columns=timing.PLAIN),
    Peer("FBGEMM TBE", "fbgemm", columns=timing.FBGEMM),
    Peer("torch sparse", "torch_bags", extra_copies=1),
    Peer("TensorFlow by hand", "tensorflow_variable"),
    Peer("keras.layers.Embedding", "keras_layers", columns=timing.KERAS, extra_copies=2),
    Peer("keras.layers.Embedding, untrained", "keras_layers", "build_untrained", ("forward",)),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w2, PEERS, arguments)


if __name__ == "__main__":
    main()
