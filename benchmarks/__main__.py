"""Runs every benchmark and prints one page of Markdown; `--write` puts it into the docs.

    python -m benchmarks [--write] [--only W1 W2 ...] [options of the scripts]

Every script also runs by itself. The machine should have nothing else to do.
"""

import argparse
import importlib
import os
import pathlib
import platform
import sys
import time
from importlib import metadata

from benchmarks import tables

# By the name of a part its script, and what of it.
SCRIPTS = {
    **{name: ("tables", name) for name in tables.TITLES},
    "W1w": ("as_written", "W1"),
    "W4w": ("as_written", "W4"),
    "optimizers": ("optimizers",),
    "bandwidth": ("bandwidth",),
    "memory": ("memory",),
    "saving": ("saving",),
    "serving": ("serving",),
    "storage tiers": ("storage_tiers",),
    "lookups ahead": ("async_lookup",),
    "distributed": ("distributed",),
    "small models": ("small_models",),
    "row dtypes": ("row_dtypes",),
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


def write_page(text):
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{rest.split(END)[1]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the results to the docs page")
    parser.add_argument("--only", nargs="+", default=list(SCRIPTS), choices=SCRIPTS)
    options, arguments = parser.parse_known_args()
    scripts = {name: importlib.import_module(f"benchmarks.{SCRIPTS[name][0]}") for name in SCRIPTS}
    facts = [*machine_facts(), f"- Date: {time.strftime('%Y-%m-%d')}"]
    if arguments:
        facts.append(f"- Options: `{' '.join(arguments)}`")
    parts = ["\n".join(facts)]
    for name in options.only:
        script, part = scripts[name], SCRIPTS[name][1:]
        title = script.TITLES[name] if part else script.TITLE
        parts.append(f"### {title}\n\n{script.main(arguments, *part)}")
    text = "\n\n".join(parts)
    print(text)
    if options.write:
        write_page(text)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
