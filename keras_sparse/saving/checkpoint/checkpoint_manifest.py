import dataclasses
import json
import pathlib
import zlib

from keras_sparse.saving.format.damage_error import check_types
from keras_sparse.saving.format.damage_error import CheckpointDamagedError
from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.folder_files import is_plain_name
from keras_sparse.saving.format.folder_files import refuse_link
from keras_sparse.saving.format.folder_files import sync
from keras_sparse.saving.table_format.table_entry import as_tuples
from keras_sparse.saving.table_format.table_entry import TableEntry
from keras_sparse.utils import checks

FORMAT = "keras_sparse checkpoint"
VERSION = 5
# Files without what a later version brought are written as before, for readers that do not know it:
# accumulated gradients (4), frequencies and ages in seconds (3), and ranks.
_VERSION_OF_RANKS = 2
_VERSION_OF_ONE = 1
_VERSIONS = range(_VERSION_OF_ONE, VERSION + 1)
_FIELDS_OF_RANKS = ("ranks", "rank")
NAME = "manifest.json"
WEIGHTS = "model.weights.h5"


@dataclasses.dataclass(frozen=True)
class Base:
    """The checkpoint or delta that a delta goes on from.

    Args:
        path: String, relative to the folder that the delta is in.
        id: String. Its `Manifest.id`.
    """

    path: str
    id: str


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The manifest of a checkpoint.

    Args:
        id: String that no other checkpoint has.
        base: `Base` of a delta; `None` for a checkpoint that stands alone.
        step: Integer. The optimizer's steps so far; 0 without one.
        training: Dict of what `callbacks.Checkpoint` needs to go on.
        weights_crc32: Integer, of all else that the model has: the file `model.weights.h5`.
        file_bytes: Dict: the size of each file by its name.
        tables: Tuple of `TableEntry`.
        ranks: Tuple with the CRC-32 of the manifest that each rank has in a folder of its own, or
            `None` if one process has saved everything here.
        rank: Integer, of a manifest in the folder of a rank; otherwise `None`.
    """

    id: str
    base: Base | None
    step: int
    training: dict
    weights_crc32: int | None
    file_bytes: dict[str, int]
    tables: tuple[TableEntry, ...]
    ranks: tuple[int, ...] | None = None
    rank: int | None = None

    @property
    def data_file(self):
        """Name of the HDF5 file with what was copied by this checkpoint."""
        return f"rows-{self.id}.h5"

    @property
    def files(self):
        """List of the names of all files that belong to it."""
        named = {name for table in self.tables for part in table.parts for name in part.files}
        named |= {self.data_file} if self.tables else set()
        named |= set() if self.weights_crc32 is None else {WEIGHTS}
        return sorted(named.union(self.file_bytes), key=str)

    def replace_training(self, folder, training):
        """Changes `training` in a manifest that lies in a folder, at once."""
        if training == self.training:
            return
        target = pathlib.Path(folder, NAME)
        changed = target.with_name(f"{NAME}.new")
        changed.unlink(missing_ok=True)  # it may be a link to elsewhere
        dataclasses.replace(self, training=training).write(folder, changed.name)
        sync(changed)
        changed.replace(target)

    def write(self, folder, name=NAME):
        """Writes the manifest into a folder."""
        is_of_one = self.ranks is None and self.rank is None
        version = _VERSION_OF_ONE if is_of_one else _VERSION_OF_RANKS
        version = max(version, *(table.version for table in self.tables), 1)
        fields = {"format": FORMAT, "version": version, **dataclasses.asdict(self)}
        fields["tables"] = [table.saved_fields(is_of_one) for table in self.tables]
        for field in _FIELDS_OF_RANKS if is_of_one else ():
            del fields[field]
        text = json.dumps(fields, indent=1)
        content = {"crc32": zlib.crc32(text.encode()), "manifest": text.splitlines()}
        pathlib.Path(folder, name).write_text(json.dumps(content, indent=1) + "\n")

    @classmethod
    def read(cls, folder):
        """Reads the manifest of a checkpoint.

        Raises:
            FileNotFoundError: There is no checkpoint.
            CheckpointDamagedError: It is damaged.
            ValueError: It is of a later version.
        """
        path = pathlib.Path(folder, NAME)
        refuse_link(path)
        try:
            content = pathlib.Path(checks.regular_file(path)).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            within = sorted(each.parent for each in pathlib.Path(folder).glob(f"*/{NAME}"))
            hint = f" The last of those in it is '{within[-1]}'." if within else ""
            lack = f"has no {NAME}" if pathlib.Path(folder).is_dir() else "is not there"
            raise FileNotFoundError(
                "A checkpoint must be a folder with a manifest, as `save_checkpoint` and "
                f"`save_delta` write it.{hint} Received: '{folder}', which {lack}"
            ) from None
        except ValueError as error:
            raise CheckpointDamagedError(str(error)) from None
        try:
            content = json.loads(content)
            text = "\n".join(content["manifest"])
            is_whole = zlib.crc32(text.encode()) == content["crc32"]
        except PARSER_ERRORS:
            is_whole = False
        if not is_whole:
            raise CheckpointDamagedError(
                f"A checkpoint's manifest must match its checksum. It is damaged. Received: {path}"
            )
        try:
            fields = json.loads(text)
            version, is_ours = fields.pop("version"), fields.pop("format") == FORMAT
        except PARSER_ERRORS as error:
            raise CheckpointDamagedError(f"{path}: {error!r}") from error
        if not is_ours or version not in _VERSIONS:
            raise ValueError(
                f"A checkpoint must be of version 1 to {VERSION}. Load it with the keras_sparse "
                f"that saved it, or a later one. Received: version {version} in {path}"
            )
        try:
            manifest = check_types(cls._from_fields(fields))
        except PARSER_ERRORS as error:
            raise CheckpointDamagedError(
                "A checkpoint's manifest must have the fields that `save_checkpoint` writes. "
                f"Received: {path}: {error!r}"
            ) from error
        for name in manifest.files:
            if not is_plain_name(name):
                raise CheckpointDamagedError(
                    "A checkpoint's manifest must name files of its own folder alone. Received: "
                    f"{name!r} in {path}"
                )
        return manifest

    @classmethod
    def _from_fields(cls, fields):
        fields["base"] = fields["base"] and Base(**fields["base"])
        fields["tables"] = tuple(TableEntry.from_saved_fields(saved) for saved in fields["tables"])
        fields["ranks"] = as_tuples(fields.get("ranks"))
        return cls(**fields)
