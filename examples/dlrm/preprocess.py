"""From raw lines to split binary: `python -m examples.dlrm preprocess`."""

import argparse
import collections
import concurrent.futures
import functools
import multiprocessing
import os
import pathlib

from examples.dlrm import encode
from examples.dlrm import raw_lines
from examples.dlrm import split_binary

DESCRIPTION = """\
Makes features of raw lines: those of `train.txt` of Criteo's Kaggle set, of the day files of the
1TB set (also as .gz), or of what `generate` writes.

Categories become ids by --hash_buckets, in one pass. Or by --frequency_threshold, which counts
them first: those that are seen less often share id 0 with what is missing. Files are read a piece
at a time; what counting needs of memory grows with the number of distinct categories, by some 80
bytes for each.
"""
_MOVED_BYTES = 64 << 20


def add_options(parser):
    parser.description = DESCRIPTION
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--train", nargs="+", required=True, metavar="FILE", help="raw files, in their order")
    add("--test", nargs="+", default=[], metavar="FILE", help="raw files of the test part")
    add(
        "--test_fraction",
        type=float,
        default=1 / 7,
        help="without --test: the last samples of --train, the seventh day of Kaggle's (1/7)",
    )
    add("--output", required=True, metavar="FOLDER", help="for the features")
    way = parser.add_mutually_exclusive_group(required=True)
    way.add_argument("--hash_buckets", type=int, help="ids of each category, the missing one too")
    way.add_argument("--frequency_threshold", type=int, help="how often a category must be seen")
    add("--numerical_dtype", choices=("float16", "float32"), default="float16")
    add("--processes", type=int, default=1, help="which parse lines (1)")
    add("--chunk_mb", type=float, default=1, help="of raw lines, read at a time (1)")


def main(options):
    _check(options)
    output = pathlib.Path(options.output)
    if (output / split_binary.SIZES).exists():
        raise FileExistsError(
            "`--output` must be a folder without a data set. Remove it, or give another. "
            f"Received: --output {output}"
        )
    encoder = make_encoder(options)
    work = functools.partial(_encode, dtype=options.numerical_dtype)
    with split_binary.Writer(output / "train") as train:
        for columns in _each_chunk(work, options.train, "train", options, encoder):
            train.write(columns)
    if not train.num_samples:
        raise ValueError(f"`--train` must have samples. Received: --train {options.train}")
    if options.test:
        with split_binary.Writer(output / "test") as test:
            for columns in _each_chunk(work, options.test, "test", options, encoder):
                test.write(columns)
        num_train, num_test = train.num_samples, test.num_samples
    else:
        num_test = int(train.num_samples * options.test_fraction)
        num_train = train.num_samples - num_test
        folders = output / "train", output / "test"
        split_binary.move_tail(*folders, train.num_samples, num_test, _MOVED_BYTES)
    split_binary.write_sizes(output, encoder.num_ids)
    print(
        f"{num_train:,} samples to train on and {num_test:,} to test, with "
        f"{sum(encoder.num_ids):,} ids in {len(encoder.num_ids)} categories: {output}"
    )


def make_encoder(options):
    if options.hash_buckets is not None:
        return encode.Hashing(options.hash_buckets)
    counts = encode.Counts()
    for some in _each_chunk(_count, options.train, "count", options):
        counts.add(some)
    return encode.Vocabulary(counts.all(), options.frequency_threshold)


def _check(options):
    least = {"hash_buckets": 2, "frequency_threshold": 1, "processes": 1}
    for name, value in least.items():
        received = getattr(options, name)
        if received is not None and received < value:
            raise ValueError(f"`--{name}` must be at least {value}. Received: {received}")
    if not options.chunk_mb > 0:
        raise ValueError(f"`--chunk_mb` must be above 0. Received: {options.chunk_mb}")
    for path in [*options.train, *options.test]:
        if not os.path.isfile(path):
            raise FileNotFoundError(f"`--train` and `--test` must be files. Received: {path}")
    if not {*options.train}.isdisjoint(options.test):
        raise ValueError(
            "`--test` must have files that `--train` has not, or a model is tested on what it has "
            f"seen. Received: --test {options.test}"
        )
    if not 0 <= options.test_fraction < 1:
        raise ValueError(
            f"`--test_fraction` must be from 0 up to 1, without it. Received: "
            f"{options.test_fraction}"
        )


def _each_chunk(work, paths, title, options, encoder=None):
    """Yields what `work` makes of each chunk of the files, in order, and shows how far that is."""
    import keras  # where it is needed: processes that parse lines do without

    total = max(1, round(raw_lines.num_bytes(paths) / 1e6))
    bar, done = keras.utils.Progbar(total, unit_name="MB"), 0
    print(f"{title}: {', '.join(map(str, paths))}")
    chunk_bytes = max(1, int(options.chunk_mb * 1e6))
    chunks = (chunk for path in paths for chunk in raw_lines.read_chunks(path, chunk_bytes))
    for num_bytes, result in _in_order(work, chunks, options.processes, encoder):
        done += num_bytes
        bar.update(min(total, int(done / 1e6)), finalize=False)
        yield result
    bar.update(total, finalize=True)


def _in_order(work, chunks, num_processes, encoder):
    """Yields the bytes of each chunk and what `work` makes of it; few chunks are there at once."""
    if num_processes == 1:
        _keep(encoder)
        yield from ((chunk.num_bytes, work(chunk)) for chunk in chunks)
        return
    context = multiprocessing.get_context("spawn")  # a fork of TensorFlow's threads may hang
    with concurrent.futures.ProcessPoolExecutor(
        num_processes, context, initializer=_keep, initargs=(encoder,)
    ) as pool:
        waiting: collections.deque = collections.deque()
        for chunk in chunks:
            waiting.append((chunk.num_bytes, pool.submit(work, chunk)))
            if len(waiting) > 2 * num_processes:
                num_bytes, future = waiting.popleft()
                yield num_bytes, future.result()
        yield from ((num_bytes, future.result()) for num_bytes, future in waiting)


# A vocabulary may be large: each process gets it once, not with every chunk.
_kept = None


def _keep(encoder):
    global _kept
    _kept = encoder


def _encode(chunk, dtype):
    return encode.encode(chunk, _kept, dtype)


def _count(chunk):
    return encode.count(chunk)
