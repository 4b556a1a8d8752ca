def not_built_message(layer, what):
    """Returns the words of an error: a layer has no tables yet.

    Args:
        layer: Embedding layer that is not built.
        what: String, the begin of the rule, such as "`stats` must be called on".
    """
    group = getattr(layer, "group", None) or getattr(layer, "template_of", None)
    if group is not None:
        return (
            f"{what} the layer that has the table. Take that one, `model.get_layer('{group}')`. "
            f"Received: layer '{layer.name}', whose table is one of layer '{group}'"
        )
    return (
        f"{what} a built layer. Call the layer or `layer.build()` first. Received: unbuilt layer "
        f"'{layer.name}'"
    )
