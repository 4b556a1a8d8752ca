import builtins
import contextlib
from itertools import zip_longest

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size


@contextlib.contextmanager
def errors_on_all_ranks(name):
    """While this is entered, an error on one rank becomes an error on all.

    At the end ranks tell each other how it went, as by `raise_on_all_ranks`. So what is done inside
    must not wait for other ranks.

    Args:
        name: String, the same on all ranks.
    """
    if size() == 1:
        yield
        return
    failure = None
    try:
        yield
    except Exception as error:
        failure = error
    raise_on_all_ranks(failure, f"keras_sparse.errors_on_all_ranks.{name}")


def raise_on_all_ranks(failure, name):
    """Raises an error on all ranks if there is one on any. All must call it.

    Args:
        failure: Exception of this rank, which it raises, or `None`. A rank without one raises that
            of the first rank that has one, of the same class as far as it is made from a message
            alone.
        name: String, as in `collectives.gather_objects`.
    """
    of_ranks = gather_objects(_transportable(failure), name)
    if failure is not None:
        raise failure
    for other, theirs in enumerate(of_ranks):
        if theirs is not None and other != rank():
            kind, message = theirs
            raise kind(f"{error_prefix()}rank {other} has failed: {message}")


def _transportable(failure):
    """The message, and the class as one that every rank knows and makes from a message."""
    if failure is None:
        return None
    kind, message = type(failure), str(failure)
    is_builtin = getattr(builtins, kind.__name__, None) is kind
    if not (is_builtin or kind.__module__.startswith("keras_sparse.")):
        return RuntimeError, message
    try:
        kind(message)
    except Exception:  # `UnicodeDecodeError` and `ExceptionGroup` take more
        kind = RuntimeError
    return kind, message


def check_agreement(items, rule, name):
    """Raises the same ValueError on all ranks unless they have the same list.

    Args:
        items: List of `(description, title)`: strings. Descriptions must be the same on all ranks,
            titles are for the message alone.
        rule: String: what the error begins with.
        name: String, what the items are elements of.
    """
    lists = gather_objects(list(items), f"check_agreement.{name}")
    for i, of_ranks in enumerate(zip_longest(*lists, fillvalue=("missing", ""))):
        ranks_by_item: dict[str, list[int]] = {}
        titles: dict[str, str] = {}
        for number, (description, title) in enumerate(of_ranks):
            ranks_by_item.setdefault(description, []).append(number)
            titles.setdefault(description, title)
        if len(ranks_by_item) > 1:
            received = "; ".join(
                f"{description}{titles[description] and ' '}{titles[description]} on rank "
                + ", ".join(map(str, ranks))
                for description, ranks in ranks_by_item.items()
            )
            raise ValueError(f"{error_prefix()}{rule}. Received: {name}[{i}]: {received}")
