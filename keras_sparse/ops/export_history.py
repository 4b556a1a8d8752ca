from keras_sparse.ops import _native


def export_history(variables):
    """Reads what each table's rule was given in the steps that rows may have missed.

    A rule with dense semantics lets a row miss steps, and catches it up when it is next used. From
    its history and its constants `SavedRule` can catch up rows in another process.

    Args:
        variables: List of `EmbeddingVariable`.

    Returns:
        `(steps, first_steps, run_lengths, numbers)`: two int64 tensors of shape `(num_tables,)`,
        the last step and the one after which the history begins; lists of int64 tensors of shape
        `(num_runs,)` and of float32 tensors of shape `(num_runs, num_numbers)`: how many steps
        followed each other with the same numbers, and these. A rule that lets no row miss anything
        has no runs, and its history begins after the last step.
    """
    return _native.lib.keras_sparse_export_history(
        handles=[variable.native for variable in variables]
    )
