"""What do rows and slots in 16 bits bring?

    python -m benchmarks.row_dtypes [--workload W3]
    python -m benchmarks.row_dtypes --sizes [--rows 5000000]

First the workloads and columns of `tables`, whose tables store rows and slots in float32 or in 16
bits. With `--sizes`: memory and checkpoints of one table of rows of 64, and rows read a second from
an SSD tier whose first tier holds hardly any.
"""

import itertools
import pathlib
import shutil
import sys
import tempfile
import time

from benchmarks import timing
from benchmarks import workloads
from benchmarks.process import in_fresh_process
from benchmarks.report import markdown
from benchmarks.report import say
from benchmarks.report import show
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
    Peer("plain C++, float32", "floor", "build_huge", timing.PLAIN),
    Peer("plain C++, bfloat16, rounded to nearest", "floor", "build_bfloat16"),
]

DIM = 64
RULES = ("SGD", "Adagrad", "RowWiseAdagrad", "LazyAdam")
DTYPES = {
    "float32": {},
    "bfloat16 rows": {"row_dtype": "bfloat16"},
    "bfloat16 rows and slots": {"row_dtype": "bfloat16", "slot_dtype": "bfloat16"},
}
LOOKUPS, LOOKUP_ROWS = 30, 50_000


def size_of(rule, dtypes, num_rows):
    """Returns bytes of memory, bytes of a checkpoint, and seconds to save and to load it."""
    import keras

    import keras_sparse

    layer = keras_sparse.layers.Embedding(num_rows, DIM, name="table", **dtypes)
    model = keras.Sequential([keras.Input((1,), dtype="int64"), layer])
    model.compile(getattr(keras_sparse.optimizers, rule)(), loss="mse")
    model.optimizer.build(model.trainable_variables)
    folder = pathlib.Path(tempfile.mkdtemp())
    try:
        start = time.perf_counter()
        keras_sparse.saving.save_checkpoint(model, folder / "saved")
        saved = time.perf_counter()
        keras_sparse.saving.load_checkpoint(model, folder / "saved")
        loaded = time.perf_counter()
        on_disk = sum(path.stat().st_size for path in (folder / "saved").rglob("*"))
    finally:
        shutil.rmtree(folder)
    return layer.stats()["bytes"], on_disk, saved - start, loaded - saved


def rows_a_second_from_ssd(dtypes, num_rows):
    """Returns rows of 64 with Adagrad that lookups of keys on disk read in a second."""
    import numpy as np
    import tensorflow as tf

    import keras_sparse

    with tempfile.TemporaryDirectory() as folder:
        storage = keras_sparse.StorageOption(
            "DRAM_SSDHASH", storage_path=folder, storage_size=["1MB", "8GB"]
        )
        table = keras_sparse.EmbeddingVariable(None, DIM, storage=storage, **dtypes)
        optimizer = keras_sparse.optimizers.Adagrad()
        optimizer.build([table])
        keys = np.random.default_rng(0).permutation(num_rows)
        for some in np.array_split(keys, max(1, num_rows // 100_000)):
            table.assign(some, np.full((len(some), DIM), 0.1, np.float32))
        table.stats()  # once nothing is written any more
        lookup = tf.function(lambda ids: keras_sparse.ops.lookup([table], [ids])[0])
        drawn = np.random.default_rng(1).integers(0, num_rows, (LOOKUPS, LOOKUP_ROWS))
        lookup(tf.constant(drawn[0]))
        start = time.perf_counter()
        for ids in drawn[1:]:
            lookup(tf.constant(ids))
        return (LOOKUPS - 1) * LOOKUP_ROWS / (time.perf_counter() - start)


def sizes(num_rows):
    rows = []
    for rule, (name, dtypes) in itertools.product(RULES, DTYPES.items()):
        say(f"{rule}: {name}")
        memory, on_disk, save, load = in_fresh_process(size_of, rule, dtypes, num_rows)
        if name == BASE:
            base = memory, on_disk
        cells = (f"{memory / 2**20:,.0f}", f"{memory / base[0]:.2f}", f"{on_disk / 2**20:,.0f}")
        rows.append([rule, name, *cells, f"{on_disk / base[1]:.2f}", f"{save:.2f}", f"{load:.2f}"])
    head = ["optimizer", "table", "memory MiB", "of float32's", "checkpoint MiB"]
    table = markdown([*head, "of float32's", "save s", "load s"], rows)
    rates = []
    for name, dtypes in DTYPES.items():
        say(f"SSD: {name}")
        rates.append(in_fresh_process(rows_a_second_from_ssd, dtypes, num_rows // 5))
    cells = zip(DTYPES, rates, strict=True)
    rates = [[name, f"{rate:,.0f}", f"{rate / rates[0]:.2f}"] for name, rate in cells]
    ssd = markdown(["Adagrad, rows on an SSD tier", "rows a second", "of float32's"], rates)
    return show(f"{num_rows:,} rows of {DIM}", f"{table}\n\n{ssd}")


def main(arguments=None, name=None):
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if "--sizes" in arguments:
        arguments.remove("--sizes")
        return sizes(int(arguments[1]) if arguments[:1] == ["--rows"] else 5_000_000)
    question = __doc__.splitlines()[0]
    options, name = timing.workload_options(question, arguments, name, TITLES)
    return timing.run(TITLES[name], workloads.NAMES[name.lower()], PEERS, options, BASE)


if __name__ == "__main__":
    main()
