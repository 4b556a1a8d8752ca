"""Whether a table can take over a saved one, and what of it."""

import warnings

from keras_sparse.saving.format.file_context import file_context
from keras_sparse.tables.table_part import TablePart


def has_same_slots(table, saved):
    """Returns whether a table keeps the slots of a saved one, with a warning if these are lost.

    Args:
        table: `LocalTable`.
        saved: `TableHeader` or `TableEntry`.
    """
    same_slots = _family(saved.rule) == _family(table.rule) and (
        saved.slot_names == table.slot_names
    )
    if saved.slot_names and table.rule is not None and not same_slots:
        warnings.warn(
            f"The slots saved with '{table.path}' are those of rule '{saved.rule}', "
            f"{saved.slot_names}; the optimizer's rule '{table.rule}' starts with fresh ones.",
            stacklevel=2,
        )
    return same_slots


def may_load_filter(table, saved):
    """Returns whether a filter takes over what a saved one remembers, with a warning if not.

    Args:
        table: `LocalTable`.
        saved: `TableHeader` or `TableEntry`.
    """
    if saved.filter is None:
        return False
    ours = None if table.admission is None else table.admission.layout()
    if ours != saved.filter.layout:
        warnings.warn(
            f"What the admission filter saved with '{table.path}' remembers of keys that wait "
            "is dropped, as the table has no filter of the same kind, count and size. Received: "
            f"saved {saved.filter.layout}, admission {ours}",
            stacklevel=2,
        )
        return False
    return True


def warn_of_rounding(table, saved):
    """Returns whether a table rounds rows or slots of a saved one, with a warning if it does.

    Args:
        table: `LocalTable`.
        saved: `TableHeader` or `TableEntry`.
    """
    pairs = {
        "rows": (saved.dtypes.row, table.dtypes.row),
        "slots": (saved.dtypes.slots, table.dtypes.slots),
    }
    lossy = [
        f"{name} of {theirs} to {ours}"
        for name, (theirs, ours) in pairs.items()
        if ours not in (theirs, "float32") and (name == "rows" or saved.slot_names)
    ]
    if lossy:
        warnings.warn(
            f"Loading '{table.path}' rounds {' and '.join(lossy)}, to the nearest.", stacklevel=2
        )
    return bool(lossy)


def _family(rule):
    """The lazy variant of a rule keeps the same slots as the rule itself."""
    return rule and rule.removeprefix("lazy_")


def has_grown(table, saved):
    """Returns whether a table that takes over a saved one has other ids: more, or any.

    Ids that are new have the initial rows of this table.

    Args:
        table: `LocalTable`.
        saved: `TableHeader` or `TableEntry`, which fits.
    """
    return table.whole_shape()[0] != saved.input_dim


def check_fits(table, saved):
    """Raises ValueError unless a saved table has the shape of this one, or may grow into it.

    Args:
        table: `LocalTable`, or the `TablePart` of another rank.
        saved: `TableHeader`, or the `TablePart` of a saved one.
    """
    theirs = (saved.input_dim, saved.output_dim)
    if isinstance(table, TablePart):
        path, ours = table.table, (table.input_dim, table.output_dim)
    else:
        path, ours = table.path, table.whole_shape()
    can_grow = theirs[0] is not None and (ours[0] is None or ours[0] >= theirs[0])
    can_grow = can_grow and theirs[1] == ours[1]
    if theirs != ours and not (can_grow and file_context().is_growing):
        remedy = (
            "Give `grow=True` to `keras_sparse.saving.load_weights` for new ids to have initial "
            "rows, or make"
            if can_grow
            else "Make"
        )
        raise ValueError(
            "A saved table must have the input_dim and output_dim of the table it is loaded into "
            "(input_dim=None: dynamic), or with `grow=True` as many ids at most, and not be "
            f"dynamic. {remedy} the layer with those, or load the file into a model "
            "that has them, and bring rows over by `export` and `import_`. Received: saved "
            f"input_dim={theirs[0]}, output_dim={theirs[1]} for '{path}' with "
            f"input_dim={ours[0]}, output_dim={ours[1]}"
        )
