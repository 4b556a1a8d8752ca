"""Prints the sources of the core that a build compiles, or those of them that a change touches.

    python tools/core_sources.py BUILD_FOLDER [--changed]

A change is what a branch has beyond origin/main, or on main itself the last commit, with all that
is not committed. It touches a source by its own lines, or by those of a header that it includes, be
it by way of others. Where Git has no earlier commit, as in a shallow clone, what is not committed
counts alone.
"""

import json
import pathlib
import re
import subprocess
import sys

INCLUDE = re.compile(r'^#include "(ops/[^"]+)"', re.MULTILINE)
# What it says goes for all sources.
CHECKS = ".clang-tidy"


def git(*arguments):
    """The lines that Git prints; none where it fails, or is not there."""
    try:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    except (FileNotFoundError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def changed_files():
    """Those of the branch or the last commit, and of the working tree."""
    head = git("rev-parse", "HEAD")
    bases = (git("merge-base", "HEAD", "origin/main"), git("rev-parse", "--verify", "HEAD~1"), head)
    base = next((base for base in bases if base and base != head), head)
    return {
        *git("diff", "--name-only", *base),
        *git("ls-files", "--others", "--exclude-standard"),
    }


def with_includers(changed, includes):
    """The files that changed, and those that include one of them."""
    touched = set(changed)
    while True:
        more = {file for file, included in includes.items() if touched & included} - touched
        if not more:
            return touched
        touched |= more


def main():
    """Prints a source a line."""
    build, *options = sys.argv[1:]
    commands = json.loads(pathlib.Path(build, "compile_commands.json").read_text())
    files = (pathlib.Path(each["file"]).resolve() for each in commands)
    sources = {str(file.relative_to(pathlib.Path.cwd())) for file in files}
    if "--changed" in options and CHECKS not in (changed := changed_files()):
        files = pathlib.Path("ops").rglob("*.[ch]*")
        includes = {str(file): {*INCLUDE.findall(file.read_text())} for file in files}
        sources &= with_includers(changed, includes)
    print("\n".join(sorted(sources)))


if __name__ == "__main__":
    main()
