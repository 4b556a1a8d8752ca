from keras_sparse.ops import _native
from keras_sparse.ops.check_tables import handles_of
from keras_sparse.ops.merge_gradients import fill_in_absent


def apply_gradients(variables, ids, values, numbers, row_splits=None, weights=None, combiners=None):
    """Updates rows in place by their gradients, creating the rows that are not there.

    A row moves once, by the sum of its gradients. It is one step of each table's rule, whether it
    has ids in it or not.

    Args:
        variables: List of `EmbeddingVariable`, each once.
        ids, values: As in `merge_gradients`.
        numbers: float32 tensor of shape `(num_tables, num_numbers)`: the learning rate, then what
            else the tables' rule takes with a step (`rule_numbers()` of the optimizer).
        row_splits, weights, combiners: As in `merge_gradients`. Default to `None`: rows were not
            pooled.

    Raises:
        tf.errors.FailedPreconditionError: A table was given a rule anew since this op was made:
            its slots are another optimizer's.
    """
    row_splits, weights, combiners = fill_in_absent(len(variables), row_splits, weights, combiners)
    return _native.lib.keras_sparse_apply(
        handles=handles_of(variables),
        ids=ids,
        row_splits=row_splits,
        weights=weights,
        output_grads=values,
        numbers=numbers,
        rule_generations=[variable.rule_generation for variable in variables],
        combiners=combiners,
    )
