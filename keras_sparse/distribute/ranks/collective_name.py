import collections
import re
import weakref

import tensorflow as tf

# Of each `tf.function`'s graph, how many calls of each owner are in it.
_calls: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def collective_name(owner):
    """Returns a name for the collectives of one call, the same on all ranks.

    Calls that may be under way at the same time have different names: those within one
    `tf.function`, whose order is that of the program. Ranks may trace a function a different number
    of times, so that nothing is counted from one function to the next; nor without a function,
    where a call ends before the next one begins.

    Args:
        owner: String. What makes the calls, with a name that is the same on all ranks.
    """
    if tf.executing_eagerly():
        return owner
    graph = tf.compat.v1.get_default_graph()
    while getattr(graph, "is_control_flow_graph", False):  # a branch, or the body of a loop
        graph = graph.outer_graph
    counts = _calls.setdefault(graph, collections.Counter())
    counts[owner] += 1
    function = re.sub(r"\W", "_", getattr(graph, "name", ""))  # of a lambda it is "<lambda>"
    return f"{owner}.{function}.{counts[owner]}"
