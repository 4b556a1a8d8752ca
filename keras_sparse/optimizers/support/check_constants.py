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
