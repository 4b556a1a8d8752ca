import keras
import tensorflow as tf

from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.optimizers.support.optimizer_choice import OptimizerChoice
from keras_sparse.optimizers.support.optimizer_choice import refuse_unmatched
from keras_sparse.optimizers.support.step import check_gradients
from keras_sparse.optimizers.support.step import DenseStep
from keras_sparse.optimizers.support.step import JointStep
from keras_sparse.optimizers.support.unsupported_options import refuse_repeated
from keras_sparse.saving.format.named_store import name_variables

# Keras' settings that this one has and would not read.
_OF_EACH = (
    "clipnorm",
    "clipvalue",
    "global_clipnorm",
    "gradient_accumulation_steps",
    "use_ema",
    "weight_decay",
)


@keras.saving.register_keras_serializable(package="keras_sparse")
class MultiOptimizer(keras.optimizers.Optimizer):
    """Trains each variable of a model with one of several optimizers.

    It is the `keras.optimizers.MultiOptimizer` of Keras 3.15 for models with tables. Each key
    selects the variables of its optimizer:

    - the name of a layer: all variables in the layer and in its sublayers;
    - the name of a table in a layer with several tables, such as `DistributedEmbedding`;
    - a regular expression that matches whole variable paths, as in `keras.optimizers.OptimizerMap`;
    - a function from a variable to a boolean;
    - `"embeddings"`: the tables that no key above matches;
    - `"others"`: all remaining variables.

    Each optimizer keeps its own learning rate or schedule, slots, weight decay and clipping;
    `global_clipnorm` covers its own variables. All optimizers count every step and must have the
    same `gradient_accumulation_steps`. If a table has no room for new rows, or receives an id out
    of its range, no variable changes. Optimizers that can train tables update first. If several
    optimizers train tables, each looks up its rows separately.

    `optimizer["embeddings"].learning_rate` is the rate of one optimizer, and `optimizer.optimizers`
    lists all; reading `learning_rate` itself raises `AttributeError`. `LearningRateScheduler` and
    `ReduceLROnPlateau` of Keras 3.15 set the rate of each optimizer from its current rate.
    `DistributedOptimizer` and `LossScaleOptimizer` can wrap a `MultiOptimizer`.

    Args:
        optimizers: Dict from keys to `keras.optimizers.Optimizer`, their names, or their configs.
            Tables need an optimizer of `keras_sparse.optimizers`. The order of keys has no effect.
        loss_scale_factor: Float. Factor of the loss, shared by all optimizers. Defaults to `None`.
        name: String. Name of the optimizer. Defaults to `None`: a name that Keras makes.
        gradient_accumulation_steps: Integer above 1. Number of steps over which each optimizer
            accumulates that has no number of its own. Defaults to `None`.

    Raises:
        TypeError: `optimizers` is not a dict, or a key is neither a string nor a function.
        ValueError: An optimizer serves several keys, wraps others, or accumulates over another
            number of steps. When the optimizer is built: two of the first four kinds of keys match
            one variable, one of them matches no variable, or no key matches a variable.

    Example:
    >>> optimizer = keras_sparse.optimizers.MultiOptimizer(
    ...     {
    ...         "embeddings": keras_sparse.optimizers.Adagrad(0.05),
    ...         "others": keras_sparse.optimizers.AdamW(0.001),
    ...     }
    ... )
    >>> model.compile(optimizer, loss="mse")
    """

    built: bool

    def __init__(
        self, optimizers, loss_scale_factor=None, name=None, gradient_accumulation_steps=None
    ):
        choice = OptimizerChoice(optimizers, loss_scale_factor, gradient_accumulation_steps)
        super().__init__(learning_rate=0.0, name=name)
        self._optimizer_map = choice
        self._inner_optimizers = choice.values()
        self._owners = {}  # of a variable's key, the place of its optimizer
        self.loss_scale_factor = loss_scale_factor

    def __setattr__(self, name, value):
        if name in _OF_EACH and value:  # Keras sets options that are off
            raise _of_one(f"`{name}`", name, "set")
        super().__setattr__(name, value)

    def __getitem__(self, key):
        """Returns the optimizer of a key."""
        return self._optimizer_map[key]

    def __dir__(self):
        # Keras' saving walks over these, and would save the variables once more.
        hidden = {"optimizers", "_inner_optimizers", "_optimizer_map"}
        return [name for name in super().__dir__() if name not in hidden]

    def build(self, variables):
        """Builds each optimizer on its variables."""
        if self.built:
            return
        variables = list(variables)
        refuse_repeated(variables)
        if size() == 1:  # as soon as one sees all variables
            refuse_unmatched(self.unmatched_keys(variables), variables)
        places = {id(optimizer): i for i, optimizer in enumerate(self.optimizers)}
        for variable in variables:
            self._owners[self._var_key(variable)] = places[id(self._optimizer_map(variable))]
        for optimizer, part in zip(self.optimizers, self.split(variables), strict=True):
            optimizer.build([variables[i] for i in part])  # of none, on this rank at least
        super().build(variables)

    def unmatched_keys(self, variables):
        """Returns the keys that match none of the variables, as a list of strings."""
        return self._optimizer_map.unmatched(variables)

    def split(self, variables):
        """Returns, for each optimizer, the indices of its variables, once built."""
        places: list[list[int]] = [[] for _ in self.optimizers]
        for i, variable in enumerate(variables):
            owner = self._owners.get(self._var_key(variable))
            if owner is None:
                raise ValueError(
                    f"Optimizer '{self.name}' must be built with every variable that it updates. "
                    "Make a new optimizer for a new set of variables. Received: variable "
                    f"'{variable.path}'"
                )
            places[owner].append(i)
        return places

    @tf.autograph.experimental.do_not_convert
    def apply(self, grads, trainable_variables=None):
        """Updates variables by their gradients. The first call builds the optimizer.

        Args:
            grads: List of gradients.
            trainable_variables: List of as many variables. Defaults to `None`: the variables that
                the optimizer was built on.

        Raises:
            ValueError: The optimizer is not built and `trainable_variables` is missing, or a
                variable was not among those that the optimizer was built on.
        """
        grads = list(grads)
        if not grads:
            return
        if trainable_variables is None:
            if not self.built:
                raise ValueError(
                    "`apply` must be called with the variables until the optimizer is built. "
                    f"Received: {len(grads)} gradients alone"
                )
            trainable_variables = self._trainable_variables
        variables = list(trainable_variables)
        check_gradients(grads, variables)
        refuse_repeated(variables)
        self.build(variables)
        self.step(grads, variables).apply()

    def step(self, grads, variables, *squares_over_ranks):
        """Returns the `JointStep` of gradients and their variables.

        Args:
            grads: List of gradients.
            variables: List of as many variables.
            *squares_over_ranks: For each optimizer, the function that `SparseOptimizer.step` takes;
                none on one rank.
        """
        steps = []
        for i, places in enumerate(self.split(variables)):
            optimizer = self.optimizers[i]
            own = [grads[place] for place in places], [variables[place] for place in places]
            if type(optimizer).apply is SparseOptimizer.apply:
                steps.append(optimizer.step(*own, *squares_over_ranks[i : i + 1]))
            else:
                steps.append(DenseStep(optimizer, *own))
        return JointStep(steps, self._iterations)

    @property
    def optimizers(self):
        return self._inner_optimizers

    @property
    def variables(self):
        return [*self._variables, *(each for one in self.optimizers for each in one.variables)]

    @property
    def iterations(self):
        return self.optimizers[0].iterations

    @property
    def loss_scale_factor(self):
        return self._loss_scale_factor

    @loss_scale_factor.setter
    def loss_scale_factor(self, factor):
        self._loss_scale_factor = factor
        # Keras' constructor sets it before the optimizers exist.
        for optimizer in getattr(self, "_inner_optimizers", ()):
            optimizer.loss_scale_factor = factor

    @property
    def learning_rate(self):
        raise _of_one("A learning rate", "learning_rate", "read")

    @learning_rate.setter
    def learning_rate(self, learning_rate):
        raise _of_one("A learning rate", "learning_rate", "set")

    def finalize_variable_values(self, var_list):
        for optimizer, part in zip(self.optimizers, self.split(var_list), strict=True):
            optimizer.finalize_variable_values([var_list[i] for i in part])

    def set_weights(self, weights):
        super().set_weights(weights)  # the first, which are its own
        first = len(self._variables)
        for optimizer in self.optimizers:
            optimizer.set_weights(weights[first : (first := first + len(optimizer.variables))])

    def save_own_variables(self, store):
        super().save_own_variables(store)
        name_variables(store, self.variables)

    def exclude_from_weight_decay(self, var_list=None, var_names=None):
        for optimizer in self.optimizers:
            optimizer.exclude_from_weight_decay(var_list, var_names)

    def get_config(self):
        chosen = self._optimizer_map.optimizers.items()
        pairs = [[keras.saving.serialize_keras_object(each) for each in pair] for pair in chosen]
        return {
            "optimizers": pairs,
            "loss_scale_factor": self.loss_scale_factor,
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        pairs = [
            [keras.saving.deserialize_keras_object(each, custom_objects) for each in pair]
            for pair in config["optimizers"]
        ]
        return cls(**{**config, "optimizers": dict(pairs)})


def _of_one(setting, name, what):
    return AttributeError(
        f"{setting} must be {what} on one of the optimizers of a MultiOptimizer: "
        f'`optimizer["embeddings"].{name}`, with one of its keys. `optimizer.optimizers` lists '
        "them"
    )
