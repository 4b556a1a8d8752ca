"""A hook of mkdocs: shows the notebooks of examples/ as pages, as they are committed. Runs none."""

import base64
import json
import pathlib
import re

_EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
# How a link looks from examples/, and from the folder of the pages.
_LINKS = (
    (re.compile(r"\]\(\.\./docs/"), "](../"),
    (re.compile(r"\]\((\w+)\.ipynb\)"), r"](\1.md)"),
)
# How pages lead to a notebook: as it lies in a checkout, from a folder of docs/.
_TO_NOTEBOOK = re.compile(r"\]\(((?:\.\./)*)\.\./examples/(\w+)\.ipynb")
_PICTURES = {"image/svg+xml": "svg", "image/png": "png"}  # the first that an output has is shown


def on_files(files, config):
    """Is called by mkdocs once it knows the files in docs/."""
    from mkdocs.structure.files import File  # tests of what is below need no mkdocs

    for path in sorted(_EXAMPLES.glob("*.ipynb")):
        text = path.read_text()
        page, pictures = as_page(json.loads(text), path.stem)
        for name, content in {f"{path.stem}.md": page, path.name: text, **pictures}.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


on_files.mkdocs_priority = 100  # before the plugin of redirects, which lead to these pages


def on_page_markdown(markdown, **kwargs):
    """Is called by mkdocs for each page. Its links to notebooks lead to their pages.

    Example:
    >>> on_page_markdown("[A notebook](../../examples/groups.ipynb#many-tables)")
    '[A notebook](../notebooks/groups.md#many-tables)'
    """
    return _TO_NOTEBOOK.sub(r"](\1notebooks/\2.md", markdown)


def as_page(notebook, name):
    """Returns a notebook as Markdown, and the pictures of its outputs by their files' names."""
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_with_links_of_pages(source))
            continue
        parts.append(_fenced(source, "python"))
        for output in cell["outputs"]:
            parts.append(_shown(output, name, pictures))
    title, _, rest = parts[0].partition("\n")
    note = f"*This page is a notebook with the outputs of a run: [{name}.ipynb]({name}.ipynb).*"
    parts[0] = f"{title}\n\n{note}\n{rest}"
    return "\n\n".join(parts) + "\n", pictures


def _with_links_of_pages(source):
    for link, replacement in _LINKS:
        source = link.sub(replacement, source)
    return source


def _shown(output, name, pictures):
    """An output as Markdown; its picture, if it is one, is put among the pictures."""
    data = output.get("data", {})
    for kind, ending in _PICTURES.items():
        if kind in data:
            file = f"{name}-{len(pictures)}.{ending}"
            content = "".join(data[kind])
            pictures[file] = base64.b64decode(content) if ending == "png" else content
            return f"![What the code above draws]({file})"
    text = "".join(data.get("text/plain", output.get("text", "")))
    return _fenced(text.rstrip("\n"), "{ .text .output .no-copy }")


def _fenced(text, kind):
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}{kind if kind.isalpha() else ' ' + kind}\n{text}\n{fence}"
