import pathlib
import sys

# The tools are scripts, not a package.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "tools"))
