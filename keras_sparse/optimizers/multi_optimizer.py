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
    """Trains each variable of a model with one of several optimizers, as one of `compile`.

    It is what `keras.optimizers.MultiOptimizer` is in Keras 3.15, for models with tables. A key
    says which variables an optimizer has:

    - the name of a layer: the variables in it, those of the layers in it too;
    - the name of a table of a layer with several, such as `DistributedEmbedding`;
    - a regular expression that matches whole paths of variables, as in `keras.optimizers.
      OptimizerMap`;
    - a function of a variable that returns whether it has it;
    - `"embeddings"`: the tables that none of these match;
    - `"others"`: all that is left.

    Two keys of the first four kinds that match the same variable, one that matches none, and a
    variable that no key is for are errors when it is built.

    Each optimizer keeps its own rate or schedule, slots, weight decay and clipping, whose
    `global_clipnorm` is of the variables that it has. All count every step and must accumulate
    gradients over as many (`gradient_accumulation_steps`), and none of the variables changes where
    a table has no room for its new rows, or is given an id outside of it. Optimizers that can train
    tables update first. Where several have tables, these look for their rows twice.

    There is no one `learning_rate`: `optimizer["embeddings"].learning_rate` is that of one, and
    `optimizer.optimizers` lists them. `LearningRateScheduler` and `ReduceLROnPlateau` of Keras 3.15
    set the rate of each from what that has. Around it can be `DistributedOptimizer` and
    `LossScaleOptimizer`.

    Args:
        optimizers: Dict from keys to `keras.optimizers.Optimizer`, or to their names or configs.
            Of `keras_sparse.optimizers` where there are tables. The order makes no difference.
        loss_scale_factor: Float: the one of all. Defaults to `None`.
        name: String. Defaults to `None`, a name that Keras makes.
        gradient_accumulation_steps: Integer: for each of the optimizers that has none. Defaults to
            `None`.

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
        if name in _OF_EACH and value:  # Keras sets those that are off
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
        """Builds the optimizers, each on the variables that it has."""
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
        """Returns the keys, as text, that match none of some variables."""
        return self._optimizer_map.unmatched(variables)

    def split(self, variables):
        """Returns which variables each optimizer has, once built: a list of places for each."""
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
        """Updates the variables by their gradients. As in Keras, the first call builds."""
        grads = list(grads)
        if not grads:
            return
        if trainable_variables is None:
            if not self.built:
                raise ValueError(
                    "`apply` must be given the variables where the optimizer is not built. "
                    f"Received: {len(grads)} gradients alone"
                )
            trainable_variables = self._trainable_variables
        variables = list(trainable_variables)
        check_gradients(grads, variables)
        refuse_repeated(variables)
        self.build(variables)
        self.step(grads, variables).apply()

    def step(self, grads, variables, *squares_over_ranks):
        """Returns the `JointStep` of gradients and their variables: see `SparseOptimizer.step`.

        Args:
            grads, variables: Lists of as many gradients as variables.
            *squares_over_ranks: As there, one an optimizer; none if there is one rank.
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
        # Keras' constructor sets it before there are any.
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
        f"{setting} must be {what} of one optimizer, as MultiOptimizer has several: "
        f'`optimizer["embeddings"].{name}`, with a key that it was made with; '
        "`optimizer.optimizers` lists them"
    )
