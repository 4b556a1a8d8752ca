#!/usr/bin/env python3
"""Checks that updates and missed moves of every rule were compiled to vector instructions.

    tools/check_vector_code.py OBJDUMP OBJECT...

A loop over a row that a compiler leaves as it stands computes with scalars alone. One that it
vectorises has each scalar computation on whole vectors too; its scalars are for the columns that
are left over.
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"^[0-9a-f]+ <(.*)>:$")
OF_ROWS = re.compile(r"::(UpdateRecords|Move\w*)\(")
# The accumulator of a row is a scalar.
PER_ROW = {"row_wise_adagrad.cc.o": {"add", "div", "sqrt"}}
BASE = "dense_rule.cc.o"  # what rules share
COMPUTATION = re.compile(r"\bv(fn?m\w+|add|sub|mul|div|sqrt)\d*([ps])s\b")


def computations(listing):
    """The instructions of functions that update and move rows, on scalars and 32-byte vectors.

    Forms of one multiplication and addition, which differ in their operands' places, are one.
    """
    scalars, vectors = set(), set()
    is_of_rows = None
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            is_of_rows = OF_ROWS.search(match[1])
        elif is_of_rows and (match := COMPUTATION.search(line)):
            kind = match[1].rstrip("0123456789")
            if match[2] == "s":
                scalars.add(kind)
            elif "%ymm" in line:
                vectors.add(kind)
    return scalars, vectors


def main(objdump, objects):
    """Returns the exit status: 1 if a rule computes on scalars."""
    paths = map(pathlib.Path, objects)
    rules = [path for path in paths if path.parent.name == "rules" or path.name == BASE]
    failed = len(rules) < 2
    for path in rules:
        command = [objdump, "--disassemble", "--demangle", "--no-show-raw-insn", path]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        scalars, vectors = computations(listing)
        alone = scalars - vectors - PER_ROW.get(path.name, set())
        if not vectors or alone:
            failed = True
            print(
                f"{path.name}: updates must compute on vectors. Compile it with -O3. Received: "
                f"{sorted(vectors)} on vectors, {sorted(alone)} on scalars alone"
            )
    print(f"{len(rules)} objects")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
