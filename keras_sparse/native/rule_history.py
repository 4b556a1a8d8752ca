"""The steps that rows of a saved table may have missed, and its update rule, which makes them."""

from typing import Any
from typing import NamedTuple

import tensorflow as tf

from keras_sparse.native import library
from keras_sparse.native.check_tables import handles_of


class RuleHistory(NamedTuple):
    """The numbers that a table's rule was given in the steps that rows may have missed.

    Attributes:
        step: int64 scalar: the last step of the rule.
        first_step: int64 scalar: the step after which the history begins.
        table_step: uint32 scalar: the last step as the table counts them, for the ages of rows, or
            its clock, where these are seconds.
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
    steps, first_steps, table_steps, run_lengths, numbers = library.lib.keras_sparse_export_history(
        handles=handles_of(variables)
    )
    return [
        RuleHistory(steps[i], first_steps[i], table_steps[i], run_lengths[i], numbers[i])
        for i in range(len(variables))
    ]


def history_inputs(history):
    """Returns the history of a rule as ops take it."""
    return {
        "step": tf.constant(history.step, tf.int64),
        "first_step": tf.constant(history.first_step, tf.int64),
        "table_step": tf.constant(history.table_step, tf.uint32),
        "run_lengths": tf.convert_to_tensor(history.run_lengths, tf.int64),
        "numbers": tf.convert_to_tensor(history.numbers, tf.float32),
    }


class SavedRule:
    """The update rule of a saved table, which catches up records that were saved as they lay.

    In a table's tiers a record is as of the step of its last update. This object makes the moves
    that it has missed since, with the bits that the table itself would have given. It takes the
    steps of the history again once, when it is made: microseconds a step where the learning rate
    changes, next to nothing where it stays.

    Args:
        rule: String. Name of the native rule, `LocalTable.rule`.
        constants: Dict of floats: `LocalTable.rule_constants`.
        weight_decay: Float: `LocalTable.rule_weight_decay`.
        output_dim: Integer. Width of a row.
        history: `RuleHistory`, what `export_history` gave after the last record was saved.
        keeps_gradient_step: Boolean. Whether the table kept ages, so that records have a word more.
            Defaults to `False`.
        keeps_frequency: Boolean. Whether it kept frequencies, likewise. Defaults to `False`.
        dtypes: `keras_sparse.utils.row_dtypes.RowDtypes` of the table. Defaults to `None`:
            float32.

    Raises:
        tf.errors.InvalidArgumentError: There is no such rule, or the history cannot be one of it.
    """

    def __init__(
        self,
        rule,
        constants,
        weight_decay,
        output_dim,
        history,
        keeps_gradient_step=False,
        keeps_frequency=False,
        dtypes=None,
    ):
        with tf.init_scope():
            self.native = library.lib.keras_sparse_open_saved_rule(
                constants=tf.constant([float(c) for c in constants.values()], tf.float64),
                weight_decay=tf.constant(float(weight_decay), tf.float64),
                rule=rule,
                constant_names=list(constants),
                output_dim=output_dim,
                keeps_gradient_step=keeps_gradient_step,
                keeps_frequency=keeps_frequency,
                row_type="float32" if dtypes is None else dtypes.row,
                slot_type="float32" if dtypes is None else dtypes.slots,
                **history_inputs(history),
            )

    def catch_up(self, raw):
        """Returns records as they are after the last step of the history.

        Args:
            raw: float32 array of shape `(n, record_words)`: records as they lie in the tiers. What
                comes after row and slots are words of other types, whose bits must be kept.

        Returns:
            float32 tensor of shape `(n, record_floats)`: the row, then its slots.

        Raises:
            tf.errors.InvalidArgumentError: The records are not those of the rule, or one was last
                updated in a step that is not in the history.
        """
        return library.lib.keras_sparse_catch_up(saved_rule=self.native, raw=raw)
