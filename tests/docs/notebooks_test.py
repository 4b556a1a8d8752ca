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
