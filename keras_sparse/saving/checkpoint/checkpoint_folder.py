import contextlib
import pathlib
import re
import shutil
import uuid
import warnings
from typing import NamedTuple

from keras_sparse.saving.checkpoint.checkpoint_manifest import Manifest
from keras_sparse.saving.checkpoint.checkpoint_manifest import NAME as MANIFEST
from keras_sparse.saving.format.folder_files import sync
from keras_sparse.saving.format.partial_folder import partial_path
from keras_sparse.saving.format.partial_folder import remove_partial

_NAMES = re.compile(r"step-(\d{9,})(?:-(\d+))?(-delta)?")


class SavedStep(NamedTuple):
    """A checkpoint or delta in a `CheckpointFolder`. They sort in the order they were saved in.

    Args:
        step: Integer. The optimizer's steps.
        number: Integer. Counts what was saved of this step, from 1; a delta has that of the
            checkpoint before it.
        is_delta: Boolean.
        path: `pathlib.Path`.
    """

    step: int
    number: int
    is_delta: bool
    path: pathlib.Path

    def training(self):
        """Returns its training dict, or an empty dict if it is damaged."""
        try:
            return Manifest.read(self.path).training
        except (FileNotFoundError, ValueError):
            return {}


class CheckpointFolder:
    """The checkpoints of one training, named after its steps.

    Args:
        path: Path, made if it is not there. What processes that were killed have left in it half
            written or half removed is removed, and what has lost its manifest is put aside.
        is_cleaned: Boolean. Whether to do so: of several ranks only one does. Defaults to `True`.
    """

    def __init__(self, path, is_cleaned=True):
        path = pathlib.Path(path)
        path.mkdir(parents=True, exist_ok=True)
        self.path = path.resolve()
        if not is_cleaned:
            return
        remove_partial(self.path, _NAMES)
        self._put_others_aside()

    def _put_others_aside(self):
        """Renames folders without a manifest, with a warning."""
        for other in sorted(self.path.iterdir()):
            is_folder = _NAMES.fullmatch(other.name) and other.is_dir()
            if is_folder and not (other / MANIFEST).exists():
                aside = self.put_aside(other)
                warnings.warn(
                    "A checkpoint must have its manifest. A folder without one was renamed. "
                    f"Received: {other}, now {aside.name}",
                    stacklevel=2,
                )

    def list(self):
        """Returns the `SavedStep` of each checkpoint and delta, sorted."""
        matches = ((_NAMES.fullmatch(path.name), path) for path in self.path.iterdir())
        return sorted(
            SavedStep(int(match[1]), int(match[2] or 1), match[3] is not None, path)
            for match, path in matches
            if match and (path / MANIFEST).exists()
        )

    def files(self):
        """Returns a set of path, size and time of change of each file in the folder."""
        found = set()
        for path in self.path.rglob("*"):
            with contextlib.suppress(FileNotFoundError):  # removed meanwhile
                stat = path.stat()
                found.add((path, stat.st_size, stat.st_mtime_ns))
        return found

    def check_seen(self, saved):
        """Raises FileNotFoundError unless each `SavedStep` that another rank has found is here.

        A folder that this rank does not see is no damaged checkpoint.
        """
        for each in saved:
            if not (each.path / MANIFEST).exists():
                raise FileNotFoundError(
                    "All ranks must see the folder of checkpoints: each reads its rows there. Save "
                    "to a file system that their hosts share. "
                    f"Received: '{each.path}', which rank 0 has found, and this rank does not see"
                )

    def new_name(self, step, is_delta):
        """Returns the name of a new checkpoint or delta, after all others of this step."""
        number = 1
        for each in self.list():
            if each.step == step:
                number = each.number + (each.is_delta or not is_delta)
        numbered = f"step-{step:09d}{'' if number == 1 else f'-{number}'}"
        return f"{numbered}{'-delta' if is_delta else ''}"

    def put_aside(self, path):
        """Renames a damaged checkpoint, so that none is looked for there, and returns its path."""
        number = 0
        while (aside := path.with_name(f"{path.name}.damaged{number or ''}")).exists():
            number += 1
        return path.rename(aside)

    def remove_old(self, keep):
        """Removes all but the last checkpoints, and the deltas that go back to them."""
        saved = self.list()
        kept = [each[:2] for each in saved if not each.is_delta][-keep:]
        for each in saved:
            if each[:2] < kept[0]:
                # By this name it is no checkpoint any more, should this be cut off.
                with contextlib.suppress(FileNotFoundError):  # somebody else has removed it
                    removed = each.path.rename(partial_path(each.path, uuid.uuid4().hex[:16]))
                    sync(self.path)
                    shutil.rmtree(removed, ignore_errors=True)
