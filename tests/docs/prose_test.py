"""Pages follow the rules of docs/explanation/writing.md that a program can check."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[2]
PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
TURNED = re.compile(r"(?:[-*] |\d+\. |\*\*)*(What|Who|Those|That of|Of a|Over|So does)\b")
# Text without code, tables, pictures and the targets of links.
LEFT_OUT = re.compile(r"```.*?```|^ *\|.*?$|^!\[.*?$|(?<=\])\([^)]*\)", re.MULTILINE | re.DOTALL)


def sentences(page):
    text = LEFT_OUT.sub("", (ROOT / page).read_text())
    for block in re.split(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) )|\n(?=#)", text):
        if not block.lstrip().startswith(("#", ":::", "<")):
            yield from re.split(r"(?<=[.:;!?])\*{0,2}\s+", " ".join(block.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page).removeprefix(f"{ROOT}/"))
def test_sentences_have_their_actor_first_and_few_are_long(page):
    found = list(sentences(page))
    turned = [each for each in found if TURNED.match(each) and not each.rstrip("*").endswith("?")]
    assert not turned
    long = [each for each in found if len(each.split()) > 40]
    assert not long


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page).removeprefix(f"{ROOT}/"))
def test_lines_of_prose_are_wrapped_at_100_columns(page):
    text = LEFT_OUT.sub(lambda match: "x" * match[0].startswith("("), (ROOT / page).read_text())
    assert [line for line in text.splitlines() if len(line) > 100] == []
