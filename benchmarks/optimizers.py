"""What does a step cost with each optimizer, and with Adam in larger and larger tables?

    python -m benchmarks.optimizers [--parts rules rows]

rules: the table and ids of W2. Beside keras_sparse stands the Keras optimizer of the same name:
with `momentum` and all that follow Keras rewrites the whole table at every step.

rows: a static table of rows of 16, 26 ids a sample. Keras' tables end where the memory of this
machine ends.
"""

import statistics

import numpy as np

from benchmarks import timing
from benchmarks import workloads
from benchmarks.report import markdown
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.timing import Peer

TITLE = "Every optimizer on W2, and Adam in tables of more and more rows of 16"
RULES = timing.COLUMNS[1:]
WITHOUT_COUNTERPART = ("adagrad_decay", "row_wise_adagrad", "lazy_adam")
OURS = Peer("keras_sparse", "ours", columns=RULES)
KERAS = Peer(
    "keras.layers.Embedding",
    "keras_layers",
    columns=tuple(rule for rule in RULES if rule not in WITHOUT_COUNTERPART),
    extra_copies=2,
)
ROWS = (1_000_000, 5_000_000, 20_000_000, 50_000_000)
KERAS_ROWS = 20_000_000


def medians(workload, peers, options):
    """Milliseconds by the names of columns, a dict a peer."""
    times = timing.compare(workload, peers, options)["times"]
    return [
        {
            column: statistics.median(each[peer.name])
            for column, each in times.items()
            if peer.name in each
        }
        for peer in (OURS, KERAS)
    ]


def rules(options):
    """One row an optimizer: the medians, and how they compare with Adagrad and with Keras."""
    options.columns = [column for column in options.columns if column in RULES]
    ours, keras = medians(workloads.w2(options.workload_scale), [OURS, KERAS], options)
    rows = []
    for name, ms in ours.items():
        cells = [name, f"{ms:.3g}", f"{ms / ours['adagrad']:.2f}" if "adagrad" in ours else ""]
        theirs = keras.get(name)
        rows.append([*cells, *([f"{theirs:.3g}", f"{theirs / ms:.0f}"] if theirs else ["", ""])])
    return markdown(["", "keras_sparse, ms", "to Adagrad", "Keras, ms", "Keras to ours"], rows)


def rows(options):
    """One row a size of the table: medians."""
    options.columns = ["adam", "lazy_adam"]
    lines = []
    for num_rows in ROWS:
        say(f"{num_rows:,} rows")
        workload = workloads.one_table(int(num_rows * options.workload_scale))
        peers = [OURS, KERAS] if num_rows <= KERAS_ROWS else [OURS]
        ours, keras = medians(workload, peers, options)
        distinct = statistics.mean(len(np.unique(batch[0])) for batch in workload.ids)
        cells = [f"{ours['adam']:.3g}", f"{ours['lazy_adam']:.3g}"]
        cells.append(f"{keras['adam']:.3g}" if keras else "")
        lines.append([f"{workload.input_dim:,}", f"{distinct:,.0f}", *cells])
    head = ["rows", "ids of a batch, distinct", "keras_sparse, Adam", "LazyAdam", "Keras, Adam"]
    return markdown(head, lines)


PARTS = {"rules": rules, "rows": rows}


def main(arguments=None):
    parser = timing.parser(__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    options, _ = parser.parse_known_args(arguments)
    texts = [f"{part}:\n\n{PARTS[part](options)}" for part in options.parts]
    return show(TITLE, "\n\n".join(texts))


if __name__ == "__main__":
    main()
