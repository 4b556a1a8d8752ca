import doctest
import pathlib
import re

import index_readme

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
