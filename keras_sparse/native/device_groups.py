import tensorflow as tf


def device_groups(variables):
    """Returns the places of the variables whose tables are on one device, a list for each."""
    groups: dict[str, list[int]] = {}
    for place, variable in enumerate(variables):
        groups.setdefault(variable.native.device, []).append(place)
    return list(groups.values())


def on_each_device(call, variables, *lists):
    """Calls a native op for the tables of each device, as an op is on one alone.

    Args:
        call: Function of a list of variables, and of as many lists as are given.
        variables: List of `EmbeddingVariable`.
        *lists: Lists or tensors with an entry a variable.

    Returns:
        What `call` returns: tensors with an entry a variable, in their order; or what must have
        run.
    """
    groups = device_groups(variables)
    if len(groups) < 2:
        return call(variables, *lists)
    parts = [
        call(*([a_list[place] for place in group] for a_list in (variables, *lists)))
        for group in groups
    ]
    if parts[0] is None or isinstance(parts[0], tf.Operation):
        return None if parts[0] is None else tf.group(*parts)
    places = [place for group in groups for place in group]
    order = [places.index(place) for place in range(len(places))]
    return tf.nest.map_structure(lambda *of: tf.gather(tf.concat(of, axis=0), order), *parts)
