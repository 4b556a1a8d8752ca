"""Runs a function in a fresh process, and reads what memory that process holds."""

import concurrent.futures
import multiprocessing
import os

ENVIRONMENT = {"TF_CPP_MIN_LOG_LEVEL": "3", "KERAS_BACKEND": "tensorflow"}


def in_fresh_process(function, *arguments):
    """Calls a module's function in a process that has run nothing before."""
    os.environ.update(ENVIRONMENT)
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        return pool.submit(function, *arguments).result()


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


def mib(num_bytes):
    return f"{num_bytes / 2**20:,.0f}"
