import base64
import doctest
import pathlib
import re

import pytest

import index_readme
from notebook_pages import as_page
from notebook_pages import on_page_markdown
from run_notebooks import tidy

PNG = b"pretend that this is a picture"


def cell(kind, source, *outputs):
    return {"cell_type": kind, "source": source.splitlines(keepends=True), "outputs": [*outputs]}


def test_cells_become_text_code_outputs_and_pictures():
    picture = {"image/png": base64.b64encode(PNG).decode(), "text/plain": ["<Figure>"]}
    page, pictures = as_page(
        {
            "cells": [
                cell("markdown", "# Title\n\nFirst words."),
                cell(
                    "code",
                    "print(1)\ndraw()",
                    {"output_type": "stream", "name": "stdout", "text": ["1\n"]},
                    {"output_type": "display_data", "data": picture},
                ),
                cell(
                    "code", "1 + 1", {"output_type": "execute_result", "data": {"text/plain": "2"}}
                ),
            ]
        },
        "sums",
    )
    assert page == (
        "# Title\n\n"
        "*This page is a notebook with the outputs of a run: [sums.ipynb](sums.ipynb).*\n\n"
        "First words.\n\n"
        "```python\nprint(1)\ndraw()\n```\n\n"
        "``` { .text .output .no-copy }\n1\n```\n\n"
        "![What the code above draws](sums-0.png)\n\n"
        "```python\n1 + 1\n```\n\n"
        "``` { .text .output .no-copy }\n2\n```\n"
    )
    assert pictures == {"sums-0.png": PNG}


def test_links_lead_to_pages():
    text = "# A\n\n[b](../docs/guide/b.md), [c](c.ipynb), ![d](../docs/d.png), [e](https://e.org/e.ipynb)"
    page, _ = as_page({"cells": [cell("markdown", text)]}, "a")
    assert page.endswith(
        "[b](../guide/b.md), [c](c.md), ![d](../d.png), [e](https://e.org/e.ipynb)\n"
    )


def test_code_with_fences_stays_whole():
    page, _ = as_page({"cells": [cell("markdown", "# A"), cell("code", 'x = """```"""')]}, "a")
    assert '````python\nx = """```"""\n````' in page


@pytest.mark.parametrize(
    ("link", "on_the_site"),
    [
        ("../examples/groups.ipynb", "notebooks/groups.md"),
        ("../../examples/groups.ipynb#in-short", "../notebooks/groups.md#in-short"),
        ("../install.md", "../install.md"),
    ],
)
def test_links_of_pages_to_notebooks_lead_to_their_pages(link, on_the_site):
    assert on_page_markdown(f"See [it]({link}).") == f"See [it]({on_the_site})."


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


README = (pathlib.Path(__file__).parents[2] / "README.md").read_text()


def test_example_runs():
    assert doctest.testmod(index_readme).failed == 0


def test_links_of_the_readme_lead_to_no_file():
    text = index_readme.dynamic_metadata({}, {})["readme"]["text"]
    targets = re.findall(r"\]\(([^)]*)\)", README)
    assert any(not target.startswith("https://") for target in targets)
    assert all(target.startswith("https://") for target in re.findall(r"\]\(([^)]*)\)", text))


def test_code_and_other_words_stay():
    text = index_readme.without_files(README)
    assert re.findall(r"^```.*?^```", text, re.DOTALL | re.MULTILINE) == re.findall(
        r"^```.*?^```", README, re.DOTALL | re.MULTILINE
    )
    words = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", README).split()
    assert len(words) <= len(text.split()) <= len(words) + 1  # "*Picture:"
