"""What holds while `load_weights` reads a file."""

import contextlib
import contextvars

# The file that `load_weights` has verified and is loading now.
verified: contextvars.ContextVar = contextvars.ContextVar("verified", default=None)
# Whether `load_weights` only finds out whether all of a file can be loaded.
is_rehearsal: contextvars.ContextVar[bool] = contextvars.ContextVar("is_rehearsal", default=False)
# Whether a table may take over one of fewer rows.
_is_growing: contextvars.ContextVar[bool] = contextvars.ContextVar("is_growing", default=False)


@contextlib.contextmanager
def growing(is_growing):
    """While this is entered, static tables may be loaded into larger ones and dynamic ones."""
    token = _is_growing.set(is_growing)
    try:
        yield
    finally:
        _is_growing.reset(token)


def is_growing():
    """Returns whether `growing` is entered."""
    return _is_growing.get()
