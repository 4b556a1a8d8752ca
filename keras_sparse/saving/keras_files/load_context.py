"""What holds while `load_weights` reads a file."""

import contextvars

# The file that `load_weights` has verified and is loading now.
verified: contextvars.ContextVar = contextvars.ContextVar("verified", default=None)
# Whether `load_weights` only finds out whether all of a file can be loaded.
is_rehearsal: contextvars.ContextVar[bool] = contextvars.ContextVar("is_rehearsal", default=False)
