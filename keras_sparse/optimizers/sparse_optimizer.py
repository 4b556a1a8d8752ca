import weakref

import keras
import tensorflow as tf

from keras_sparse import native
from keras_sparse.optimizers.split import split_embedding_variable_from_others
from keras_sparse.optimizers.support.accumulated_rows import AccumulatedRows
from keras_sparse.optimizers.support.accumulated_rows import add_accumulated
from keras_sparse.optimizers.support.check_constants import check_constants
from keras_sparse.optimizers.support.room_check import room_checks
from keras_sparse.optimizers.support.row_gradient import columns_of
from keras_sparse.optimizers.support.row_gradient import merge
from keras_sparse.optimizers.support.row_gradient import row_gradient
from keras_sparse.optimizers.support.row_gradient import RowGradient
from keras_sparse.optimizers.support.row_gradient import split_row_gradients
from keras_sparse.optimizers.support.step_count import is_update
from keras_sparse.optimizers.support.step_count import run_if
from keras_sparse.optimizers.support.unsupported_options import refuse_any
from keras_sparse.optimizers.support.unsupported_options import refuse_attributes
from keras_sparse.optimizers.support.unsupported_options import refuse_norms_of_parts
from keras_sparse.optimizers.support.unsupported_options import refuse_part_of_row
from keras_sparse.optimizers.support.unsupported_options import refuse_repeated
from keras_sparse.optimizers.support.unsupported_options import settings_that_changed
from keras_sparse.saving.format.named_store import name_variables
from keras_sparse.tables.embedding_variable import EmbeddingVariable


class SparseOptimizer(keras.optimizers.Optimizer):
    """Mixin that lets a Keras optimizer train embedding variables.

    It stands in front of the Keras optimizer: `class Adagrad(SparseOptimizer,
    keras.optimizers.Adagrad)`. Keras keeps what it does for any variable: config, learning-rate
    schedules, loss scaling, clipping, the step count and the update of dense variables. The mixin
    keeps embedding variables from Keras' slots and updates, and gives those of a step to one native
    op, in the order of the variables.

    A subclass says which native rule it is: `rule` is the rule's name, `rule_constants()` its
    hyperparameters, which stay as they are once the optimizer is built, `rule_numbers()` what
    changes from step to step. Options of the Keras optimizer that the rule does not honour are
    named in `unsupported_options`: set to anything but `None`, `False` or 0 they are an error as
    soon as there is an embedding variable. `needs_whole_rows` says that the rule is not one of each
    column by itself, so that the columns of a table cannot be on several ranks.
    """

    unsupported_options: tuple[str, ...] = ("use_ema",)
    needs_whole_rows = False
    # What clips instead of Keras where norms have parts on other ranks: a function of the gradients
    # and the variables of a step. `keras_sparse.distribute.DistributedOptimizer` sets it.
    clip_over_ranks = None
    # What looks for room on all ranks, as `check_room` does on one. Set likewise.
    check_room_on_all_ranks = None

    @property
    def rule(self):
        """String. The native rule's name."""
        raise NotImplementedError

    def rule_constants(self):
        """Returns a dict of floats: the native rule's hyperparameters by name."""
        raise NotImplementedError

    def rule_numbers(self, learning_rate, step):
        """Returns the numbers that the native rule takes at a step, beside the learning rate.

        Args:
            learning_rate: Scalar float32 tensor. The rate of this step.
            step: Scalar int64 tensor. The number of this step, from 1.

        Returns:
            Tuple of scalar tensors. Defaults to none.
        """
        return ()

    def table_numbers(self, variables, learning_rate, step):
        """Returns what each table's rule takes at a step: the learning rate, then `rule_numbers()`.

        Args:
            variables: List of `EmbeddingVariable`: those that have a gradient.
            learning_rate, step: As for `rule_numbers`.

        Returns:
            float32 tensor of shape `(num_tables, num_numbers)`.
        """
        numbers = (learning_rate, *self.rule_numbers(learning_rate, step))
        row = tf.stack([tf.cast(number, tf.float32) for number in numbers])
        return tf.broadcast_to(row, (len(variables), len(numbers)))

    def build_for_tables(self, variables):
        """Makes what the optimizer itself keeps of its embedding variables. Defaults to nothing."""

    def finish_tables(self, variables):
        """Counts what `build_for_tables` made, once tables are updated. Defaults to nothing."""

    def build(self, variables):
        """Makes slots, in a table fresh ones: it serves the optimizer that was built on it last."""
        if self.built:
            return
        embedding, others = split_embedding_variable_from_others(variables)
        refuse_repeated(embedding)
        for variable in embedding:
            self._check_options(variable)
        if embedding:
            check_constants(self.rule_constants())
        settings = {id(variable): self._settings_for(variable) for variable in embedding}
        for variable in embedding:
            variable.set_rule(*settings[id(variable)][:3])
            variable.rule_owner = weakref.ref(self)
        # Past Keras' attribute tracking, which would take these for variables of the optimizer.
        object.__setattr__(self, "_variables_built_on", list(variables))
        object.__setattr__(self, "_built_settings", settings)
        tables = embedding if self.gradient_accumulation_steps else []
        object.__setattr__(self, "_accumulated_rows", {id(v): AccumulatedRows(v) for v in tables})
        super().build(others)
        self.build_for_tables(embedding)

    def __setattr__(self, name, value):
        is_setting = not name.startswith("_") and name != "built"
        if not is_setting or not getattr(self, "_built_settings", None):
            super().__setattr__(name, value)
            return
        before = getattr(self, name, None)
        # A traced step has the settings that it was traced with, and would not see another one.
        try:
            super().__setattr__(name, value)
            for variable in split_embedding_variable_from_others(self._variables_built_on)[0]:
                self._check_settings(variable)
        except RuntimeError:
            super().__setattr__(name, before)
            raise

    @tf.autograph.experimental.do_not_convert
    def apply(self, grads, trainable_variables=None):
        """Updates the variables by their gradients. As in Keras, the first call builds."""
        grads = list(grads)
        if trainable_variables is None:
            variables = self._variables_built_on if self.built else []
        else:
            variables = trainable_variables = list(trainable_variables)
            if grads:
                self.build(variables)
        embedding, _ = split_embedding_variable_from_others(variables)
        if not grads or not (embedding or self.check_room_on_all_ranks):
            return super().apply(grads, trainable_variables)
        if len(grads) != len(variables):
            raise ValueError(
                "`grads` must hold one gradient a variable. Received: "
                f"{len(grads)} gradients for {len(variables)} variables"
            )
        refuse_repeated(embedding)
        grads, variables = self._with_row_gradients(grads, variables)
        touched = [rows for rows in split_row_gradients(variables)[0] if rows.ids is not None]
        limited = [self.rows_of_update(r) for r in touched if r.variable.max_rows is not None]
        with tf.control_dependencies(room_checks(self, limited, grads)):
            return super().apply(grads, variables)

    def _with_row_gradients(self, grads, variables):
        """Puts values for each `IndexedSlices` and `RowGradient` for each embedding variable.

        Keras' scaling and clipping are then right for these values as they are: merged, their norm
        is that of the gradient's dense form, whose other rows are zeros.
        """
        grads, variables = list(grads), list(variables)
        given = []
        for i, variable in enumerate(variables):
            if not isinstance(variable, EmbeddingVariable):
                continue
            if grads[i] is None:
                variables[i] = RowGradient(variable, None)
                continue
            variables[i], grads[i] = row_gradient(variable, grads[i])
            given.append(i)
        # Keras scales gradients one by one: a joined one would be scaled whole for each table, and
        # one of halves in halves, from which the scale is to keep it.
        scales = self.loss_scale_factor and any(
            variables[i].columns is not None or grads[i].dtype != tf.float32 for i in given
        )
        clips = self.clipnorm or self.global_clipnorm or self.clipvalue
        if given and (clips or scales or self.gradient_accumulation_steps):
            merged = merge([variables[i] for i in given], [grads[i] for i in given])
            for i, rows, values in zip(given, *merged, strict=True):
                variables[i], grads[i] = rows, values
        return grads, variables

    def rows_of_update(self, rows):
        """Returns all rows that an update would change, of which a step has some: `RowGradient`."""
        accumulated = self.accumulated_rows(rows.variable)
        return rows if accumulated is None else accumulated.with_ids(rows)

    def accumulated_rows(self, variable):
        """Returns the `AccumulatedRows` of a table, or `None` if each step is an update."""
        return self._accumulated_rows.get(id(variable))

    def save_own_variables(self, store):
        """Saves the optimizer's variables with their names, which Keras leaves out."""
        super().save_own_variables(store)
        name_variables(store, self.variables)

    def _settings_for(self, variable):
        """Returns what a table's rule and updates are made from: it stays as it is."""
        # Keras asks with the TensorFlow variable, whose name is a path.
        decays = self.weight_decay and self._use_weight_decay(variable.value)
        decay = self.weight_decay if decays else 0.0
        clipping = self.clipnorm, self.global_clipnorm, self.clipvalue
        steps = self.gradient_accumulation_steps or None
        return self.rule, self.rule_constants(), decay, steps, *clipping

    def _check_options(self, variable):
        ours = {name: getattr(self, name) for name in self.unsupported_options}
        refuse_any(ours, type(self).__name__, variable)
        refuse_attributes(variable)
        if self.needs_whole_rows:
            refuse_part_of_row(type(self).__name__, variable)

    # The hooks below are Keras' (keras.optimizers.Optimizer.apply calls them, in this order), with
    # `RowGradient` for the embedding variables.

    def _check_variables_are_known(self, variables):
        touched, others = split_row_gradients(variables)
        super()._check_variables_are_known(others)
        known = {id(variable) for variable in self._variables_built_on}
        for variable in (rows.variable for rows in touched):
            if id(variable) not in known:
                raise ValueError(
                    f"Optimizer '{self.name}' must be built with every variable that it updates. "
                    "Make a new optimizer for a new set of variables. Received: variable "
                    f"'{variable.path}'"
                )
            if variable.rule_owner() is not self:
                raise RuntimeError(
                    f"The table of '{variable.path}' must keep the slots of optimizer "
                    f"'{self.name}', but another optimizer was built on it later and gave it slots "
                    "of its own. Use that one, or make a new optimizer. Received: "
                    f"rule='{variable.rule}'"
                )
            self._check_settings(variable)
            refuse_attributes(variable)

    def _check_settings(self, variable):
        built, now = self._built_settings[id(variable)], self._settings_for(variable)
        if now != built:
            raise RuntimeError(
                f"The settings of optimizer '{self.name}' must stay as they were when it was "
                "built, but for the learning rate. Make a new optimizer, or set them before "
                f"the first step. Received: {settings_that_changed(built, now)} for variable "
                f"'{variable.path}'"
            )

    def _backend_apply_gradients(self, grads, trainable_variables):
        # Past Keras' attribute tracking. Keras' clipping is not told whose gradients it is given.
        object.__setattr__(self, "_variables_of_step", trainable_variables)
        if self._accumulated_rows:
            self._accumulate(grads, trainable_variables)
        else:
            super()._backend_apply_gradients(grads, trainable_variables)
        object.__setattr__(self, "_variables_of_step", None)

    def _accumulate(self, grads, variables):
        """What Keras does where gradients are accumulated, for tables too."""
        touched, others = split_row_gradients(variables)
        by_id = {id(v): grad for v, grad in zip(variables, grads, strict=True)}
        rows_since = [self._accumulated_rows[id(rows.variable)] for rows in touched]
        since = [self._accumulated_gradients[self._get_variable_index(v)] for v in others]
        touched, sums = add_accumulated(rows_since, touched, [by_id[id(rows)] for rows in touched])
        of_others = [by_id[id(v)] + each for v, each in zip(others, since, strict=True)]

        def update():
            means = [each / self.gradient_accumulation_steps for each in (*sums, *of_others)]
            object.__setattr__(self, "_variables_of_step", [*touched, *others])
            means = self._clip_gradients(means)
            self._apply_weight_decay(others)
            self._backend_update_step(means, [*touched, *others], self.learning_rate)
            for each in rows_since:
                each.clear()
            for each in since:
                each.assign(tf.zeros_like(each.value))

        def keep():
            for each, rows, values in zip(rows_since, touched, sums, strict=True):
                each.assign(rows.ids, values)
            for each, value in zip(since, of_others, strict=True):
                each.assign(value)

        run_if(is_update(self), update, keep)

    def _clip_gradients(self, grads):
        if self.clip_over_ranks is None:
            if self.clipnorm or self.global_clipnorm:
                refuse_norms_of_parts(type(self).__name__, self._variables_of_step)
            return super()._clip_gradients(grads)
        return self.clip_over_ranks(grads, self._variables_of_step)

    def _apply_weight_decay(self, variables):
        super()._apply_weight_decay(split_row_gradients(variables)[1])

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        pairs = list(zip(grads, trainable_variables, strict=True))
        touched = [(g, v) for g, v in pairs if isinstance(v, RowGradient)]
        others = [(g, v) for g, v in pairs if not isinstance(v, RowGradient)]
        # First, as the native op may refuse the step, and nothing has changed then.
        if touched:
            variables = [rows.variable for _, rows in touched]
            step = tf.cast(self.iterations, tf.int64) + 1
            native.apply_gradients(
                variables,
                [rows.ids for _, rows in touched],
                [values for values, _ in touched],
                self.table_numbers(variables, tf.cast(learning_rate, tf.float32), step),
                row_splits=[rows.row_splits for _, rows in touched],
                weights=[rows.weights for _, rows in touched],
                combiners=[rows.combiner for _, rows in touched],
                columns=columns_of([rows for _, rows in touched]),
            )
            self.finish_tables(variables)
        # Also without others: an optimizer may count steps here.
        super()._backend_update_step([g for g, _ in others], [v for _, v in others], learning_rate)

    def _all_reduce_sum_gradients(self, grads_and_vars):
        if tf.distribute.has_strategy():
            return super()._all_reduce_sum_gradients(grads_and_vars)
        # Keras' returns the same, through a custom gradient: TensorFlow would keep the graph of the
        # step, and what it has, until the process ends.
        return grads_and_vars
