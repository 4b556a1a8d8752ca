from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.tables.rows_regularizer import RowsRegularizer


def refuse_any(options, owner, variable):
    """Raises NotImplementedError if an option is set that embedding variables do not honour.

    Args:
        options: Dict of what was given, by name. `None`, `False` and 0 are not set.
        owner: String. What has the options.
        variable: `EmbeddingVariable`.
    """
    for name, value in options.items():
        if value:
            raise NotImplementedError(
                f"`{name}` is not supported on embedding variables. Leave it out, or train "
                "embedding variables with another optimizer (`MultiOptimizer`). Received: "
                f"{owner}.{name}={value} with variable '{variable.path}'"
            )


def refuse_attributes(variable):
    """Raises NotImplementedError if a variable has a constraint, or a regularizer of no layer.

    Args:
        variable: `EmbeddingVariable`.
    """
    refuse_any({"constraint": variable.constraint}, "variable", variable)
    regularizer = variable.regularizer
    if regularizer is not None and not isinstance(regularizer, RowsRegularizer):
        raise NotImplementedError(
            "`regularizer` is not supported on embedding variables, because Keras would compute "
            "with the variable. Pass it to the layer as `embeddings_regularizer`, which reads "
            f"the rows. Received: variable.regularizer={regularizer} with variable "
            f"'{variable.path}'"
        )


def refuse_part_of_row(optimizer, variable):
    """Raises NotImplementedError if a variable has some columns of a table whose others are away.

    Args:
        optimizer: String. The optimizer's name, for the error.
        variable: `EmbeddingVariable`.
    """
    part = getattr(variable, "part", None)
    if part is not None and part.num_columns < part.output_dim:
        raise NotImplementedError(
            f"{optimizer} keeps one number for a whole row, so the columns of a row must not be "
            "on several ranks. Shard the table by rows (`row_slice_threshold=1` for all tables), "
            "keep it whole (`column_slice_threshold=10**15` with another strategy than 'auto'), or "
            "use another optimizer. Received: "
            f"table '{part.table}', of which this rank has {part.num_columns} of "
            f"{part.output_dim} columns"
        )


def refuse_norms_of_parts(optimizer, gradients):
    """Raises ValueError if some of the gradients of a step are of parts of tables.

    Args:
        optimizer: String. The name of an optimizer that clips by norms, for the error.
        gradients: List of `TableGradient`.
    """
    for part in (each.part for each in gradients):
        if part is not None:
            raise ValueError(
                "`clipnorm` and `global_clipnorm` must be those of a "
                "`keras_sparse.distribute.DistributedOptimizer` if tables are sharded over "
                "ranks: otherwise each rank clips by the norm of its own part, and dense "
                "variables drift apart. Pass it the gradients of a plain tape, or use "
                f"`clipvalue`. Received: a step of {optimizer} by itself, with a part of table "
                f"'{part.table}'"
            )


def refuse_repeated(variables):
    """Raises ValueError if an embedding variable is in a list of variables more than once."""
    seen = set()
    for variable in variables:
        if not isinstance(variable, EmbeddingVariable):
            continue
        if id(variable) in seen:
            raise ValueError(
                "An embedding variable must appear in the list of variables once. Received: "
                f"'{variable.path}' twice"
            )
        seen.add(id(variable))


def settings_that_changed(built, now):
    """Says in which settings of a table's updates two differ."""
    of_updates = ("rule", "constants", "weight_decay", "gradient_accumulation_steps")
    names = (*of_updates, "clipnorm", "global_clipnorm", "clipvalue")
    parts = zip(names, now, built, strict=True)
    return ", ".join(f"{name}={new} (built with {old})" for name, new, old in parts if new != old)


# What each constant of a native rule must be, in words and as a test. Written so that NaN fails.
_RULES = {
    "momentum": ("in [0, 1]", lambda x: 0 <= x <= 1),
    "rho": ("in [0, 1]", lambda x: 0 <= x <= 1),
    "beta_1": ("in [0, 1)", lambda x: 0 <= x < 1),
    # The second moment is divided by its powers.
    "beta_2": ("in [1e-6, 1)", lambda x: 1e-6 <= x < 1),
    "initial_accumulator": ("at least 0", lambda x: x >= 0),
}
# As the optimizers call them.
_ARGUMENTS = {"initial_accumulator": "initial_accumulator_value"}


def check_constants(constants):
    """Refuses constants of a native rule that would make a row no number, now or as it catches up.

    Keras takes them all, and trains to NaN.

    Args:
        constants: Dict of floats, as `SparseOptimizer.rule_constants` returns it.
    """
    for name, (rule, holds) in _RULES.items():
        if name in constants and not holds(constants[name]):
            argument = _ARGUMENTS.get(name, name)
            raise ValueError(
                f"`{argument}` must be {rule} for embedding variables. Received: "
                f"{argument}={constants[name]}"
            )
