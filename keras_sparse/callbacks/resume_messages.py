"""Messages of `Checkpoint` on where a training begins."""

import warnings


def warn_if_loaded_by_hand(last, path):
    """Warns that `fit` does not begin in the middle of the epoch that a loaded model was in.

    Args:
        last: `SavedStep` that the program has loaded.
        path: Folder of the checkpoints.
    """
    batch = last.training().get("batch", 0)
    if batch:
        warnings.warn(
            "Checkpoint must load a checkpoint itself to resume in the middle of an epoch: "
            "this `fit` begins with the first batch. Leave the loading to the callback, or "
            f"pass another `path` and `begin_from='{path}'` for new data. Received: a "
            f"model that was loaded from {last.path}, saved after {batch} batches of an epoch",
            stacklevel=4,
        )


def say_place(last, path, epoch, batch, epochs, verbose):
    """Prints where training resumes, or warns that it had completed.

    Args:
        last: `SavedStep` that was loaded.
        path: Folder of the checkpoints.
        epoch, batch: Integers, counted from 0.
        epochs: Number of epochs of the `fit`.
        verbose: Boolean. Whether to print.
    """
    if epoch >= epochs:
        warnings.warn(
            "`path` must belong to an unfinished training: `fit` returns without a step. To "
            f"train on new data, pass another `path` and `begin_from='{path}'`; to "
            f"train longer, pass more `epochs`. Received: {last.path} after epoch "
            f"{epoch}, epochs={epochs}",
            stacklevel=4,
        )
    elif verbose:
        print(f"Resuming from {last.path.name}, epoch {epoch + 1}, batch {batch + 1}")
