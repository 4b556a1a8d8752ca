import threading


class GroupScopeStack(threading.local):
    """The `group_embedding_scope` that this thread is in, from the outermost to the innermost."""

    def __init__(self):
        self.stack = []

    def innermost(self):
        """Returns the scope that a lookup of this thread joins, or `None`."""
        return self.stack[-1] if self.stack else None


group_scope_stack = GroupScopeStack()
