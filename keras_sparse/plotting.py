def import_pyplot():
    """Returns `matplotlib.pyplot`, which only pictures need."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "`plot` needs matplotlib, and the table does not. Install it: pip install matplotlib"
        ) from error
    return pyplot


def axes_or_new(ax):
    """Returns the axes that were given to `plot`, or those of a new figure in place of `None`."""
    if ax is None:
        return import_pyplot().subplots(layout="constrained")[1]
    if not hasattr(ax, "plot"):
        raise TypeError(f"`ax` must be Axes of matplotlib. Received: ax={ax!r}")
    return ax
