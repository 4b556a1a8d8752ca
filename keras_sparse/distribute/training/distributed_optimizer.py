import functools
import itertools

import keras
import tensorflow as tf

from keras_sparse.distribute.ranks import collectives
from keras_sparse.distribute.ranks.collective_name import collective_name
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.training.average_gradients import average_gradients
from keras_sparse.distribute.training.step_agreement import agree_on_step
from keras_sparse.optimizers.multi_optimizer import MultiOptimizer
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.clipping import sum_of_squares
from keras_sparse.optimizers.support.room_check import check_room
from keras_sparse.optimizers.support.room_check import gradients_of
from keras_sparse.optimizers.support.step import check_gradients
from keras_sparse.optimizers.support.step import DenseStep
from keras_sparse.optimizers.support.step_count import optimizers_in

# Optimizers receive their numbers in their first step, which all ranks make together. So numbers
# agree on all ranks, whereas names that Keras counts up may differ.
_numbers = itertools.count()


@keras.saving.register_keras_serializable(package="keras_sparse")
class DistributedOptimizer(keras.optimizers.Optimizer):
    """Averages gradients over ranks before an optimizer applies them.

    Each rank computes the gradients of its part of the batch. The average makes N ranks train as
    one process with the whole batch. Gradients of dense variables are averaged in one exchange, as
    are those of replicated tables. For a sharded table, each rank receives the gradient of its part
    from its layer.

    Clipping by norm uses the norms of whole tables. Under `mixed_float16`, all ranks skip a step if
    the gradients of one rank are not finite. Everything else the optimizer does on each rank alike.
    On one rank, this is the inner optimizer itself, and Horovod is not needed.

    Saved state is that of the inner optimizer: either can load the weights of the other.

    All ranks must train the same model, and the same gradients may be missing (`None`). A model
    without a layer of keras_sparse needs `compile(..., jit_compile=False)` on GPUs, because XLA has
    no exchanges.

    Args:
        inner_optimizer: `keras.optimizers.Optimizer`, its name, or its config as
            `keras.optimizers.get` takes it. A model with tables needs an optimizer of
            `keras_sparse.optimizers`. A `LossScaleOptimizer` must wrap this optimizer instead.
        name: String. Name of the optimizer. Defaults to `None`: a name that Keras makes.

    Raises:
        ValueError: `inner_optimizer` is `None`, a `DistributedOptimizer`, a `LossScaleOptimizer`,
            or a `keras.optimizers.MultiOptimizer`.

    Example:
    >>> optimizer = keras_sparse.optimizers.Adagrad(0.01)
    >>> model.compile(keras_sparse.distribute.DistributedOptimizer(optimizer), loss="mse")
    """

    built: bool

    def __init__(self, inner_optimizer, name=None):
        inner_optimizer = _check(keras.optimizers.get(inner_optimizer))
        # Keras needs a rate here, but never reads it.
        super().__init__(0.0, name=name, loss_scale_factor=inner_optimizer.loss_scale_factor)
        self.inner_optimizer = inner_optimizer
        self._variables_built_on = None
        self._number = None
        self._tables_in_parts: list = []  # of each of the optimizers inside
        self._has_limit = False

    def __setattr__(self, name, value):
        inner = self.__dict__.get("inner_optimizer")
        is_of_inner = not name.startswith("_") and name != "built" and hasattr(inner, name)
        if is_of_inner and not hasattr(type(self), name):
            raise AttributeError(
                f"`{name}` must be set on the inner optimizer, before it is built: "
                f"`optimizer.inner_optimizer.{name}`. Received: {name}={value!r}"
            )
        super().__setattr__(name, value)

    def __dir__(self):
        # Keras' saving walks over these, and would save the variables once more.
        hidden = {"inner_optimizer", "optimizers"}
        return [name for name in super().__dir__() if name not in hidden]

    def build(self, variables):
        """Builds the inner optimizer, on each rank separately."""
        if self.built:
            return
        self.inner_optimizer.build(variables)
        # Past Keras' attribute tracking, which would take these for variables of the optimizer.
        object.__setattr__(self, "_variables_built_on", list(variables))
        self.built = True

    @tf.autograph.experimental.do_not_convert
    def apply(self, grads, trainable_variables=None):
        """Updates variables by the average gradients of all ranks. All must call it.

        Args:
            grads: List of gradients of this rank.
            trainable_variables: List of as many variables. Defaults to `None`: the variables that
                the optimizer was built on.
        """
        grads = list(grads)
        if trainable_variables is not None:
            trainable_variables = list(trainable_variables)
            if grads or size() > 1:
                self.build(trainable_variables)
        if size() == 1 or not self.built:
            self.inner_optimizer.apply(grads, trainable_variables)
            return
        variables = trainable_variables or self._variables_built_on
        if grads or variables:
            check_gradients(grads, variables)
        name = self._call_name()
        grads = average_gradients(grads, variables, name)
        if type(self.inner_optimizer).apply in (SparseOptimizer.apply, MultiOptimizer.apply):
            step = self.inner_optimizer.step(grads, variables, *self._squares_over_ranks(name))
            step.apply(self._check_room(f"{name}.room"))
        else:
            step = DenseStep(self.inner_optimizer, grads, variables)
            step.update(gradients_of([step]))

    def true_on_all_ranks(self, flag):
        """Returns whether a boolean tensor is true on every rank. All must call it."""
        if size() == 1:
            return flag
        failures = [tf.cast(tf.logical_not(flag), tf.int32)]
        (num_failures,) = collectives.sum_of(failures, f"{self._call_name()}.finite")
        return tf.equal(num_failures, 0)

    def _squares_over_ranks(self, name):
        """Returns the function of each optimizer inside whose norms have parts on other ranks."""
        optimizers = optimizers_in(self.inner_optimizer)
        return [
            functools.partial(squares_over_ranks, tables=tables, name=f"{name}.norms.{i}")
            if tables and (optimizer.clipnorm or optimizer.global_clipnorm)
            else None
            for i, (optimizer, tables) in enumerate(
                zip(optimizers, self._tables_in_parts, strict=True)
            )
        ]

    def _check_room(self, name):
        """Returns what looks for room on all ranks, or `None` if no table has a limit."""
        if not self._has_limit:
            return None

        def sum_over_ranks(number):
            return collectives.sum_of([number], name)[0]

        return functools.partial(check_room, sum_over_ranks=sum_over_ranks)

    def _call_name(self):
        if self._number is None:
            agreed = agree_on_step(self._variables_built_on, self.inner_optimizer)
            self._tables_in_parts, self._has_limit = agreed
            self._number = next(_numbers)
        return collective_name(f"keras_sparse.optimizer_{self._number}")

    # Delegated to the inner optimizer.

    def __getitem__(self, key):
        return self.inner_optimizer[key]

    @property
    def variables(self):
        return self.inner_optimizer.variables

    @property
    def iterations(self):
        return self.inner_optimizer.iterations

    @property
    def optimizers(self):
        """Optimizers of an inner `MultiOptimizer`, which Keras' callbacks read."""
        return self.inner_optimizer.optimizers

    @property
    def learning_rate(self):
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        self.inner_optimizer.learning_rate = learning_rate

    @property
    def loss_scale_factor(self):
        return self.inner_optimizer.loss_scale_factor

    @loss_scale_factor.setter
    def loss_scale_factor(self, factor):
        if hasattr(self, "inner_optimizer"):  # not yet where Keras' __init__ sets it
            self.inner_optimizer.loss_scale_factor = factor

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        self.inner_optimizer.exclude_from_weight_decay(var_list, var_names)

    def finalize_variable_values(self, var_list):
        self.inner_optimizer.finalize_variable_values(var_list)

    def set_weights(self, weights):
        self.inner_optimizer.set_weights(weights)

    def save_own_variables(self, store):
        self.inner_optimizer.save_own_variables(store)

    def load_own_variables(self, store):
        self.inner_optimizer.load_own_variables(store)

    def get_config(self):
        inner = keras.saving.serialize_keras_object(self.inner_optimizer)
        return {"inner_optimizer": inner, "name": self.name}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        inner = keras.saving.deserialize_keras_object(config["inner_optimizer"], custom_objects)
        return cls(**{**config, "inner_optimizer": inner})


def _check(optimizer):
    if optimizer is None:
        raise ValueError("`inner_optimizer` must be an optimizer. Received: inner_optimizer=None")
    if isinstance(optimizer, DistributedOptimizer):
        raise ValueError(
            "`inner_optimizer` must not average gradients over ranks itself. Received: "
            "inner_optimizer=DistributedOptimizer"
        )
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        raise ValueError(
            "`inner_optimizer` must not be a LossScaleOptimizer, because ranks that scale their "
            "loss differently have gradients of different sizes. Swap the two: "
            "LossScaleOptimizer(DistributedOptimizer(...)). Received: "
            f"inner_optimizer=LossScaleOptimizer with '{optimizer.inner_optimizer.name}'"
        )
    if hasattr(optimizer, "optimizers") and not isinstance(optimizer, MultiOptimizer):
        raise ValueError(
            "`inner_optimizer` must be a MultiOptimizer of `keras_sparse.optimizers`, whose "
            "optimizers clip and check for room over all ranks. Convert it with "
            "`keras_sparse.optimizers.from_keras`. Received: "
            f"inner_optimizer=keras.optimizers.{type(optimizer).__name__}"
        )
    return optimizer


def squares_over_ranks(gradients, tables, name):
    """Sums the squared gradients of tables over their parts on all ranks.

    All ranks must call it, also those without a part.

    Args:
        gradients: List of `TableGradient`, merged; those of whole tables are passed over.
        tables: Tuple of strings, the same on all ranks: the names of the tables that have parts.
        name: String, as for `collectives.sum_of`.

    Returns:
        Dict from these names to scalar float32 tensors.
    """
    squares = {table: [tf.constant(0.0)] for table in tables}
    for each in gradients:
        if each.part is not None:
            squares[each.part.table].append(sum_of_squares(each.values))
    own = tf.stack([tf.add_n(squares[table]) for table in tables])
    (sums,) = collectives.sum_of([own], name)
    collectives.keep_alive([sums])  # a rank without a part may not read them otherwise
    return dict(zip(tables, tf.unstack(sums), strict=True))
