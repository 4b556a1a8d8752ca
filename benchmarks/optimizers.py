"""What does a step cost with each optimizer?

    python -m benchmarks.optimizers

The table and ids of W2. Beside keras_sparse stands the Keras optimizer of the same name: with
`momentum` and all that follow Keras rewrites the whole table at every step.
"""

import statistics

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "Every optimizer on W2: 5,000,000 x 64, ragged 1 to 20 ids, sum"
RULES = timing.COLUMNS[1:]
WITHOUT_COUNTERPART = ("adagrad_decay", "row_wise_adagrad", "lazy_adam")
PEERS = [
    Peer("keras_sparse", "ours", columns=RULES),
    Peer(
        "keras.layers.Embedding",
        "keras_layers",
        columns=tuple(rule for rule in RULES if rule not in WITHOUT_COUNTERPART),
        extra_copies=2,
    ),
]


def table(times):
    """One row an optimizer: the medians, and how they compare with Adagrad and with Keras."""
    ours, keras = (peer.name for peer in PEERS)
    names = [name for name in times if ours in times[name]]
    medians = {name: statistics.median(times[name][ours]) for name in names}
    lines = ["| | keras_sparse, ms | to Adagrad | Keras, ms | Keras to ours |", "|---" * 5 + "|"]
    for name in names:
        to_adagrad = f"{medians[name] / medians['adagrad']:.2f}" if "adagrad" in medians else ""
        theirs = statistics.median(times[name][keras]) if keras in times[name] else None
        cells = [f"{theirs:.3g}", f"{theirs / medians[name]:.0f}"] if theirs else ["", ""]
        cells = [name, f"{medians[name]:.3g}", to_adagrad, *cells]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments=None):
    options, _ = timing.parser(TITLE).parse_known_args(arguments)
    options.columns = [column for column in options.columns if column in RULES]
    timing.say(f"{TITLE}: drawing ids")
    result = timing.compare(workloads.w2(options.workload_scale), PEERS, options)
    text = table(result["times"])
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
