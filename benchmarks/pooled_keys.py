"""What does the dynamic table of W3 cost when the 26 rows of a sample are summed?

python -m benchmarks.pooled_keys
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "W3 with the 26 rows of a sample summed"
PEERS = [
    Peer("keras_sparse", "ours", columns=timing.OURS),
    Peer("keras_sparse, in one call", "ours", columns=timing.STEPS, in_one_call=True),
    Peer("plain C++, huge pages", "floor", "build_huge", columns=timing.PLAIN),
    Peer("plain C++, huge pages, as TensorFlow ops", "floor_in_tensorflow"),
    Peer(
        "plain C++, huge pages, as TensorFlow ops, in one call",
        "floor_in_tensorflow",
        columns=timing.PLAIN_STEPS,
        in_one_call=True,
    ),
    Peer("plain C++, 4 KiB pages", "floor", columns=timing.PLAIN),
    Peer("FBGEMM TBE, hashed", "fbgemm", columns=timing.FBGEMM),
    Peer("torch sparse, hashed", "torch_bags", extra_copies=1),
    Peer("TensorFlow by hand, hashed", "tensorflow_variable"),
]


def main(arguments=None):
    return timing.run(TITLE, workloads.w3_pooled, PEERS, arguments)


if __name__ == "__main__":
    main()
