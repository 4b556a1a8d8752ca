"""The picture that the MovieLens example ends with."""

import matplotlib

matplotlib.use("Agg")  # writes files, needs no display

from matplotlib import pyplot
from matplotlib import ticker

TRAIN, VALIDATION, ROWS, BYTES = "#8aa4b8", "#00897b", "#00897b", "#5e81ac"


def save_picture(path, title, history, best_epoch, stats):
    """Writes a PNG of loss and AUC per epoch and of the rows and megabytes of the tables.

    Args:
        path: Path of the file.
        title: Text above the picture.
        history: Dict of lists, one number an epoch: loss, auc, val_loss, val_auc.
        best_epoch: Integer from 1, the epoch whose weights were kept.
        stats: Dict of the statistics of each table, by its name.
    """
    figure, axes = pyplot.subplots(2, 2, figsize=(11, 7.5), layout="constrained")
    figure.suptitle(title, fontsize=13)
    _draw_curves(axes[0, 0], history, "loss", "Log-loss", best_epoch)
    _draw_curves(axes[0, 1], history, "auc", "AUC", best_epoch)
    names = list(reversed(stats))
    rows = [stats[name]["rows"] for name in names]
    megabytes = [stats[name]["bytes"] / 1e6 for name in names]
    _draw_bars(axes[1, 0], names, rows, "Rows of each table (log scale)", "{:,}", ROWS)
    _draw_bars(
        axes[1, 1],
        names,
        megabytes,
        "Megabytes, optimizer slots included (log scale)",
        "{:.3f}",
        BYTES,
    )
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _draw_curves(axes, history, metric, title, best_epoch):
    epochs = range(1, len(history[metric]) + 1)
    axes.plot(epochs, history[metric], "o-", color=TRAIN, label="train (with dropout)")
    axes.plot(epochs, history[f"val_{metric}"], "o-", color=VALIDATION, label="validation")
    best = history[f"val_{metric}"][best_epoch - 1]
    axes.plot(best_epoch, best, "o", color=VALIDATION, markersize=11, fillstyle="none")
    place = {"xytext": (0, 12), "textcoords": "offset points", "ha": "right"}
    axes.annotate(f"kept: {best:.4f}", (best_epoch, best), **place)
    axes.set(title=title, xlabel="epoch")
    axes.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
    _make_plain(axes)
    axes.grid(alpha=0.25)
    axes.legend(frameon=False)


def _draw_bars(axes, names, values, title, form, color):
    bars = axes.barh(names, values, color=color)
    axes.set(title=title, xscale="log")
    axes.set_xlim(min(values) / 2, max(values) * 6)
    axes.bar_label(bars, [form.format(value) for value in values], padding=4)
    axes.xaxis.set_visible(False)
    _make_plain(axes)
    axes.spines["bottom"].set_visible(False)


def _make_plain(axes):
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
