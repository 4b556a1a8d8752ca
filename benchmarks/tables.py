"""How fast do tables train by themselves, with nothing around them but a call from Python?

    python -m benchmarks.tables [--workload W1]

The gradient of the outputs is given, and each table has its own: what a model adds is timed by
`as_written`. Peers without a table of keys hash those of W3 into a static one, where keys collide.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLES = {
    "W1": "W1: 26 static tables, 400,000 x 32, one id each",
    "W2": "W2: one static table, 5,000,000 x 64, ragged 1 to 20 ids, sum",
    "W3": "W3: one dynamic table, rows of 64, 26 of 5,000,000 keys a sample",
}


def peers_of(name):
    """The peers of a workload."""
    hashed = ", hashed" if name == "W3" else ""
    return [
        Peer("keras_sparse", "ours", columns=timing.OURS),
        Peer("keras_sparse, in one call", "ours", columns=timing.STEPS, in_one_call=True),
        Peer("plain C++, huge pages", "floor", "build_huge", timing.PLAIN),
        Peer("plain C++, 4 KiB pages", "floor", columns=timing.PLAIN),
        Peer(f"FBGEMM TBE{hashed}", "fbgemm", columns=timing.FBGEMM),
        Peer(f"torch sparse{hashed}", "torch_bags", extra_copies=1),
        Peer(f"TensorFlow by hand{hashed}", "tensorflow_variable"),
        Peer(f"keras.layers.Embedding{hashed}", "keras_layers", "build", timing.KERAS, 2),
    ]


def main(arguments=None, name=None):
    question = __doc__.splitlines()[0]
    options, name = timing.workload_options(question, arguments, name, TITLES)
    return timing.run(TITLES[name], workloads.NAMES[name.lower()], peers_of(name), options)


if __name__ == "__main__":
    main()
