"""Runs notebooks in place, and keeps of their outputs what a reader wants to see.

python tools/run_notebooks.py examples/first_steps.ipynb
"""

import os
import pathlib
import re
import sys
import time

# TensorFlow's notes on the machine, which it writes to the error output as it starts.
_NOTES = re.compile(r"(WARNING: All log messages before|[IWE]\d{4} |To enable the following|$)")
_METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def main(paths):
    """Runs each notebook in its folder, and says how long it took."""
    import nbclient  # tests of what is below need neither
    import nbformat

    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    for path in map(pathlib.Path, paths):
        begin = time.monotonic()
        notebook = nbformat.read(path, as_version=4)
        where = {"metadata": {"path": str(path.parent)}}
        nbclient.NotebookClient(notebook, timeout=300, resources=where).execute()
        path.write_text(nbformat.writes(tidy(notebook)) + "\n")
        print(f"{path}: {time.monotonic() - begin:.0f} s")


def tidy(notebook):
    """Takes out what differs from run to run, and notes on the machine; returns the notebook."""
    notebook["metadata"] = _METADATA
    for number, cell in enumerate(notebook["cells"]):
        cell["id"], cell["metadata"] = f"cell-{number}", {}
        if cell["cell_type"] == "code":
            joined = _joined(cell["outputs"])
            cell["outputs"] = [each for each in joined if not _is_notes(each)]
    return notebook


def _joined(outputs):
    """The outputs, with text that came in pieces as one."""
    joined = []
    for output in outputs:
        last = joined[-1] if joined else {}
        if output.get("name") == last.get("name") is not None:
            last["text"] += output["text"]
        else:
            joined.append(output)
    return joined


def _is_notes(output):
    lines = output.get("text", "").split("\n")
    return output.get("name") == "stderr" and all(map(_NOTES.match, lines))


if __name__ == "__main__":
    main(sys.argv[1:])
