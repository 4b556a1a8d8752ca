"""How close are the kernels of tables in GPU memory to what the GPU's memory gives, and to torch?

    make bench-gpu                          both parts: this one and benchmarks.gpu.steps
    python -m benchmarks.gpu.kernels PROGRAM --json FILE

PROGRAM is `keras_sparse_gpu_bench`, built of `kernels.cu`. Neither needs TensorFlow. It traces
steps of the tables of Tiny (`benchmarks/synthetic/models.py`) for a timeline. Then it times kernels
by the GPU's clock: of static tables, of static ones with rows in bfloat16, and of dynamic ones.
Beside it torch looks up and updates tables of the same size with the same ids, where it is
installed (`.venv/bin/pip install torch`, a build for CUDA).

The bytes of a kernel are those that it has to move if no id comes twice: a kernel near the
bandwidth of a copy can hardly be faster. Of ids of a power law, of which many come twice, caches
give some, and a share of more than all is no mistake.
"""

import argparse
import json
import pathlib
import subprocess
import tempfile
import time

import numpy as np

from benchmarks import workloads
from benchmarks.gpu import timeline
from benchmarks.synthetic.batches import draw_batch
from benchmarks.synthetic.models import MODELS

NUM_ROWS = 4_000_000
NUM_IDS = 1 << 20
SLOTS = {"sgd": 0, "row_wise_adagrad": 0, "adagrad": 1, "lazy_adam": 2, "adam": 2}
# Floats of a record beside row and slots: the accumulator of a row, the number of its last step.
WORDS = {"row_wise_adagrad": 1, "adam": 1}
BAG_IDS = 16
TINY_BATCH = 65_536


def draw_ids():
    """One id a place, of a power law and all alike."""
    generator = np.random.default_rng(workloads.SEED)
    ranks = workloads.zipf_ranks(generator, NUM_ROWS, NUM_IDS)
    return {
        "power law": generator.permutation(NUM_ROWS)[ranks],
        "uniform": generator.integers(0, NUM_ROWS, NUM_IDS),
    }


def write_tiny(path):
    """Writes the tables of Tiny and a batch, as `kernels.cu` reads them; returns `lookups_of`."""
    model = MODELS["tiny"]
    ids = draw_batch(model, 0, TINY_BATCH, workloads.ALPHA, slice(None))[0]
    sizes, parts = [], []
    for table, inputs in timeline.ids_of_tables(model, ids, TINY_BATCH).items():
        lengths = np.repeat([each.shape[1] for each in inputs], TINY_BATCH)
        of_table = model.tables[table]
        sizes += [of_table.rows, of_table.width, len(lengths), lengths.sum()]
        parts += [[0], np.cumsum(lengths), *map(np.ravel, inputs)]
    np.concatenate([[len(sizes) // 4], sizes, *parts]).astype(np.int64).tofile(path)
    return timeline.lookups_of(model, ids, TINY_BATCH, SLOTS["adagrad"])


def record_bytes(rule, dim, row):
    """Bytes of a record in GPU memory, whose row has so many."""
    size = row + 4 * (dim * SLOTS[rule] + WORDS.get(rule, 0))
    return -(-size // 32) * 32


def bytes_of(name, dim, n):
    """Returns the bytes that a kernel has to move for `n` ids, or `None` if it is none.

    Reading a row takes the row; an update reads the gradient and reads and writes the record.
    """
    kind, _, what = name.partition(" ")
    floats = 4 * dim
    row = floats // 2 if kind == "bfloat16" else floats
    if name.startswith("copy"):
        return 2 * n if name == "copy on the GPU" else n
    if what == "find":
        return n * (8 + 4 + (128 if kind == "dynamic" else 0))
    if what == "gather":
        return n * (4 + row + floats)
    if what == "pool":
        return n * (4 + row + floats / BAG_IDS)
    return n * (4 + floats + 2 * record_bytes(what, dim, row)) if what in SLOTS else None


def rates_of(ours):
    """Returns GB/s of copies, by their names."""
    copies = [each for each in ours if each["name"].startswith("copy")]
    return {
        each["name"]: bytes_of(each["name"], 0, each["n"]) / each["ms"] / 1e6 for each in copies
    }


def run_ours(program, ids):
    """Runs the program. Returns what it timed, and what it traced, or `None`."""
    with tempfile.TemporaryDirectory() as folder:
        tiny, orders = pathlib.Path(folder, "tiny"), []
        lookups = write_tiny(tiny)
        for order, values in ids.items():
            path = pathlib.Path(folder, order)
            values.astype(np.int64).tofile(path)
            orders.append(f"{order}={path}")
        command = [program, tiny, str(NUM_ROWS), *orders]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    facts = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode:
        print(f"{program} stopped with {done.returncode}", flush=True)
    traces = [timeline.named(each) | {"lookups": lookups} for each in facts if "works" in each]
    return [each for each in facts if "name" in each], traces[0] if traces else None


def torch_ms(torch, call, calls=10, rounds=5):
    """Milliseconds by the GPU's clock of a call, the median of some rounds."""
    times = []
    for _ in range(rounds + 1):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(calls):
            call()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / calls)
    return sorted(times[1:])[rounds // 2]


def run_torch(ids, seconds):
    """The same of torch: rows, sums of bags, and a step of its sparse optimizers.

    It takes up no other size of rows after so many seconds.
    """
    try:
        import torch

        torch.zeros(1, device="cuda")
    except (ImportError, AssertionError, RuntimeError) as error:
        print(f"torch is left out ({error}): pip install torch, a build for CUDA", flush=True)
        return []
    facts = []
    end = time.monotonic() + seconds
    for dim in (64, 128, 32, 16):
        if time.monotonic() > end:
            print(f"torch with {dim} columns is left out: the time is up", flush=True)
            continue
        weight = torch.nn.Parameter(torch.rand(NUM_ROWS, dim, device="cuda"))
        for order, values in ids.items():
            for name, call in torch_calls(torch, weight, torch.as_tensor(values, device="cuda")):
                ms = torch_ms(torch, call)
                facts.append({"name": name, "ids": order, "dim": dim, "n": NUM_IDS, "ms": ms})
    return facts


def torch_calls(torch, weight, ids):
    """Yields what torch is timed with: pairs of our name of it and a function."""
    functional = torch.nn.functional
    offsets = torch.arange(0, NUM_IDS, BAG_IDS, device="cuda")
    dim = weight.shape[1]
    with torch.no_grad():
        yield "gather", lambda: functional.embedding(ids, weight)
        yield "pool", lambda: functional.embedding_bag(ids, weight, offsets, mode="sum")
    grads = torch.randn(NUM_IDS, dim, device="cuda") * 0.01
    for name, make in {
        "sgd": torch.optim.SGD,
        "adagrad": torch.optim.Adagrad,
        "lazy_adam": torch.optim.SparseAdam,
    }.items():
        if name != "adagrad" and dim != 64:
            continue
        optimizer = make([weight], 0.01)

        def step(optimizer=optimizer):
            # As `sparse=True` gives it: ids as they came, and a gradient each.
            weight.grad = torch.sparse_coo_tensor(
                ids[None], grads, weight.shape, check_invariants=False
            )
            optimizer.step()

        yield name, step


def table(ours, peers):
    """Lines of text: what each took, the share of a copy's bandwidth, torch's time over ours."""
    rate = rates_of(ours)["copy on the GPU"]
    of_torch = {(each["name"], each["ids"], each["dim"]): each["ms"] for each in peers}
    lines = [f"{'':27} {'ids':>10} {'dim':>4} {'ms':>9} {'GB/s':>7} {'of copy':>7} {'torch':>6}"]
    for each in ours:
        name, order, dim, ms = each["name"], each["ids"], each["dim"], each["ms"]
        moved = bytes_of(name, dim, each["n"])
        gbs = f"{moved / ms / 1e6:7.0f} {moved / ms / 1e6 / rate:7.0%}" if moved else " " * 15
        peer = of_torch.get((name.removeprefix("static "), order, dim))
        beside = f"{peer / ms:5.2f}x" if peer else ""
        lines.append(f"{name:27} {order:>10} {dim:4} {ms:9.4f} {gbs} {beside:>6}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=90, help="begin nothing after these (90)")
    parser.add_argument("--json", type=pathlib.Path, help="also write all of it to this file")
    options = parser.parse_args()
    begin = time.monotonic()
    ids = draw_ids()
    (ours, trace), peers = run_ours(options.program.resolve(), ids), []

    def write():
        if options.json:
            options.json.write_text(json.dumps({"ours": ours, "trace": trace, "torch": peers}))

    write()
    if not ours:  # it has said why
        raise SystemExit(1)
    if trace:
        rate = rates_of(ours)["copy on the GPU"]
        print(f"The tables of Tiny\n\n{timeline.table(trace, rate)}\n")
    print(table(ours, []), flush=True)
    used = time.monotonic() - begin
    print(f"({used:.0f} s)\n", flush=True)
    peers = run_torch(ids, options.seconds - used)
    write()
    if peers:
        print(f"Beside torch\n\n{table(ours, peers)}", flush=True)
        print(f"({time.monotonic() - begin - used:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
