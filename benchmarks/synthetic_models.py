"""How long is a training step of the synthetic models of NVIDIA Merlin distributed-embeddings?

    python -m benchmarks.synthetic_models --model tiny --batch_size 65536 --optimizer adagrad
    horovodrun -np 2 python -m benchmarks.synthetic_models --model tiny --scale 0.1

The models are those of `benchmarks/synthetic/models.py`; options are named as the original's. Ids
follow its power law: the first rows of a table are the most used ones. A step is that of the whole
model in one `tf.function`: lookup of all tables, dense layers, gradients, update. `--scale` makes
tables shorter. With `--storage` of two tiers the large tables take any key and keep most rows on a
disk, with HBM all are in the memory of a GPU. `--api ours keras dense` lets these take turns in one
process: our tables, those of Keras, and none, where rows are given and only their gradient is made.
`--trace` prints a timeline of the GPU's work in some more steps (`benchmarks/gpu/timeline.py`).

Every row has its place before the clock starts (`--make_rows all`), as where rows were trained
before. The rows of batches that come in turn are soon in memory: where a disk is to be timed, take
`--num_data_batches 0`. Ranks print once, and their batch is that of all ranks together.
"""

import argparse
import json
import os
import pathlib

from benchmarks.process import environment_of
from benchmarks.synthetic.models import MODELS

TITLE = "Synthetic models of distributed-embeddings, a training step"
STORAGES = ("DRAM", "HBM", "DRAM_SSDHASH", "DRAM_LEVELDB")


def parser():
    made = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = made.add_argument
    yes_no = argparse.BooleanOptionalAction
    add("--model", default="tiny", choices=MODELS)
    add("--scale", type=float, default=1.0, help="rows of the tables, x this; up to 1")
    add("--batch_size", type=int, default=65_536, help="samples of all ranks (65536)")
    add("--optimizer", default="adagrad", choices=("sgd", "adagrad", "adam"))
    add("--alpha", type=float, default=1.05, help="of the power law; 0: all ids alike (1.05)")
    add("--api", nargs="+", default=["ours"], choices=("ours", "keras", "dense"))
    add("--storage", default="DRAM", choices=STORAGES)
    add("--storage_path", help="a folder on the disk for rows")
    add("--first_tier", default="4GiB", help="memory for rows of a rank, with a disk (4GiB)")
    add(
        "--make_rows", default="all", choices=("all", "batch"), help="before the clock, or of steps"
    )
    add("--dp_input", action=yes_no, default=True, help="ranks pass their samples of all inputs")
    add("--strategy", help="of the plan; auto, or memory_balanced with --no-dp_input")
    add("--column_slice_threshold", type=int, help="elements of a table")
    add("--num_steps", type=int, default=100)
    add("--warm_steps", type=int, default=5, help="before the clock starts (5)")
    add("--num_data_batches", type=int, default=10, help="in turn; 0: none twice (10)")
    add("--trace", type=int, default=0, help="steps of `ours` for a timeline, with HBM (0)")
    add("--bandwidth", action=yes_no, default=True, help="measure what memory gives")
    add("--threads", type=int, default=os.cpu_count(), help="of a rank (all cores)")
    add("--json", type=pathlib.Path, help="also write all of it to this file")
    return made


def check(options, num_ranks):
    """Fills in what depends on other options. Raises where they do not fit together."""
    from keras_sparse.utils.byte_sizes import parse_bytes

    if options.strategy is None:
        options.strategy = "auto" if options.dp_input else "memory_balanced"
    options.first_tier = parse_bytes(options.first_tier, "first_tier")
    if "_" in options.storage and "keras" in options.api:
        raise ValueError(
            "`--storage` must be DRAM or HBM with --api keras, whose tables are "
            f"in memory: leave it out. Received: storage='{options.storage}'"
        )
    if options.trace and (options.storage != "HBM" or "ours" not in options.api):
        raise ValueError(
            "`--trace` must be 0 unless --storage is HBM and --api has ours. Received: "
            f"trace={options.trace}, storage='{options.storage}', api={options.api}"
        )
    if options.batch_size % num_ranks:
        raise ValueError(
            "`--batch_size` must be a multiple of the number of ranks. Received: "
            f"batch_size={options.batch_size} on {num_ranks} ranks"
        )


def main(arguments=None):
    options = parser().parse_args(arguments)
    os.environ.update(environment_of(options.threads))
    model = MODELS[options.model].scaled(options.scale)
    from benchmarks.synthetic.measure import measure
    from benchmarks.synthetic.report import report
    from keras_sparse import distribute

    distribute.init()
    check(options, distribute.size())
    facts = measure(model, options)
    text = report(facts)
    if distribute.rank() > 0:
        return text
    print(f"{TITLE}\n\n{text}\n", flush=True)
    if options.json:
        options.json.write_text(json.dumps(facts))
    return text


if __name__ == "__main__":
    main()
