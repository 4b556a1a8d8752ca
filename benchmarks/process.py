"""Runs a function in a fresh process, and reads and limits what memory that process holds."""

import concurrent.futures
import mmap
import multiprocessing
import os
import resource

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


def in_fresh_process(function, *arguments):
    """Calls a module's function in a process that has run nothing before."""
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context, silence) as pool:
        return pool.submit(function, *arguments).result()


def silence():
    """Drops what libraries print; an exception still reaches the caller."""
    if not os.getenv("BENCHMARKS_VERBOSE"):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)


def resident_bytes(field="RssAnon"):
    """Memory of this process: `RssAnon` now, or `VmHWM`, the most since `forget_peak`."""
    with open("/proc/self/status") as lines:
        for line in lines:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    raise KeyError(field)


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def may_map(num_bytes):
    """Returns whether the system would give this process that number of bytes more."""
    try:
        mmap.mmap(-1, num_bytes, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS).close()
    except OSError:
        return False
    return True


def limit_memory(num_bytes):
    """Limits the private memory of this process, and sees that the limit holds."""
    before = may_map(num_bytes)
    resource.setrlimit(resource.RLIMIT_DATA, (num_bytes, num_bytes))
    if not before or may_map(num_bytes):
        raise RuntimeError(
            "The limit must be all that keeps a process from more memory: take Linux, and a "
            f"machine that has as much. Received: {num_bytes:,} bytes, given without it: {before}"
        )


def mib(num_bytes):
    return f"{num_bytes / 2**20:,.0f}"
