"""Draws the pictures of the pages into docs/pictures: `python tools/pictures`."""

import pathlib

from drawings import ALL

FOLDER = pathlib.Path(__file__).parents[2] / "docs/pictures"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for draw in ALL:
        FOLDER.joinpath(f"{draw.__name__}.svg").write_text(draw().svg())
