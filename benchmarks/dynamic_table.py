"""How fast does one dynamic table train, 26 of 5,000,000 scrambled 63-bit keys a sample?

    python -m benchmarks.dynamic_table

Peers without a table of keys hash them into a static one, where keys collide.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W3: one dynamic table, rows of 64, 26 of 5,000,000 keys a sample"
PEERS = [
    Peer("keras_sparse", "ours", columns=timing.OURS),
    Peer("keras_sparse, in one call", "ours", columns=timing.STEPS, in_one_call=True),
    Peer("plain C++, huge pages", "floor", "build_huge", columns=timing.PLAIN),
    Peer("plain C++, 4 KiB pages", "floor", columns=timing.PLAIN),
    Peer("TensorFlow by hand, hashed", "tensorflow_variable"),
    Peer("FBGEMM TBE, hashed", "fbgemm", columns=timing.FBGEMM),
    Peer("torch sparse, hashed", "torch_bags", extra_copies=1),
    Peer("keras.layers.Embedding, hashed", "keras_layers", columns=timing.KERAS, extra_copies=2),
    Peer(
        "keras.layers.Embedding, hashed, untrained", "keras_layers", "build_untrained", ("forward",)
    ),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w3, PEERS, arguments)


if __name__ == "__main__":
    main()
