from run_notebooks import tidy

NOTES = "I0000 00:00:1795749388.229228   28707 port.cc:153] oneDNN custom operations are on.\n"


def text(name, words):
    return {"output_type": "stream", "name": name, "text": words}


def test_joins_text_and_drops_notes_on_the_machine_but_no_warning():
    picture = {"output_type": "display_data", "data": {"image/png": ""}, "metadata": {}}
    notes, warning = text("stderr", NOTES), text("stderr", f"{NOTES}UserWarning: look here\n")
    outputs = [text("stdout", "a\n"), text("stdout", "b\n"), notes, picture, picture, warning]
    cells = [
        {"cell_type": "markdown", "id": "x1", "metadata": {"tags": []}},
        {"cell_type": "code", "id": "x2", "metadata": {"execution": {}}, "outputs": outputs},
    ]
    notebook = tidy({"metadata": {"widgets": {}}, "cells": cells})
    assert notebook["metadata"]["language_info"] == {"name": "python"}
    assert [(cell["id"], cell["metadata"]) for cell in notebook["cells"]] == [
        ("cell-0", {}),
        ("cell-1", {}),
    ]
    kept = notebook["cells"][1]["outputs"]
    assert kept == [text("stdout", "a\nb\n"), picture, picture, warning]
