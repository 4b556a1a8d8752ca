"""Links of the pages outside of the documentation lead to files; `make docs` checks all others."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
LINK = re.compile(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)")


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md"])
def test_every_link_leads_to_a_file_and_a_heading(page):
    for path, heading in LINK.findall((ROOT / page).read_text()):
        target = ROOT / (path or page)
        assert target.exists(), path
        if heading:
            titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE)
            slugs = [re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles]
            assert heading in slugs, f"{path}#{heading}"
