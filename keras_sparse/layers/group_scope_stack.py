import contextlib
import contextvars

# The scopes of `group_embedding_scope` that are entered, from the outermost to the innermost. Keras
# calls the layers that join one, and passes their inputs alone.
_stack: contextvars.ContextVar[tuple] = contextvars.ContextVar("group_scopes", default=())


@contextlib.contextmanager
def entered(scope):
    """While this is entered, `scope` is the one that lookups join."""
    token = _stack.set((*_stack.get(), scope))
    try:
        yield
    finally:
        _stack.reset(token)


def innermost_scope():
    """Returns the scope that a lookup joins here, or `None`."""
    return _stack.get()[-1] if _stack.get() else None
