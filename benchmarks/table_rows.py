"""Does a step of Adam cost more in a larger table?

    python -m benchmarks.table_rows

One static table of rows of 16, 26 ids a sample. Keras' tables end where the memory of this machine
ends.
"""

import statistics

import numpy as np

from benchmarks import timing
from benchmarks import workloads
from benchmarks.report import markdown
from benchmarks.report import say
from benchmarks.report import show
from benchmarks.timing import Peer

TITLE = "A step of Adam in tables of more and more rows of 16, ms"
ROWS = (1_000_000, 5_000_000, 20_000_000, 50_000_000)
KERAS_ROWS = 20_000_000
PEERS = [
    Peer("keras_sparse", "ours", columns=("adam", "lazy_adam")),
    Peer("keras.layers.Embedding", "keras_layers", columns=("adam",), extra_copies=2),
]


HEAD = ["rows", "ids of a batch, distinct", "keras_sparse, Adam", "LazyAdam", "Keras, Adam"]


def row(workload, peers, options):
    """The cells of one number of rows: medians."""
    times = timing.compare(workload, peers, options)["times"]
    cells = [f"{workload.input_dim:,}"]
    cells.append(f"{statistics.mean(len(np.unique(batch[0])) for batch in workload.ids):,.0f}")
    for column, peer in (("adam", 0), ("lazy_adam", 0), ("adam", 1)):
        taken = times[column].get(PEERS[peer].name)
        cells.append(f"{statistics.median(taken):.3g}" if taken else "")
    return cells


def main(arguments=None):
    options, _ = timing.parser(TITLE).parse_known_args(arguments)
    options.columns = ["adam", "lazy_adam"]
    rows = []
    for num_rows in ROWS:
        say(f"{TITLE}: {num_rows:,} rows")
        workload = workloads.one_table(int(num_rows * options.workload_scale))
        rows.append(row(workload, PEERS if num_rows <= KERAS_ROWS else PEERS[:1], options))
    return show(TITLE, markdown(HEAD, rows))


if __name__ == "__main__":
    main()
