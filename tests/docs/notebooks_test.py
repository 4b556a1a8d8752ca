"""What a reader sees of the notebooks as they are committed; `make notebooks` runs them."""

import json
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def cells(path):
    return json.loads(path.read_text())["cells"]


def outputs_of(cells):
    return [each for cell in cells if cell["cell_type"] == "code" for each in cell["outputs"]]


def test_is_in_the_navigation(path):
    assert f": notebooks/{path.stem}.md\n" in (ROOT / "mkdocs.yml").read_text()


def test_opens_with_what_the_reader_will_be_able_to_do(cells):
    assert "".join(cells[0]["source"]).startswith("# ")
    assert "After this page you can" in "".join(cells[0]["source"])


def test_has_been_run_from_top_to_bottom(cells):
    counts = [cell["execution_count"] for cell in cells if cell["cell_type"] == "code"]
    assert counts == [*range(1, len(counts) + 1)]


def test_shows_a_picture(cells):
    pictures = [
        each
        for each in outputs_of(cells)
        if {"image/png", "image/svg+xml"} & {*each.get("data", ())}
    ]
    assert pictures


def test_outputs_tell_nothing_of_the_machine_and_its_log(cells):
    for output in outputs_of(cells):
        assert output["output_type"] != "error"
        assert output.get("name") != "stderr"
        text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
        assert not re.search(
            r"[\b\r\x1b]|(^|[\s'\"(])/(home|root|tmp|work|usr)/", text, re.MULTILINE
        ), text


@pytest.mark.parametrize("link", [r"\]\((\.\./docs/[^)#]+)", r"\]\((\w+\.ipynb)\)"])
def test_links_lead_to_files(path, cells, link):
    for cell in cells:
        for target in re.findall(link, "".join(cell["source"])):
            assert (path.parent / target).exists(), target


# Links of all pages lead to files of a checkout, as a code host shows it.
#
# `make docs` tries those of the site.
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
