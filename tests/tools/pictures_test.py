import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/pictures"))

import drawings  # noqa: E402


@pytest.mark.parametrize("draw", drawings.ALL, ids=lambda draw: draw.__name__)
def test_committed_picture_is_the_one_that_its_function_draws(draw):
    committed = (ROOT / f"docs/pictures/{draw.__name__}.svg").read_text()
    assert committed == draw().svg(), "Draw it anew: python tools/pictures"
