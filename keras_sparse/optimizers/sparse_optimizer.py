import weakref

import keras
import tensorflow as tf

from keras_sparse.optimizers.split import split_embedding_variable_from_others
from keras_sparse.optimizers.support.accumulated_rows import AccumulatedRows
from keras_sparse.optimizers.support.slot_dtype import refuse_slot_dtype
from keras_sparse.optimizers.support.step import check_gradients
from keras_sparse.optimizers.support.step import Step
from keras_sparse.optimizers.support.step import with_gradients
from keras_sparse.optimizers.support.table_gradient import table_gradient
from keras_sparse.optimizers.support.unsupported_options import check_constants
from keras_sparse.optimizers.support.unsupported_options import refuse_any
from keras_sparse.optimizers.support.unsupported_options import refuse_attributes
from keras_sparse.optimizers.support.unsupported_options import refuse_part_of_row
from keras_sparse.optimizers.support.unsupported_options import refuse_repeated
from keras_sparse.optimizers.support.unsupported_options import settings_that_changed
from keras_sparse.saving.format.named_store import name_variables
from keras_sparse.tables.embedding_variable import EmbeddingVariable


class SparseOptimizer(keras.optimizers.Optimizer):
    """Mixin that lets a Keras optimizer train embedding variables.

    Place it before the Keras optimizer: `class Adagrad(SparseOptimizer, keras.optimizers.Adagrad)`.
    Keras provides the config, learning-rate schedules, loss scaling, clipping, the step count and
    the update of dense variables. The mixin passes the embedding variables of a step to one native
    op, in the order of the variables.

    A subclass names its native rule in `rule`. `rule_constants()` returns the hyperparameters,
    which are fixed once the optimizer is built, and `rule_numbers()` the numbers that change from
    step to step. An option in `unsupported_options` raises `NotImplementedError` when the optimizer
    is built on an embedding variable, unless it is `None`, `False` or 0. `needs_whole_rows=True`
    rejects tables that are sharded by columns.
    """

    unsupported_options: tuple[str, ...] = ("use_ema",)
    needs_whole_rows = False
    # Of the step that is made: the rate, which a callable gives once, what the norm of all
    # gradients, those of tables too, multiplies each by, and the dense variables.
    _rate_of_step = None
    _scale_of_step = None
    _dense_of_step = None

    @property
    def rule(self):
        """String. Name of the native rule."""
        raise NotImplementedError

    def rule_constants(self):
        """Returns a dict of floats: the hyperparameters of the native rule by name."""
        raise NotImplementedError

    def rule_numbers(self, learning_rate, step):
        """Returns the numbers of a step that the native rule takes, besides the rate.

        Args:
            learning_rate: Scalar float32 tensor. The rate of this step.
            step: Scalar int64 tensor. The number of this step, from 1.

        Returns:
            Tuple of scalar tensors; empty by default.
        """
        return ()

    def table_numbers(self, variables, learning_rate, step):
        """Returns the learning rate and `rule_numbers()` of a step for each table.

        Args:
            variables: List of the `EmbeddingVariable`s with a gradient.
            learning_rate: Scalar float32 tensor. The rate of this step.
            step: Scalar int64 tensor. The number of this step, from 1.

        Returns:
            float32 tensor of shape `(num_tables, num_numbers)`.
        """
        numbers = (learning_rate, *self.rule_numbers(learning_rate, step))
        row = tf.stack([tf.cast(number, tf.float32) for number in numbers])
        return tf.broadcast_to(row, (len(variables), len(numbers)))

    def build_for_tables(self, variables):
        """Creates variables of the optimizer for its tables. Does nothing by default."""

    def finish_tables(self, variables):
        """Updates the variables of `build_for_tables` after the tables.

        Does nothing by default.
        """

    def build(self, variables):
        """Creates slots. A table gets fresh slots and serves the latest optimizer only."""
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
            variable.table.set_rule(*settings[id(variable)][:3])
            variable.table.rule_owner = weakref.ref(self)
        # Past Keras' attribute tracking, which would take these for variables of the optimizer.
        object.__setattr__(self, "_variables_built_on", list(variables))
        object.__setattr__(self, "_built_settings", settings)
        tables = [v.table for v in embedding] if self.gradient_accumulation_steps else []
        object.__setattr__(self, "_accumulated_rows", {id(t): AccumulatedRows(t) for t in tables})
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
        """Updates variables by their gradients. The first call builds the optimizer.

        Args:
            grads: List of gradients.
            trainable_variables: List of as many variables. Defaults to `None`: the variables that
                the optimizer was built on.
        """
        grads = list(grads)
        if trainable_variables is None:
            variables = self._variables_built_on if self.built else []
        else:
            variables = trainable_variables = list(trainable_variables)
            if grads:
                self.build(variables)
        embedding, _ = split_embedding_variable_from_others(variables)
        if not grads or not embedding:
            super().apply(grads, trainable_variables)
            return
        check_gradients(grads, variables)
        self.step(grads, variables).apply()

    def step(self, grads, variables, squares_over_ranks=None):
        """Returns the `Step` of gradients and their variables, without changing any.

        Args:
            grads: List of gradients. Keras warns about variables whose gradient is `None`.
            variables: List of as many variables.
            squares_over_ranks: Function that sums squared norms over ranks, as `clip_tables` takes
                it. Defaults to `None`: one rank.
        """
        embedding, dense = split_embedding_variable_from_others(variables)
        refuse_repeated(embedding)
        self._check_variables_are_known(dense)
        for variable in embedding:
            self._check_table(variable)
        pairs = with_gradients(grads, variables)
        tables = [table_gradient(v, g) for g, v in pairs if isinstance(v, EmbeddingVariable)]
        dense = [(g, v) for g, v in pairs if not isinstance(v, EmbeddingVariable)]
        return Step(self, tables, [g for g, _ in dense], [v for _, v in dense], squares_over_ranks)

    def apply_dense(self, grads, variables, learning_rate, scale):
        """Runs the part of a step that updates dense variables.

        Args:
            grads: List of gradients of dense variables.
            variables: List of these variables.
            learning_rate: Scalar tensor. The rate of this step.
            scale: Scalar tensor. Factor of each gradient under `global_clipnorm`.
        """
        updated = [v for v in variables if not self.is_overwritten(v)]
        self._share(learning_rate, scale if self.global_clipnorm else None, updated)
        try:
            if not updated:  # Keras leaves such an update out
                self._backend_apply_gradients([], [])
            if grads:
                super().apply(grads, variables)
            else:
                self._iterations.assign_add(1)
        finally:
            self._share(None, None, None)

    def is_overwritten(self, variable):
        """Returns whether Keras uses the gradient of a variable as its next value."""
        return self._overwrite_variable_with_gradient(variable)

    def _share(self, learning_rate, scale, variables):
        # Past Keras' attribute tracking.
        object.__setattr__(self, "_rate_of_step", learning_rate)
        object.__setattr__(self, "_scale_of_step", scale)
        object.__setattr__(self, "_dense_of_step", variables)

    def accumulated_gradients(self, variables):
        """Returns the list of gradients that Keras has accumulated for dense variables."""
        return [self._accumulated_gradients[self._get_variable_index(v)] for v in variables]

    def accumulated_rows(self, table):
        """Returns the `AccumulatedRows` of a table, or `None` without accumulation."""
        return self._accumulated_rows.get(id(table))

    def save_own_variables(self, store):
        """Saves the variables of the optimizer with their names, which Keras leaves out."""
        super().save_own_variables(store)
        name_variables(store, self.variables)

    def _settings_for(self, variable):
        """Returns the settings of a table's rule and updates, which must stay unchanged."""
        # Keras passes the TensorFlow variable, whose name is a path.
        decays = self.weight_decay and self._use_weight_decay(variable.value)
        decay = self.weight_decay if decays else 0.0
        clipping = self.clipnorm, self.global_clipnorm, self.clipvalue
        steps = self.gradient_accumulation_steps or None
        return self.rule, self.rule_constants(), decay, steps, *clipping

    def _check_options(self, variable):
        ours = {name: getattr(self, name) for name in self.unsupported_options}
        refuse_any(ours, type(self).__name__, variable)
        refuse_attributes(variable)
        refuse_slot_dtype(type(self).__name__, self.rule, self.rule_constants(), variable)
        if self.needs_whole_rows:
            refuse_part_of_row(type(self).__name__, variable)

    def _check_table(self, variable):
        if id(variable) not in self._built_settings:
            raise ValueError(
                f"Optimizer '{self.name}' must be built with every variable that it updates. "
                "Make a new optimizer for a new set of variables. Received: variable "
                f"'{variable.path}'"
            )
        if variable.table.rule_owner() is not self:
            raise RuntimeError(
                f"The table of '{variable.path}' must keep the slots of optimizer '{self.name}', "
                "but another optimizer was built on it later and replaced its slots. Use that "
                f"optimizer, or create a new one. Received: rule='{variable.table.rule}'"
            )
        self._check_settings(variable)
        refuse_attributes(variable)

    def _check_settings(self, variable):
        built, now = self._built_settings[id(variable)], self._settings_for(variable)
        if now != built:
            raise RuntimeError(
                f"The settings of optimizer '{self.name}' must stay unchanged once it is built, "
                "except for the learning rate. Create a new optimizer, or change settings "
                f"before the first step. Received: {settings_that_changed(built, now)} for "
                f"variable '{variable.path}'"
            )

    # Keras calls the hooks below as it updates dense variables.

    def _get_current_learning_rate(self):
        if self._rate_of_step is None:
            return super()._get_current_learning_rate()
        return self._rate_of_step

    def _clip_gradients(self, grads):
        if self._scale_of_step is None:
            return super()._clip_gradients(grads)
        return [grad * tf.cast(self._scale_of_step, grad.dtype) for grad in grads]

    def _backend_reset_gradient_accumulators(self):
        if self._dense_of_step is None:
            super()._backend_reset_gradient_accumulators()
            return
        # As for tables: the sums of other variables wait for their next gradient.
        for sums in self.accumulated_gradients(self._dense_of_step):
            sums.assign(tf.zeros_like(sums.value))

    def _all_reduce_sum_gradients(self, grads_and_vars):
        if tf.distribute.has_strategy():
            return super()._all_reduce_sum_gradients(grads_and_vars)
        # Keras' returns the same, through a custom gradient: TensorFlow would keep the graph of the
        # step, and what it has, until the process ends.
        return grads_and_vars
