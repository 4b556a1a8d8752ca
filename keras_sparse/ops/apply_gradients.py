from keras_sparse.ops import _native


def apply_gradients(variables, ids, values, rule, numbers, step):
    """Updates rows in place by their gradients, creating the rows that are not there.

    Args:
        variables: List of `EmbeddingVariable`, each once.
        ids: List of int64 tensors of shape `(num_ids,)`. Ids may repeat: their gradients are
            summed first.
        values: List of float32 tensors of shape `(num_ids, output_dim)`.
        rule: String. The rule that every table was given by `set_rule`.
        numbers: float32 tensor. What the rule takes at a step: `(learning_rate,)` for `"sgd"`,
            `(learning_rate, epsilon)` for `"adagrad"`, `(alpha, 1 - beta_1, 1 - beta_2, epsilon)`
            for `"lazy_adam"`, alpha being the learning rate with its bias correction.
        step: Scalar int64 tensor. The number of this step, from 1.
    """
    return _native.lib.keras_sparse_apply(
        handles=[variable.native for variable in variables],
        ids=ids,
        values=values,
        numbers=numbers,
        step=step,
        rule=rule,
    )
