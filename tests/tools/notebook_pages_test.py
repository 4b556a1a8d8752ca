import base64

import pytest

from notebook_pages import as_page
from notebook_pages import on_page_markdown

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
