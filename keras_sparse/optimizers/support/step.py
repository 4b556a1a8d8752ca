import warnings

import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse.optimizers.support.accumulated_rows import add_accumulated
from keras_sparse.optimizers.support.clipping import clip_tables
from keras_sparse.optimizers.support.clipping import clips
from keras_sparse.optimizers.support.room_check import gradients_of
from keras_sparse.optimizers.support.room_check import room_checks
from keras_sparse.optimizers.support.step_count import is_update
from keras_sparse.optimizers.support.step_count import run_if
from keras_sparse.optimizers.support.table_gradient import gradients_of_lookups
from keras_sparse.optimizers.support.table_gradient import lists_of
from keras_sparse.optimizers.support.table_gradient import merge


class Step:
    """A step of a `SparseOptimizer`: tables first, as they may refuse it, then what Keras updates.

    Args:
        optimizer: `SparseOptimizer`.
        tables: List of `TableGradient`, as the tape made them.
        grads, variables: Lists of the gradients of dense variables, and of these.
        squares_over_ranks: As for `clip_tables`.

    Attributes:
        tables: List of `TableGradient` without the loss scale, merged where that is needed; else
            one for each lookup of a variable.
        grads: List of the gradients of dense variables.
    """

    def __init__(self, optimizer, tables, grads, variables, squares_over_ranks=None):
        self.optimizer = optimizer
        self.grads, self._variables = grads, variables
        self._squares_over_ranks = squares_over_ranks
        scale = optimizer.loss_scale_factor
        # A joined gradient would be scaled once for each table, and one of halves in halves, from
        # which the scale is to keep it.
        is_scaled_alone = all(
            each.columns is None and each.values.dtype == tf.float32 for each in tables
        )
        if (
            clips(optimizer)
            or optimizer.gradient_accumulation_steps
            or (scale and not is_scaled_alone)
        ):
            tables = merge(tables)
        elif not scale:
            tables = [one for each in tables for one in gradients_of_lookups(each)]
        if scale:
            tables = [each.with_values(each.values / scale) for each in tables]
        self.tables = tables
        self._accumulated = [optimizer.accumulated_rows(each.variable.table) for each in tables]

    def rows(self):
        """Returns all rows that an update would change: pairs of a variable and its ids."""
        pairs = zip(self.tables, self._accumulated, strict=True)
        return [
            (each.variable, each.ids if accumulated is None else accumulated.ids_with(each))
            for each, accumulated in pairs
        ]

    def apply(self, check_room=None):
        """Makes the step, unless a table has no room for its new rows.

        Args:
            check_room: As for `room_checks`.
        """
        with tf.control_dependencies(room_checks([self], check_room)):
            self.update(gradients_of([self]))

    def update(self, gradients):
        """Makes the step; gradients are accumulated, or variables updated.

        Args:
            gradients: List of tensors that exist only if the step has data. Where an optimizer has
                no variables on a rank, the call that finds the data's end would count otherwise.
        """
        tables = self.tables
        if self.optimizer.gradient_accumulation_steps:
            tables = add_accumulated(self._accumulated, tables)

        def keep():
            for accumulated, each in zip(self._accumulated, tables, strict=True):
                accumulated.assign(each.ids, each.values)
            return tf.zeros((), _rate_dtype()), tf.constant(1.0)  # of no update

        shared = run_if(is_update(self.optimizer), lambda: self._update_tables(tables), keep)
        with tf.control_dependencies(gradients):
            self.optimizer.apply_dense(self.grads, self._variables, *shared)

    def _update_tables(self, tables):
        """Returns the learning rate and the scale of clipping, for dense variables too."""
        optimizer = self.optimizer
        learning_rate = tf.cast(optimizer.learning_rate, _rate_dtype())
        if steps := optimizer.gradient_accumulation_steps:
            tables = [each.with_values(each.values / steps) for each in tables]
        dense = self._means() if optimizer.global_clipnorm else []
        tables, scale = clip_tables(optimizer, tables, dense, self._squares_over_ranks)
        if tables:
            variables = [each.variable for each in tables]
            step = tf.cast(optimizer.iterations, tf.int64) + 1
            rate = tf.cast(learning_rate, tf.float32)
            numbers = optimizer.table_numbers(variables, rate, step)
            native.apply_gradients(variables, numbers=numbers, **lists_of(tables))
            optimizer.finish_tables([each.variable for each in tables if not each.is_more])
        if steps:
            for accumulated in self._accumulated:
                accumulated.clear()
        return learning_rate, scale

    def _means(self):
        """What an update has of dense variables: without the loss scale, and accumulated."""
        optimizer = self.optimizer
        pairs = [
            (grad, variable)
            for grad, variable in zip(self.grads, self._variables, strict=True)
            if not optimizer.is_overwritten(variable)
        ]
        grads = [grad for grad, _ in pairs]
        if scale := optimizer.loss_scale_factor:
            grads = [grad / scale for grad in grads]
        if steps := optimizer.gradient_accumulation_steps:
            since = optimizer.accumulated_gradients([v for _, v in pairs])
            grads = [(grad + sums) / steps for grad, sums in zip(grads, since, strict=True)]
        return grads


def _rate_dtype():
    """What Keras keeps learning rates in, float32 at least."""
    return "float64" if keras.config.floatx() == "float64" else "float32"


class DenseStep:
    """A step that an optimizer makes by its `apply`, beside those of others: see `Step`.

    It is of Keras' own, or of a class with an `apply` of its own.
    """

    tables = ()

    def __init__(self, optimizer, grads, variables):
        self.optimizer = optimizer
        self._pairs = with_gradients(grads, variables)
        self.grads = [grad for grad, _ in self._pairs]

    def rows(self):
        return []

    def update(self, gradients):
        with tf.control_dependencies(gradients):
            if self._pairs:
                self.optimizer.apply_gradients(self._pairs)
            else:  # Keras leaves such a step out
                self.optimizer._iterations.assign_add(1)


class JointStep:
    """The step of a `MultiOptimizer`: all of its optimizers make theirs, or none does.

    Args:
        steps: List of `Step` and `DenseStep`, one an optimizer.
        iterations: Variable that counts the steps of all.
    """

    def __init__(self, steps, iterations):
        self._steps = steps
        self._iterations = iterations

    def apply(self, check_room=None):
        """As `Step.apply`."""
        gradients = gradients_of(self._steps)
        with tf.control_dependencies(room_checks(self._steps, check_room)):
            for step in self._steps:
                step.update(gradients)
            with tf.control_dependencies(gradients):
                self._iterations.assign_add(1)


def with_gradients(grads, variables):
    """Returns the pairs of a gradient and its variable, and warns of variables without one."""
    pairs = list(zip(grads, variables, strict=True))
    # A `tf.Variable` has no path.
    missing = [getattr(v, "path", None) or v.name for grad, v in pairs if grad is None]
    if missing:
        warnings.warn(
            f"Gradients do not exist for variables {missing} when minimizing the loss. If using "
            "`model.compile()`, did you forget to provide a `loss` argument?",
            stacklevel=4,
        )
    return [pair for pair in pairs if pair[0] is not None]


def check_gradients(grads, variables):
    """Raises `ValueError` unless there is one gradient a variable, and some are not `None`."""
    if len(grads) != len(variables):
        raise ValueError(
            "`grads` must hold one gradient a variable. Received: "
            f"{len(grads)} gradients for {len(variables)} variables"
        )
    if all(grad is None for grad in grads):
        raise ValueError("No gradients provided for any variable.")  # as Keras says it
