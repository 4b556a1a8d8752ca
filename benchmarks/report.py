"""How scripts take options, and what they print."""

import argparse
import sys


def options_of(question, arguments=None, **defaults):
    """Parses `--name VALUE` for each default, as a value of its type.

    `False` is a flag, `"auto"` may be an integer, and a tuple is one value or more of the type of
    its first. Options that a script does not have are left to others, as `python -m benchmarks`
    passes the same to all.

    Args:
        question: String. Docstring of the script, which says what its options are.
        arguments: List of strings. Defaults to `None`: those of the command.
    """
    parser = argparse.ArgumentParser(
        description=question, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, default in defaults.items():
        kind = {"default": default, "type": str if default is None else type(default)}
        if default is False:
            kind = {"action": "store_true"}
        elif default == "auto":
            kind["type"] = lambda text: text if text == "auto" else int(text)
        elif isinstance(default, tuple):
            kind = {"default": default, "type": type(default[0]), "nargs": "+"}
        parser.add_argument(f"--{name.replace('_', '-')}", help=f"({default})", **kind)
    return parser.parse_known_args(arguments)[0]


def markdown(head, rows):
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def mib(num_bytes):
    return f"{num_bytes / 2**20:,.0f}"


def say(*words):
    """Tells what is going on, beside the results."""
    print(*words, file=sys.stderr, flush=True)


def show(title, text):
    """Prints the results of a script, and returns them."""
    print(f"{title}\n\n{text}\n", flush=True)
    return text
