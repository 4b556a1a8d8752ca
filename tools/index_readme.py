"""The README as an index of packages shows it: where no link leads to a file of the repository.

scikit-build-core calls it, as `tool.dynamic-metadata` of pyproject.toml says.
"""

import pathlib
import re

_TO_A_FILE = r"\((?!https?://|#)[^)]*\)"


def dynamic_metadata(settings, project):
    """Returns the field `readme` of the package's metadata."""
    readme = pathlib.Path(__file__).parent.parent / "README.md"
    return {"readme": {"content-type": "text/markdown", "text": without_files(readme.read_text())}}


def without_files(text):
    """Returns Markdown in which links to files are their words, and pictures what is said of them.

    Example:
    >>> without_files("![Bars](docs/bars.png) Read [on](docs/on.md), or [there](https://there.io).")
    '*Picture: Bars.* Read on, or [there](https://there.io).'
    """
    text = re.sub(rf"!\[([^]]*)\]{_TO_A_FILE}", r"*Picture: \1.*", text)
    return re.sub(rf"(?<!!)\[([^]]*)\]{_TO_A_FILE}", r"\1", text)
