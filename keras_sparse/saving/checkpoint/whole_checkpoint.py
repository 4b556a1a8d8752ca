import pathlib
import warnings

from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.distribute.ranks.shared_errors import errors_on_all_ranks
from keras_sparse.saving.checkpoint.checkpoint_folder import CheckpointFolder
from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.checkpoint_manifest import NAME as MANIFEST
from keras_sparse.saving.checkpoint.checkpoint_manifest import WEIGHTS
from keras_sparse.saving.checkpoint.checkpoint_reader import CheckpointReader
from keras_sparse.saving.checkpoint.saved_part import SavedPart
from keras_sparse.saving.format.damage_error import CheckpointDamagedError
from keras_sparse.saving.format.folder_files import check_files
from keras_sparse.saving.format.folder_files import crc32_of
from keras_sparse.saving.format.folder_files import refuse_link
from keras_sparse.saving.format.folder_files import size_of
from keras_sparse.utils import checks
from keras_sparse.utils.progress_bar import Progress


class WholeCheckpoint:
    """A checkpoint or delta with the parts of all ranks that saved it.

    Args:
        path: Path of the folder, or of a folder of checkpoints whose latest one it is.

    Attributes:
        folder: `pathlib.Path`.
        manifest: `Manifest` of the whole.
        readers: List of `CheckpointReader`, one a rank that has saved it.
        tables: List of a list of `SavedPart` for each table of the model, in the model's order.

    Raises:
        FileNotFoundError: There is no checkpoint, or not all that a delta goes back to.
        CheckpointDamagedError: A manifest is damaged, or a file is not as long as it was.
    """

    def __init__(self, path):
        self.folder = checkpoint_at(path)
        self.manifest = Manifest.read(self.folder)
        if self.manifest.ranks is None:
            self.readers = [CheckpointReader(self.folder)]
        else:
            check_files(self.folder, self.manifest)
            self.readers = [self._reader_of(rank) for rank in range(len(self.manifest.ranks))]
        num_ranks = self.manifest.ranks and len(self.manifest.ranks)
        by_number: dict[int, list[SavedPart]] = {}
        for of_rank, reader in enumerate(self.readers):
            for index, table in enumerate(reader.manifest.tables):
                number = index if table.number is None else table.number
                by_number.setdefault(number, []).append(
                    SavedPart(reader, index, of_rank, num_ranks)
                )
        self.tables = [by_number[number] for number in sorted(by_number)]

    def _reader_of(self, rank):
        folder = rank_folder(self.folder, rank)
        path = folder / MANIFEST
        refuse_link(folder)
        is_there = size_of(path) is not None
        if not is_there or crc32_of(path) != self.manifest.ranks[rank]:
            raise CheckpointDamagedError(
                f"A checkpoint must have the saved manifests of all its ranks. Received: {path}, "
                f"which is {'different' if is_there else 'missing'}"
            )
        return CheckpointReader(folder)

    @property
    def weights(self):
        """Path of Keras' file with all that is no table."""
        return self.folder / WEIGHTS

    def num_records(self, readers=None):
        """Returns the number of records of all tables, or of those of some readers."""
        return sum(
            reader.num_records() for reader in (self.readers if readers is None else readers)
        )

    def check_weights(self):
        """Raises `CheckpointDamagedError` unless Keras' file is as it was saved."""
        if crc32_of(self.weights) != self.manifest.weights_crc32:
            raise CheckpointDamagedError(
                f"A checkpoint's files must match their checksums. Received: {self.weights}"
            )


def latest_checkpoint(folder):
    """Returns the path of the latest checkpoint or delta in a folder.

    Skips a checkpoint with missing files or a missing base, with a warning. `verify` also reads the
    files.

    Args:
        folder: Path of the folder of `callbacks.Checkpoint`.

    Returns:
        `pathlib.Path`, or `None` if the folder is missing or has no checkpoint, as
        `tf.train.latest_checkpoint` returns it.
    """
    folder = pathlib.Path(checks.local_path(folder, "folder"))
    saved = CheckpointFolder(folder, is_cleaned=False).list() if folder.is_dir() else []
    for each in reversed(saved):
        try:
            return WholeCheckpoint(each.path).folder
        except (CheckpointDamagedError, FileNotFoundError) as error:
            warnings.warn(f"A checkpoint was skipped: {error}", stacklevel=2)
    return None


def checkpoint_at(path):
    """Returns the checkpoint at a path, or the latest one in a folder."""
    path = pathlib.Path(checks.local_path(path, "path")).resolve()
    return path if (path / MANIFEST).exists() else latest_checkpoint(path) or path


def checkpoint_of_all_ranks(path):
    """Returns the result of `checkpoint_at` on rank 0. All ranks must call it."""
    with errors_on_all_ranks("checkpoint_at"):
        folder = pathlib.Path(checks.local_path(path, "path")).resolve()
        found = checkpoint_at(folder)
    name = "" if found == folder else found.name
    return folder / broadcast_object(name, 0, "checkpoint_at.name")


def rank_folder(folder, rank):
    """Returns the folder of a rank's part in a checkpoint."""
    return folder / f"rank-{rank}"


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
    """Checks all tables, divided over ranks. All ranks must call it."""
    with errors_on_all_ranks("check_checkpoint"):
        check_checkpoint(checkpoint, checkpoint.readers[rank() :: size()], verbose)


def put_damaged_aside(path, folder, verbose=True):
    """Checks every byte of a checkpoint, and renames it with a warning if it is damaged.

    All ranks must call it.

    Args:
        path: `pathlib.Path` of a checkpoint or delta.
        folder: `CheckpointFolder` that contains it.
        verbose: Boolean. Whether to show a bar if the check takes long.

    Returns:
        Whether it was damaged.
    """
    try:
        with errors_on_all_ranks("checkpoint_opens"):
            checkpoint = WholeCheckpoint(path)
        check_checkpoint_together(checkpoint, verbose)
    except (CheckpointDamagedError, FileNotFoundError) as error:
        if rank() == 0:
            folder.put_aside(path)
        warnings.warn(f"A checkpoint was renamed to end in `.damaged`: {error}", stacklevel=3)
        return True
    return False
