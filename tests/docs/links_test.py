"""Links of all pages lead to files of a checkout, as a code host shows it.

`make docs` tries those of the site.
"""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)")
MADE_FROM_DOCSTRINGS = ROOT / "docs/api"  # its headings are there on the site alone
PAGES = ["README.md", "CHANGELOG.md", *(ROOT / "docs").rglob("*.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page).removeprefix(f"{ROOT}/"))
def test_every_link_leads_to_a_file_and_a_heading(page):
    page = ROOT / page
    for path, heading in LINK.findall(CODE.sub("", page.read_text())):
        target = (page.parent / path if path else page).resolve()
        assert target.exists(), path
        if heading and target.parent != MADE_FROM_DOCSTRINGS:
            assert heading in slugs(target), f"{path}#{heading}"


def slugs(target):
    text = target.read_text()
    if target.suffix == ".ipynb":
        text = "\n".join("".join(cell["source"]) for cell in json.loads(text)["cells"])
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
