"""Does a step of Adam cost more in a larger table?

    python -m benchmarks.table_rows

One static table of rows of 16, 26 ids a sample. Keras' tables end where the memory of this machine
ends.
"""

import statistics

from benchmarks import timing
from benchmarks import workloads
from benchmarks.timing import Peer

TITLE = "A step of Adam in tables of more and more rows of 16, ms"
ROWS = (1_000_000, 5_000_000, 20_000_000, 50_000_000)
KERAS_ROWS = 20_000_000
PEERS = [
    Peer("keras_sparse", "ours", columns=("adam", "lazy_adam")),
    Peer("keras.layers.Embedding", "keras_layers", columns=("adam",), extra_copies=2),
]


def main(arguments=None):
    options, _ = timing.parser(TITLE).parse_known_args(arguments)
    options.columns = ["adam", "lazy_adam"]
    lines = [
        "| rows | ids of a batch, distinct | keras_sparse, Adam | LazyAdam | Keras, Adam |",
        "|---" * 5 + "|",
    ]
    for rows in ROWS:
        timing.say(f"{TITLE}: {rows:,} rows")
        workload = workloads.one_table(int(rows * options.workload_scale))
        peers = PEERS if rows <= KERAS_ROWS else PEERS[:1]
        times = timing.compare(workload, peers, options)["times"]
        medians = {
            (column, peer): f"{statistics.median(values):.3g}"
            for column, of_peers in times.items()
            for peer, values in of_peers.items()
        }
        distinct = statistics.mean(len(set(batch[0].tolist())) for batch in workload.ids)
        cells = [f"{workload.input_dim:,}", f"{distinct:,.0f}"]
        for column, peer in (("adam", 0), ("lazy_adam", 0), ("adam", 1)):
            cells.append(medians.get((column, PEERS[peer].name), ""))
        lines.append("| " + " | ".join(cells) + " |")
    text = "\n".join(lines)
    print(f"{TITLE}\n\n{text}\n", flush=True)
    return text


if __name__ == "__main__":
    main()
