from typing import Any
from typing import NamedTuple

from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of


class RuleHistory(NamedTuple):
    """What a table's rule was given in the steps that rows may have missed.

    Attributes:
        step: int64 scalar: the last step of the rule.
        first_step: int64 scalar: the step after which the history begins.
        table_step: uint32 scalar: the last step as the table counts them, for the ages of rows.
        run_lengths: int64 array of shape `(num_runs,)`: how many steps followed each other with the
            same numbers.
        numbers: float32 array of shape `(num_runs, num_numbers)`: these.
    """

    step: Any
    first_step: Any
    table_step: Any
    run_lengths: Any
    numbers: Any


def export_history(variables):
    """Reads what each table's rule was given in the steps that rows may have missed.

    A rule with dense semantics lets a row miss steps, and catches it up when it is next used. From
    its history and its constants `SavedRule` can catch up rows in another process, and `restore`
    lets a table go on.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        List of `RuleHistory`. That of a rule that lets no row miss anything has no runs, and begins
        after the last step.
    """
    steps, first_steps, table_steps, run_lengths, numbers = _native.lib.keras_sparse_export_history(
        handles=handles_of(variables)
    )
    return [
        RuleHistory(steps[i], first_steps[i], table_steps[i], run_lengths[i], numbers[i])
        for i in range(len(variables))
    ]
