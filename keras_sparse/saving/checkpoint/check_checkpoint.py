from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.utils.progress_bar import Progress


def check_checkpoint(checkpoint, readers, verbose=True):
    """Checks every byte of a checkpoint.

    Args:
        checkpoint: `WholeCheckpoint`.
        readers: Those of its readers whose tables are read.
        verbose: Boolean. Whether to show a bar if it takes long.
    """
    checkpoint.check_weights()
    progress = Progress(checkpoint.num_records(readers), "thousand rows checked", 1000, verbose)
    for reader in readers:
        reader.check(progress)
    progress.close()


def check_checkpoint_together(checkpoint, verbose=True):
    """Checks all tables, of which each rank checks some. All must call it."""
    with errors_on_all_ranks("check_checkpoint"):
        check_checkpoint(checkpoint, checkpoint.readers[rank() :: size()], verbose)
