import contextlib
import dataclasses


@contextlib.contextmanager
def changed_context(variable, changes):
    """While this is entered, a context variable has its dataclass with some attributes changed.

    Args:
        variable: `contextvars.ContextVar` of a frozen dataclass.
        changes: Dict of the attributes' values by their names.
    """
    token = variable.set(dataclasses.replace(variable.get(), **changes))
    try:
        yield
    finally:
        variable.reset(token)
