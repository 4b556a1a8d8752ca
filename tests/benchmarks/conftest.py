import pathlib
import sys

# They lie beside the package, not in it.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
