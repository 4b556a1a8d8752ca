"""Runs every benchmark and prints one page of Markdown; `--write` puts it into the docs.

    python -m benchmarks [--write] [--only W1 W2 ...] [options of benchmarks.timing]

Every script also runs by itself. The machine should have nothing else to do.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import sys
import tempfile
import time
from importlib import metadata

from benchmarks import admission
from benchmarks import as_written
from benchmarks import async_exchange
from benchmarks import async_lookup
from benchmarks import bandwidth
from benchmarks import beyond_memory
from benchmarks import checkpoints
from benchmarks import distributed
from benchmarks import dlrm
from benchmarks import dlrm_as_written
from benchmarks import dynamic_table
from benchmarks import eviction
from benchmarks import following
from benchmarks import memory
from benchmarks import optimizers
from benchmarks import pooled_bags
from benchmarks import saving
from benchmarks import serving
from benchmarks import small_models
from benchmarks import static_tables
from benchmarks import storage_tiers
from benchmarks import table_rows

TIMED = {
    "W1": static_tables,
    "W1w": as_written,
    "W2": pooled_bags,
    "W3": dynamic_table,
    "W4": dlrm,
    "W4w": dlrm_as_written,
}
OTHERS = {
    "optimizers": optimizers,
    "table rows": table_rows,
    "bandwidth": bandwidth,
    "memory": memory,
    "checkpoints": checkpoints,
    "saving": saving,
    "serving": serving,
    "following": following,
    "storage tiers": storage_tiers,
    "lookups ahead": async_lookup,
    "exchanges ahead": async_exchange,
    "admission": admission,
    "eviction": eviction,
    "beyond memory": beyond_memory,
    "distributed": distributed,
    "small models": small_models,
}
PAGE = pathlib.Path(__file__).parent.parent / "docs" / "benchmarks" / "results.md"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PACKAGES = ("keras-sparse", "tensorflow", "keras", "torch", "fbgemm-gpu-cpu", "numpy")


def read_text(path):
    try:
        return pathlib.Path(path).read_text().strip()
    except OSError:
        return "unknown"


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"


def machine_facts():
    """What a reader needs to know to compare."""
    processor = [line for line in read_text("/proc/cpuinfo").splitlines() if "model name" in line]
    memory_kib = int(read_text("/proc/meminfo").split()[1])
    load = os.getloadavg()
    return [
        f"- Processor: {processor[0].split(':')[1].strip() if processor else platform.machine()}, "
        f"{os.cpu_count()} cores; memory {memory_kib / 2**20:.0f} GiB; {platform.system()} "
        f"{platform.release()}; load before the run {load[0]:.1f}",
        f"- Transparent huge pages: {read_text('/sys/kernel/mm/transparent_hugepage/enabled')}, "
        f"defrag {read_text('/sys/kernel/mm/transparent_hugepage/defrag')}",
        "- Versions: Python "
        + platform.python_version()
        + ", "
        + ", ".join(f"{package} {version(package)}" for package in PACKAGES),
    ]


def summary(results):
    """One row a peer, one column a workload: the medians of all columns, in ms."""
    rows = {}
    for name, result in results.items():
        for column, peers in result["times"].items():
            for peer, times in peers.items():
                cells = rows.setdefault(peer.replace(", hashed", ""), {}).setdefault(name, {})
                cells[column] = f"{statistics.median(times):.3g}"
    lines = ["| ms a step | " + " | ".join(results) + " |", "|---" * (len(results) + 1) + "|"]
    for peer, cells in rows.items():
        texts = [
            " / ".join(cells.get(name, {}).get(column, "-") for column in result["times"])
            if name in cells
            else ""
            for name, result in results.items()
        ]
        lines.append(f"| {peer} | " + " | ".join(texts) + " |")
    columns = [f"{name}: {' / '.join(result['times'])}" for name, result in results.items()]
    return "\n".join([*lines, "", "; ".join(columns) + "."])


def write_page(text):
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the results to the docs page")
    names = [*TIMED, *OTHERS]
    parser.add_argument("--only", nargs="+", default=names, choices=names)
    options, arguments = parser.parse_known_args()
    if "beyond memory" in options.only:
        beyond_memory.parse(arguments)  # A disk that is too small is refused now.
    facts = [*machine_facts(), f"- Date: {time.strftime('%Y-%m-%d')}"]
    if arguments:
        facts.append(f"- Options: `{' '.join(arguments)}`")
    results, parts = {}, []
    with tempfile.TemporaryDirectory() as folder:
        for name, script in TIMED.items():
            if name in options.only:
                path = pathlib.Path(folder) / f"{script.__name__}.json"
                text = script.main([*arguments, "--json", str(path)])
                parts.append(f"### {script.TITLE}\n\n{text}")
                results[name] = json.loads(path.read_text())
    for name, script in OTHERS.items():
        if name in options.only:
            parts.append(f"### {script.TITLE}\n\n{script.main(arguments)}")
    text = "\n\n".join(["\n".join(facts), *([summary(results)] if results else []), *parts])
    print(text)
    if options.write:
        write_page(text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
