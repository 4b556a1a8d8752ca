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
OF_ROWS = re.compile(r"::((?:UpdateRecords|Move)\w*)[<(]")
# The accumulator of a row is a scalar.
PER_ROW = {"row_wise_adagrad.cc.o": {"add", "div", "sqrt"}}
COMPUTATION = re.compile(r"\bv(fn?m\w+|add|sub|mul|div|sqrt)\d*([ps])s\b")


def computations(listing):
    """For each function that updates or moves rows: what it computes on scalars and on vectors.

    Vectors are those of 32 bytes. Forms of one multiplication and addition, which differ in their
    operands' places, are one.
    """
    found, here = {}, None
    for line in listing.splitlines():
        if match := FUNCTION.match(line):
            name = OF_ROWS.search(match[1])
            here = found.setdefault(name[1], (set(), set())) if name else None
        elif here is not None and (match := COMPUTATION.search(line)):
            kind = match[1].rstrip("0123456789")
            if match[2] == "s":
                here[0].add(kind)
            elif "%ymm" in line:
                here[1].add(kind)
    return found


def complaints(path, listing):
    """Yields what is wrong with an object, a line each."""
    found = computations(listing)
    if not any(vectors for _, vectors in found.values()):
        yield f"{path.name}: a rule must update records by vectors. Received: none"
    for name, (scalars, vectors) in found.items():
        if alone := scalars - vectors - PER_ROW.get(path.name, set()):
            yield (
                f"{path.name}: {name} must compute on vectors, so that scalars are left for the "
                f"last columns alone. Received: on scalars alone {sorted(alone)}"
            )


def main(objdump, objects):
    """Returns the exit status: 1 if a rule computes on scalars."""
    rules = [path for path in map(pathlib.Path, objects) if path.parent.name == "rules"]
    if not rules:
        print(
            "the objects must be those of ops/core/optimizer/rules among others. "
            f"Received: {objects}"
        )
        return 1
    wrong = []
    for path in rules:
        command = [objdump, "--disassemble", "--demangle", "--no-show-raw-insn", path]
        listing = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        wrong += complaints(path, listing)
    print("\n".join(wrong) if wrong else f"{len(rules)} objects")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
