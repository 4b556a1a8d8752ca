"""What does a step cost with each optimizer?

    python -m benchmarks.optimizers

The table and ids of W2. Beside keras_sparse stands the Keras optimizer of the same name: with
`momentum` and all that follow Keras rewrites the whole table at every step.
"""

import statistics

from benchmarks import timing
from benchmarks import workloads
from benchmarks.report import markdown
from benchmarks.report import say
from benchmarks.report import show
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
    ours, keras = (
        {
            name: statistics.median(each[peer.name])
            for name, each in times.items()
            if peer.name in each
        }
        for peer in PEERS
    )
    rows = []
    for name, milliseconds in ours.items():
        to_adagrad = f"{milliseconds / ours['adagrad']:.2f}" if "adagrad" in ours else ""
        cells = (
            [f"{keras[name]:.3g}", f"{keras[name] / milliseconds:.0f}"]
            if name in keras
            else ["", ""]
        )
        rows.append([name, f"{milliseconds:.3g}", to_adagrad, *cells])
    return markdown(["", "keras_sparse, ms", "to Adagrad", "Keras, ms", "Keras to ours"], rows)


def main(arguments=None):
    options, _ = timing.parser(TITLE).parse_known_args(arguments)
    options.columns = [column for column in options.columns if column in RULES]
    say(f"{TITLE}: drawing ids")
    result = timing.compare(workloads.w2(options.workload_scale), PEERS, options)
    return show(TITLE, table(result["times"]))


if __name__ == "__main__":
    main()
