"""What do rows and slots in 16 bits bring?

    python -m benchmarks.row_dtypes [--workload W3]

The workloads and columns of `tables`, whose tables store rows and slots in float32 or in 16 bits.
"""

from benchmarks import timing
from benchmarks import workloads
from benchmarks.tables import TITLES
from benchmarks.timing import Peer

TITLE = "Steps of tables in 16 bits"
BASE = "float32"
PEERS = [
    Peer(BASE, "ours", columns=timing.OURS),
    Peer("bfloat16 rows", "ours", "build_bfloat16_rows", timing.OURS),
    Peer("the same, rounded to nearest", "ours", "build_nearest", timing.OURS),
    Peer("bfloat16 rows and slots", "ours", "build_bfloat16", timing.OURS),
    Peer("float16 rows, bfloat16 slots", "ours", "build_float16", timing.OURS),
]


def main(arguments=None, name=None):
    question = __doc__.splitlines()[0]
    options, name = timing.workload_options(question, arguments, name, TITLES)
    return timing.run(TITLES[name], workloads.NAMES[name.lower()], PEERS, options, BASE)


if __name__ == "__main__":
    main()
