import dataclasses
import json
import os
import pathlib
import zlib

from keras_sparse.initial_rows import InitialRows
from keras_sparse.saving.checkpoint_damaged_error import CheckpointDamagedError
from keras_sparse.saving.table_header import FilterHeader
from keras_sparse.table_part import TablePart

FORMAT = "keras_sparse checkpoint"
VERSION = 2
# What one process has saved by itself, as files have had it before there were ranks.
_VERSION_OF_ONE = 1
_VERSIONS = (_VERSION_OF_ONE, VERSION)
_FIELDS_OF_RANKS = ("ranks", "rank")
_TABLE_FIELDS_OF_RANKS = ("number", "part")
NAME = "manifest.json"
WEIGHTS = "model.weights.h5"


@dataclasses.dataclass(frozen=True)
class RowsPart:
    """Rows of a table in a data file, which take the place of those there are.

    Args:
        file: String. Name of the HDF5 file.
        group: String. The table's group in it.
        is_complete: Boolean. Whether these are all rows there are, rather than changed ones.
        chunks: Tuple with, for each chunk, its number of rows and the CRC-32 of its keys and of its
            records.
        erased: Number of keys whose rows go before these come, and the CRC-32 of them.
    """

    file: str
    group: str
    is_complete: bool
    chunks: tuple[tuple[int, int, int], ...]
    erased: tuple[int, int]

    @property
    def num_rows(self):
        return sum(chunk[0] for chunk in self.chunks)

    @property
    def files(self):
        return (self.file,)


@dataclasses.dataclass(frozen=True)
class SegmentPart:
    """Rows of a table in a segment of an SSD tier.

    Args:
        file: String. Name of the segment.
        num_entries: Integer. Records in it, rows or not.
        num_rows: Integer. Rows among them.
        alive_file: String. Name of the HDF5 file that tells which of them are rows.
        alive_path: String. The dataset in it: uint8, a bit an entry, the lowest first.
        alive_crc32: Integer. Its CRC-32.
    """

    file: str
    num_entries: int
    num_rows: int
    alive_file: str
    alive_path: str
    alive_crc32: int

    @property
    def files(self):
        return (self.file, self.alive_file)


@dataclasses.dataclass(frozen=True)
class History:
    """The steps that rows of a table may have missed: see `ops.export_history`.

    Args:
        step: Integer. The last one.
        first_step: Integer. The one after which the history begins.
        table_step: Integer. The last one as the table counts them.
        num_runs: Integer. Runs of steps with the same numbers.
        num_numbers: Integer. Numbers a step.
        lengths_crc32: Integer. CRC-32 of the dataset `history_lengths` of the table.
        numbers_crc32: Integer. That of `history_numbers`.
    """

    step: int
    first_step: int
    table_step: int
    num_runs: int
    num_numbers: int
    lengths_crc32: int
    numbers_crc32: int


@dataclasses.dataclass(frozen=True)
class SavedTable:
    """A table in a checkpoint. docs/formats/checkpoint.md tells what each field is."""

    name: str
    input_dim: int | None
    output_dim: int
    rule: str | None
    rule_constants: dict[str, float]
    rule_weight_decay: float
    slot_names: tuple[str, ...]
    record_floats: int
    record_words: int
    keeps_ages: bool
    history: History
    initial_rows: InitialRows
    parts: tuple[RowsPart | SegmentPart, ...]
    filter: FilterHeader | None
    group: str
    number: int | None = None  # the place of its table among those of the model; `None`: its own
    part: TablePart | None = None


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
    """What a checkpoint says of itself.

    Args:
        id: String that no other checkpoint has.
        base: `Base` of a delta; `None` for a checkpoint that stands alone.
        step: Integer. The optimizer's steps so far; 0 without one.
        training: Dict of what `callbacks.Checkpoint` needs to go on.
        weights_crc32: Integer, of all else that the model has: the file `model.weights.h5`.
        file_bytes: Dict: the size of each file by its name.
        tables: Tuple of `SavedTable`.
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
    tables: tuple[SavedTable, ...]
    ranks: tuple[int, ...] | None = None
    rank: int | None = None

    @property
    def data_file(self):
        """Name of the HDF5 file with what was copied by this checkpoint."""
        return f"rows-{self.id}.h5"

    def replace_training(self, folder, training):
        """Changes `training` in a manifest that lies in a folder, at once."""
        if training == self.training:
            return
        target = pathlib.Path(folder, NAME)
        changed = target.with_name(f"{NAME}.new")
        dataclasses.replace(self, training=training).write(folder, changed.name)
        sync(changed)
        changed.replace(target)

    def write(self, folder, name=NAME):
        """Writes the manifest into a folder."""
        is_of_one = self.ranks is None and self.rank is None
        version = _VERSION_OF_ONE if is_of_one else VERSION
        fields = {"format": FORMAT, "version": version, **dataclasses.asdict(self)}
        for table, saved in zip(self.tables, fields["tables"], strict=True):
            saved["initial_rows"] = table.initial_rows.saved_fields()
            for part, saved_part in zip(table.parts, saved["parts"], strict=True):
                saved_part["kind"] = _KINDS[type(part)]
            for field in _TABLE_FIELDS_OF_RANKS if is_of_one else ():
                del saved[field]
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
        try:
            content = path.read_text()
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(
                "A checkpoint must be a folder with a manifest, as `save_checkpoint` and "
                f"`save_delta` write it. Received: '{folder}', which has no {NAME}"
            ) from None
        try:
            content = json.loads(content)
            text = "\n".join(content["manifest"])
            is_whole = zlib.crc32(text.encode()) == content["crc32"]
        except (ValueError, KeyError, TypeError):
            is_whole = False
        if not is_whole:
            raise CheckpointDamagedError(
                f"A checkpoint's manifest must match its checksum. It is damaged. Received: {path}"
            )
        return cls._from_fields(json.loads(text), path)

    @classmethod
    def _from_fields(cls, fields, path):
        version = fields.pop("version")
        if fields.pop("format") != FORMAT or version not in _VERSIONS:
            raise ValueError(
                f"A checkpoint must be of version 1 to {VERSION}. Load it with the keras_sparse "
                f"that saved it, or a later one. Received: version {version} in {path}"
            )
        fields["base"] = fields["base"] and Base(**fields["base"])
        fields["tables"] = tuple(_table(saved) for saved in fields["tables"])
        fields["ranks"] = _tuples(fields.get("ranks"))
        return cls(**fields)


_KINDS = {RowsPart: "rows", SegmentPart: "segment"}
_CLASSES = {kind: part for part, kind in _KINDS.items()}


def sync(path):
    """Returns when a file, or the names in a folder, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _tuples(value):
    """Lists, at any depth, as tuples: JSON knows no tuples."""
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


def _table(fields):
    fields["initial_rows"] = InitialRows(**fields["initial_rows"])
    fields["slot_names"] = tuple(fields["slot_names"])
    fields["history"] = History(**fields["history"])
    fields["parts"] = tuple(_part(part) for part in fields["parts"])
    if fields["filter"] is not None:
        saved = fields["filter"]
        fields["filter"] = FilterHeader(saved["layout"], _tuples(saved["chunks"]))
    if fields.get("part") is not None:
        fields["part"] = TablePart(**fields["part"])
    return SavedTable(**fields)


def _part(fields):
    part = _CLASSES[fields.pop("kind")]
    return part(**{name: _tuples(value) for name, value in fields.items()})
