def import_pyplot():
    """Returns `matplotlib.pyplot`, which only pictures need."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "`plot` needs matplotlib, and the table does not. Install it: pip install matplotlib"
        ) from error
    return pyplot


def check_picture(path):
    """Checks that `save_picture` can write to a path."""
    import_pyplot()
    from matplotlib.backend_bases import FigureCanvasBase

    kinds = FigureCanvasBase.get_supported_filetypes()
    if path.suffix[1:] not in kinds or path.is_dir():
        raise ValueError(
            f"A picture must be a file that ends in one of .{', .'.join(sorted(kinds))}. "
            f"Received: {path}"
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(f"A picture must be in a folder that is there. Received: {path}")


def save_picture(draw, path, size):
    """Writes what `draw(axes)` draws into a file; `size` is in inches."""
    from matplotlib.figure import Figure

    # Without pyplot: a file needs no display.
    figure = Figure(figsize=size, layout="constrained")
    draw(figure.subplots())
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def axes_or_new(ax):
    """Returns the axes that were given to `plot`, or those of a new figure in place of `None`."""
    if ax is None:
        return import_pyplot().subplots(layout="constrained")[1]
    if not hasattr(ax, "plot"):
        raise TypeError(f"`ax` must be Axes of matplotlib. Received: ax={ax!r}")
    return ax
