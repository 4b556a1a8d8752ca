"""What the synthetic models are trained on: ids of a power law, numbers and labels."""

import math

import numpy as np

from benchmarks import workloads

MOST_NUMERICAL = 100


def power_law_ids(generator, num_rows, shape, alpha):
    """Draws ids from 0 to `num_rows - 1`, the first ones the most often.

    As the original does it, by inversion of the continuous power law: with `y` from 1 to
    `num_rows + 1` of a density in proportion to `y ** -alpha`, the id is `floor(y) - 1`. So, with
    `gamma = 1 - alpha`, id `k` has the probability

        ((k + 1) ** gamma - (k + 2) ** gamma) / (1 - (num_rows + 1) ** gamma)

    It needs no memory but that of the ids, whatever the table is. `workloads.zipf_ranks` is the
    discrete law, whose probabilities differ in the first few ids, and which keeps 8 bytes a row.

    Args:
        generator: `np.random.Generator`.
        num_rows: Integer.
        shape: Tuple of integers.
        alpha: Float, not below 0, where all ids are as frequent.
    """
    gamma = 1 - alpha
    drawn = generator.random(shape)
    if gamma == 0:
        places = np.exp(drawn * math.log(num_rows + 1))
    else:
        places = (drawn * ((num_rows + 1) ** gamma - 1) + 1) ** (1 / gamma)
    # Rounding may reach the end that the law does not.
    return np.clip(places.astype(np.int64) - 1, 0, num_rows - 1)


def draw_batch(model, number, batch_size, alpha, samples, whole_inputs=None):
    """Draws one batch, of which ranks take parts: the same on any number of them.

    Args:
        model: `SyntheticModel`.
        number: Integer. Which of the batches.
        batch_size: Integer. Samples of all ranks.
        alpha: Float, of the power law.
        samples: Slice: those of this rank.
        whole_inputs: List of the inputs of which the rank passes all samples. Defaults to `None`:
            it passes its samples of all inputs.

    Returns:
        `(ids, numerical, labels)`: int64, flat, those of each input sample by sample, one input
        behind the other, as many arguments cost a call of a `tf.function` time; float32,
        `(samples, model.num_numerical)`; float32, `(samples, 1)`.
    """
    ids = []
    for i in range(len(model.inputs)) if whole_inputs is None else whole_inputs:
        table, hotness = model.inputs[i]
        generator = np.random.default_rng((workloads.SEED, number, i))
        rows = model.tables[table].rows
        drawn = power_law_ids(generator, rows, (batch_size, hotness), alpha)
        ids.append((drawn[samples] if whole_inputs is None else drawn).reshape(-1))
    generator = np.random.default_rng((workloads.SEED, number, len(model.inputs)))
    numerical = generator.random((batch_size, model.num_numerical), np.float32) * MOST_NUMERICAL
    labels = generator.integers(0, 2, (batch_size, 1)).astype(np.float32)
    ids = np.concatenate([np.zeros(0, np.int64), *ids])
    return ids, numerical[samples], labels[samples]
