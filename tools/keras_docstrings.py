"""Brings docstrings in Keras' style into the form that mkdocstrings shows well."""

import re

import griffe

# What griffe does not know as a section of its own.
_HEADING = re.compile(r"^(Call arguments|Example|Input shape|Output shape):", re.MULTILINE)
_LISTED = re.compile(r"^\*\*(Call arguments|Args):\*\*\n((?: {4}.*\n?)+)", re.MULTILINE)
_ARGUMENTS = re.compile(r"^Args:\n(?:(?: {4}.*)?(?:\n|\Z))+", re.MULTILINE)
# `a, b: Integers.`, with the lines that go on with it.
_SHARED = re.compile(r"^ {4}(\*{0,2}\w+(?:,\s+\*{0,2}\w+)+):(.*(?:\n {5,}.*)*)", re.MULTILINE)
_DOCTEST = re.compile(r"^( *)>>> (?:.+\n?)+", re.MULTILINE)


class KerasDocstrings(griffe.Extension):
    """Rewrites each docstring before griffe parses it."""

    def on_object(self, *, obj, **kwargs):
        """Is called by griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            docstring = obj.docstring.value
            if _inherits_arguments(obj):
                docstring = re.sub(r"(?m)^Args:$", "\n**Args:**", docstring)
            obj.docstring.value = as_markdown(docstring)


def _inherits_arguments(obj):
    """Returns whether a class takes the arguments of a class elsewhere, which griffe misses."""
    is_plain_class = obj.is_class and not any(
        "dataclass" in str(each.value) for each in obj.decorators
    )
    return is_plain_class and "__init__" not in obj.members


def as_markdown(docstring):
    """Fences doctests, gives each argument its own line, and makes Keras' own sections bold
    paragraphs and lists.
    """
    docstring = _ARGUMENTS.sub(lambda match: _SHARED.sub(_for_each, match[0]), docstring)
    docstring = _DOCTEST.sub(_fenced, docstring)
    docstring = _HEADING.sub(r"\n**\1:**", docstring)
    return _LISTED.sub(lambda match: _listed(match[1], match[2]), docstring)


def _for_each(match):
    return "\n".join(f"    {name}:{match[2]}" for name in re.split(r",\s+", match[1]))


def _fenced(match):
    indent = match[1]
    return f"\n{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"


def _listed(heading, arguments):
    items = re.sub(r"^ {4}(\*{0,2}\w+):", r"- `\1`:", arguments, flags=re.MULTILINE)
    return f"**{heading}:**\n\n{items}"
