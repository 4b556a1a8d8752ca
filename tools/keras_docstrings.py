"""Brings docstrings in Keras' style into the form that mkdocstrings shows well."""

import re

import griffe

# What griffe does not know as a section of its own.
_HEADING = re.compile(r"^(Call arguments|Example|Input shape|Output shape):", re.MULTILINE)
_CALL_ARGUMENTS = re.compile(r"^\*\*Call arguments:\*\*\n((?: {4}.*\n?)+)", re.MULTILINE)
_ARGUMENTS = re.compile(r"^Args:\n(?:(?: {4}.*)?(?:\n|\Z))+", re.MULTILINE)
# `a, b: Integers.`, with the lines that go on with it.
_SHARED = re.compile(r"^ {4}(\*{0,2}\w+(?:,\s+\*{0,2}\w+)+):(.*(?:\n {5,}.*)*)", re.MULTILINE)
_DOCTEST = re.compile(r"^( *)>>> (?:.+\n?)+", re.MULTILINE)


class KerasDocstrings(griffe.Extension):
    """Rewrites each docstring before griffe parses it."""

    def on_object(self, *, obj, **kwargs):
        """Is called by griffe for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring):
    """Fences doctests, gives each argument a line of its own, and makes Keras' own sections bold
    paragraphs and lists.
    """
    docstring = _ARGUMENTS.sub(lambda match: _SHARED.sub(_for_each, match[0]), docstring)
    docstring = _DOCTEST.sub(_fenced, docstring)
    docstring = _HEADING.sub(r"\n**\1:**", docstring)
    return _CALL_ARGUMENTS.sub(lambda match: _listed(match[1]), docstring)


def _for_each(match):
    return "\n".join(f"    {name}:{match[2]}" for name in re.split(r",\s+", match[1]))


def _fenced(match):
    indent = match[1]
    return f"\n{indent}```pycon\n{match[0].rstrip()}\n{indent}```\n"


def _listed(arguments):
    items = re.sub(r"^ {4}(\w+):", r"- `\1`:", arguments, flags=re.MULTILINE)
    return f"**Call arguments:**\n\n{items}"
