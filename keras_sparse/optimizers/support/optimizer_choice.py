import re

import keras

from keras_sparse.optimizers.sparse_optimizer import SparseOptimizer
from keras_sparse.tables.embedding_variable import EmbeddingVariable
from keras_sparse.utils import checks

_EMBEDDINGS = "embeddings"
_OTHERS = "others"
_KEYS = (
    "`optimizers` must be a dict from 'embeddings', 'others', the name of a layer or table, a "
    "regular expression of variable paths, or a function of a variable, to an optimizer"
)


class OptimizerChoice:
    """Which of several optimizers a variable has: what `keras.optimizers.MultiOptimizer` asks.

    Their order is that of their keys, not that of the dict: what is saved of them, and the
    exchanges of ranks, come in it. Those that may train tables are first, as a table may refuse a
    step, and nothing has changed then.

    Args:
        optimizers, loss_scale_factor, gradient_accumulation_steps: As
            `keras_sparse.optimizers.MultiOptimizer` takes them.
    """

    def __init__(self, optimizers, loss_scale_factor, gradient_accumulation_steps=None):
        if not isinstance(optimizers, dict) or not optimizers:
            raise TypeError(f"{_KEYS}. Received: optimizers={optimizers!r}")
        pairs = [
            (_checked_key(key), _checked(key, given, loss_scale_factor))
            for key, given in optimizers.items()
        ]
        for i, (key, optimizer) in enumerate(pairs):
            if any(optimizer is other for _, other in pairs[:i]):
                raise ValueError(
                    "`optimizers` must have a separate optimizer for each key. Join keys in a "
                    "regular expression, 'a|b'. Received: one optimizer with several keys, the "
                    f"last {_shown(key)}"
                )
        _share_accumulation(pairs, gradient_accumulation_steps)
        self.optimizers = dict(sorted(pairs, key=_place))

    def values(self):
        return list(self.optimizers.values())

    def __getitem__(self, key):
        if key not in self.optimizers:
            raise KeyError(f"{key!r} is none of {self._shown_keys()}")
        return self.optimizers[key]

    def __call__(self, variable):
        """Returns the optimizer of a variable."""
        found = [key for key in self.optimizers if _matches(key, variable)]
        if len(found) > 1:
            shown = " and ".join(map(_shown, found))
            raise ValueError(
                "A variable must be matched by at most one key of `optimizers`, besides "
                "'embeddings' and 'others', which take the remaining variables. Make one of the "
                f"keys narrower. Received: variable '{variable.path}', which {shown} match"
            )
        is_table = isinstance(variable, EmbeddingVariable)
        for key in (*found, *([_EMBEDDINGS] if is_table else []), _OTHERS):
            if key in self.optimizers:
                return self.optimizers[key]
        raise ValueError(
            "Each variable must be matched by a key of `optimizers`. Add 'others' for all "
            "remaining variables, or a key for this one. Received: "
            f"{'table' if is_table else 'variable'} '{variable.path}', and keys "
            f"{self._shown_keys()}"
        )

    def unmatched(self, variables):
        """Returns the keys, as text, that match none of some variables."""
        return [
            _shown(key)
            for key in self.optimizers
            if key not in (_EMBEDDINGS, _OTHERS)
            and not any(_matches(key, variable) for variable in variables)
        ]

    def _shown_keys(self):
        return f"[{', '.join(_shown(key) for key in self.optimizers)}]"


def refuse_unmatched(keys, variables):
    """Raises ValueError if there are keys of `optimizers` that match no variable.

    Args:
        keys: Strings, as `OptimizerChoice.unmatched` returns them, of one rank or of all.
        variables: List of variables, for the error.
    """
    if keys:
        paths = ", ".join(variable.path for variable in variables[:20])
        raise ValueError(
            "Each key of `optimizers` must match a variable that is trained. Use the name of a "
            "layer or table, or a regular expression that matches a whole path, and leave out "
            f"keys of frozen layers. Received: {', '.join(keys)}, of variables "
            f"{paths}{', ...' if len(variables) > 20 else ''}"
        )


def _matches(key, variable):
    if callable(key):
        return bool(key(variable))
    if key in (_EMBEDDINGS, _OTHERS):
        return False
    return key in variable.path.split("/")[:-1] or _is_name(key, variable)


def _is_name(key, variable):
    # Tables of a layer that has several have their own names, at the end.
    is_table = isinstance(variable, EmbeddingVariable)
    is_named = is_table and variable.path.split("/")[-1] == key
    return is_named or re.fullmatch(key, variable.path) is not None


def _place(pair):
    key, optimizer = pair
    # Sorting is stable: functions stay in the order of the dict.
    return not isinstance(optimizer, SparseOptimizer), callable(key), "" if callable(key) else key


def _share_accumulation(pairs, steps):
    """Gives the steps of all to the optimizers that have none."""
    name = "gradient_accumulation_steps"
    if steps is not None and checks.positive(steps, name) < 2:
        raise ValueError(f"`{name}` must be 2 or more, or None. Received: {name}={steps}")
    given = [(_shown(key), each.gradient_accumulation_steps or steps) for key, each in pairs]
    given += [("MultiOptimizer", steps)] if steps else []
    if len({each for _, each in given}) > 1:
        raise ValueError(
            f"`{name}` must be the same for all `optimizers`, so that all variables change in the "
            f"same steps. Received: {', '.join(f'{key}: {each}' for key, each in given)}"
        )
    without = {key: each for key, each in pairs if steps and not each.gradient_accumulation_steps}
    for key, optimizer in without.items():
        if optimizer.built:  # without the variables that gradients accumulate in
            raise ValueError(
                f"`{name}` must be given to an optimizer when it is made, if it was built before "
                f"MultiOptimizer has it. Received: optimizers[{_shown(key)}], built"
            )
    for optimizer in without.values():
        optimizer.gradient_accumulation_steps = steps


def _shown(key):
    return repr(key) if isinstance(key, str) else f"function {getattr(key, '__name__', key)}"


def _checked_key(key):
    if callable(key):
        return key
    if not isinstance(key, str):
        raise TypeError(f"{_KEYS}. Received: key {key!r} of type {type(key).__name__}")
    try:
        re.compile(key)
    except re.error as error:
        raise ValueError(f"{_KEYS}. Received: key {key!r}: {error}") from None
    return key


def _checked(key, given, loss_scale_factor):
    where = f"optimizers[{_shown(key)}]"
    try:
        optimizer = keras.optimizers.get(given)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{_KEYS}. Received: {where}={given!r}: {error}") from error
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise ValueError(f"{_KEYS}. Received: {where}={given!r}")
    if hasattr(optimizer, "inner_optimizer") or hasattr(optimizer, "optimizers"):
        raise ValueError(
            "`optimizers` must not wrap other optimizers. Wrap the MultiOptimizer instead, or "
            "join its keys: DistributedOptimizer(MultiOptimizer(...)). Received: "
            f"{where}={type(optimizer).__name__}"
        )
    # One that was saved has that of all.
    if optimizer.loss_scale_factor not in (None, loss_scale_factor):
        raise ValueError(
            "`loss_scale_factor` must be given to MultiOptimizer, because a loss has one scale. "
            f"Received: {where}.loss_scale_factor={optimizer.loss_scale_factor}"
        )
    return optimizer
