def import_pyplot():
    """Returns `matplotlib.pyplot`, which only pictures need."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError(
            "`plot` needs matplotlib, and the table does not. Install it: pip install matplotlib"
        ) from error
    return pyplot
