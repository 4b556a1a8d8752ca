"""Prints requirements from pyproject.toml: of an extra, or with `build` of a build and a run."""

import pathlib
import sys
import tomllib

settings = tomllib.loads(pathlib.Path("pyproject.toml").read_text())
(name,) = sys.argv[1:]
if name == "build":
    lines = settings["build-system"]["requires"] + settings["project"]["dependencies"]
else:
    lines = settings["project"]["optional-dependencies"][name]
print("\n".join(lines))
