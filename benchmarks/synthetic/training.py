"""A synthetic model under training: one compiled step a batch."""

import keras
import tensorflow as tf

import keras_sparse
from benchmarks import workloads
from benchmarks.synthetic.batches import draw_batch
from benchmarks.synthetic.tables import TABLES
from keras_sparse import distribute
from keras_sparse.distribute.ranks.runtime import horovod

# As the original has them: by the name of the rule the arguments of its Keras class.
RULES = {
    "sgd": ("SGD", {"learning_rate": 0.03}, 0),
    "adagrad": ("Adagrad", {"learning_rate": 0.001, "initial_accumulator_value": 0.1}, 1),
    "adam": ("Adam", {"learning_rate": 0.001}, 2),
}


def num_slots_of(rule):
    return RULES[rule][2]


def make_optimizer(api, rule):
    name, arguments, _ = RULES[rule]
    if api == "keras":
        return getattr(keras.optimizers, name)(**arguments)
    return distribute.DistributedOptimizer(getattr(keras_sparse.optimizers, name)(**arguments))


class DensePart:
    """Dense layers, which get rows and numbers side by side. Binary cross-entropy."""

    def __init__(self, model):
        keras.utils.set_random_seed(workloads.SEED)  # the same on all ranks
        layers = [keras.layers.Dense(units, "relu") for units in model.units]
        self._layers = keras.Sequential([*layers, keras.layers.Dense(1)])
        self._layers.build((None, model.concat_width + model.num_numerical))
        self.variables = self._layers.trainable_variables

    def loss(self, rows, numerical, labels):
        logits = self._layers(tf.concat([rows, numerical], axis=1))
        return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))


class Training:
    """A model with its tables, and the batches of this rank, which come in turn.

    Args:
        api: Which of `TABLES`.
        model: `SyntheticModel`.
        options: Those of the command.
    """

    def __init__(self, api, model, options):
        self._api = api
        self._model = model
        self.tables = TABLES[api](model, options, num_slots_of(options.optimizer))
        self._dense = DensePart(model)
        self._variables = [*self.tables.variables, *self._dense.variables]
        self._optimizer = make_optimizer(api, options.optimizer)
        self._optimizer.build(self._variables)
        samples = options.batch_size // distribute.size()
        here = slice(distribute.rank() * samples, (distribute.rank() + 1) * samples)
        whole = self.tables.whole_inputs
        inputs = model.inputs if whole is None else [model.inputs[i] for i in whole]
        of_input = samples if whole is None else options.batch_size
        self._shapes = [(of_input, hotness) for _, hotness in inputs]
        self._drawn = (options.batch_size, options.alpha, here, whole)
        self._batches = [self._draw(i) for i in range(options.num_data_batches)]
        self._compiled = tf.function(self._train, autograph=False)

    def batch(self, i):
        """Returns this rank's part of batch `i`, which is a new one where none come in turn."""
        return self._batches[i % len(self._batches)] if self._batches else self._draw(i)

    def step(self, batch):
        """Trains on a batch. Returns the loss of this rank's samples before that."""
        return float(self._compiled(*batch)[0])

    def _draw(self, i):
        return [tf.constant(each) for each in draw_batch(self._model, i, *self._drawn)]

    def _loss_of(self, ids, numerical, labels):
        inputs, first = [], 0
        for samples, hotness in self._shapes:
            last = first + samples * hotness
            inputs.append(tf.reshape(ids[first:last], (samples, hotness)))
            first = last
        return self._dense.loss(self.tables.lookup(inputs), numerical, labels)

    def _train(self, *batch):
        with self._make_tape() as tape:
            tape.watch(self.tables.watched)
            loss = self._loss_of(*batch)
        values = [variable.value for variable in self._variables]
        # In one list, as Horovod's tape takes them.
        grads = tape.gradient(loss, [*values, *self.tables.watched])
        self._optimizer.apply(grads[: len(values)], self._variables)
        return loss, grads[len(values) :]  # what is not returned a function leaves out

    def _make_tape(self):
        if self._api == "keras" and distribute.size() > 1:
            return horovod().DistributedGradientTape(tf.GradientTape())
        return tf.GradientTape()
