import keras
import numpy as np
import tensorflow as tf

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import size

# Metrics whose variables are sums over samples, so that ranks can add them.
_OF_SUMS = (
    keras.metrics.Sum,
    keras.metrics.Mean,
    keras.metrics.TruePositives,
    keras.metrics.TrueNegatives,
    keras.metrics.FalsePositives,
    keras.metrics.FalseNegatives,
    keras.metrics.Precision,
    keras.metrics.Recall,
    keras.metrics.SensitivityAtSpecificity,
    keras.metrics.SpecificityAtSensitivity,
    keras.metrics.PrecisionAtRecall,
    keras.metrics.RecallAtPrecision,
    keras.metrics.AUC,
    keras.metrics.FBetaScore,
    keras.metrics.IoU,
    keras.metrics.R2Score,
)


def average_metrics(model):
    """Returns the metrics of all ranks since the model's metrics were last reset.

    Call it on all ranks, for example after `model.evaluate`, whose own result covers the samples of
    one rank:

    ```python
    model.evaluate(ksd.shard(batches), verbose=0)
    print(ksd.average_metrics(model))
    ```

    The result is exact for all metrics of `keras.metrics` and their subclasses: their variables are
    summed over ranks, and the metric is computed from the sums. So AUC is that of all samples
    instead of a mean of AUCs. Other metrics are averaged over ranks, weighted by sample count. (For
    a model with several outputs, Keras averages the loss of each output over batches; here it is
    averaged over the parts of batches.)

    Args:
        model: Compiled `keras.Model`.

    Returns:
        Dict of floats by name, as `evaluate(return_dict=True)` returns it, equal on all ranks.

    Example:
    >>> model.compile(keras_sparse.optimizers.Adagrad(), loss="mse")
    >>> loss = model.evaluate(np.array([[1, 2], [2, 3]]), np.ones((2, 1)), verbose=0)
    >>> keras_sparse.distribute.average_metrics(model)["loss"] == loss
    True
    """
    if size() == 1:
        return {name: as_number(value) for name, value in model.get_metrics_result().items()}
    metrics = list(_flatten(model.metrics))
    variables = [v for each in metrics if isinstance(each, _OF_SUMS) for v in each.variables]
    states = gather_objects([np.asarray(v.value) for v in variables], "average_metrics.states")
    sums = [tf.constant(sum(of_ranks)) for of_ranks in zip(*states, strict=True)]
    with keras.StatelessScope(state_mapping=zip(variables, sums, strict=True)):
        # Results of sums alone are now equal on all ranks, and so is their average.
        results = {name: np.asarray(value) for name, value in model.get_metrics_result().items()}
    return average_over_ranks(results, _num_samples(metrics))


def average_over_ranks(results, weight=1.0):
    """Returns the weighted averages over ranks of a dict of numbers, equal on all.

    Args:
        results: Dict of numbers, or arrays of them, by name: the same names on all ranks.
        weight: Float, this rank's. Ranks of weight 0 do not count.
    """
    pairs = gather_objects((weight, results), "average_over_ranks")
    if not any(weight for weight, _ in pairs):
        pairs = [(1.0, results) for _, results in pairs]
    weights = [weight for weight, _ in pairs if weight]
    averages = {}
    for name, value in results.items():
        values = [np.asarray(others[name], np.float64) for weight, others in pairs if weight]
        average = np.average(values, axis=0, weights=weights)
        dtype = np.asarray(value).dtype
        averages[name] = as_number(average.astype(dtype if dtype.kind == "f" else np.float64))
    return averages


def as_number(value):
    """Returns a float where a metric's value is one number, as Keras' logs have it."""
    value = np.asarray(value)
    return float(value) if value.ndim == 0 else value


def _flatten(metrics):
    """Yields metrics, replacing metrics that hold others by these."""
    for metric in metrics:
        inner = getattr(metric, "metrics", None) or getattr(metric, "_metrics", None)
        if inner and not isinstance(metric, _OF_SUMS):
            yield from _flatten(inner)
        else:
            yield metric


def _num_samples(metrics):
    """Returns this rank's number of samples, which Keras' mean of the loss counts."""
    for metric in metrics:
        if isinstance(metric, keras.metrics.Mean) and metric.name == "loss":
            return float(metric.count)
    return 1.0
