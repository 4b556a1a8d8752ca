"""The arrays of a layer by their names, and names of variables in Keras' files."""

import h5py

_NAME = "name"  # an attribute of HDF5


class NamedStore(dict):
    """Arrays by their names, and beside them the table that a layer saves or loads.

    Attributes:
        table: `Table`, or `None`.
    """

    table = None


def name_variables(store, variables):
    """Notes the paths of an optimizer's variables beside their values, in a file of Keras.

    Args:
        store: The store that Keras passes to `save_own_variables`, with the values in it.
        variables: List of variables, in the order of the values.
    """
    group = getattr(store, "_h5_entry_group", None)
    if isinstance(group, h5py.Group):
        for number, variable in enumerate(variables):
            if str(number) in group:  # else in an earlier file of several
                group[str(number)].attrs[_NAME] = variable.path


def saved_variable_names(store):
    """Returns the list of names that `name_variables` noted, or `None` if one is not there."""
    group = getattr(store, "_h5_entry_group", {})
    numbers = [str(number) for number in range(len(store.keys()))]
    if not all(each in group and _NAME in group[each].attrs for each in numbers):
        return None
    return [group[each].attrs[_NAME] for each in numbers]
