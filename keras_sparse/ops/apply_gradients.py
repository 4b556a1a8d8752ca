from keras_sparse.ops import _native
from keras_sparse.ops.merge_gradients import fill_in_absent


def apply_gradients(
    variables, ids, values, rule, numbers, step, row_splits=None, weights=None, combiners=None
):
    """Updates rows in place by their gradients, creating the rows that are not there.

    A row moves once, by the sum of its gradients.

    Args:
        variables: List of `EmbeddingVariable`, each once.
        ids, values: As in `merge_gradients`.
        rule: String. The rule that every table was given by `set_rule`.
        numbers: float32 tensor. What the rule takes at a step: `(learning_rate,)` for `"sgd"`,
            `(learning_rate, epsilon)` for `"adagrad"`, `(alpha, 1 - beta_1, 1 - beta_2, epsilon)`
            for `"lazy_adam"`, alpha being the learning rate with its bias correction.
        step: Scalar int64 tensor. The number of this step, from 1.
        row_splits, weights, combiners: As in `merge_gradients`. Default to `None`: rows were not
            pooled.

    Raises:
        tf.errors.FailedPreconditionError: A table was given a rule anew since this op was made:
            its slots are another optimizer's.
    """
    row_splits, weights, combiners = fill_in_absent(len(variables), row_splits, weights, combiners)
    return _native.lib.keras_sparse_apply(
        handles=[variable.native for variable in variables],
        ids=ids,
        row_splits=row_splits,
        weights=weights,
        output_grads=values,
        numbers=numbers,
        step=step,
        rule=rule,
        rule_generations=[variable.rule_generation for variable in variables],
        combiners=combiners,
    )
