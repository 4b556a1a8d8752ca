import dataclasses

from keras_sparse.saving.table_format.table_header import FilterHeader
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.packed_records import record_bytes
from keras_sparse.tables.table import RowMetadata
from keras_sparse.tables.table_part import TablePart
from keras_sparse.utils.row_dtypes import FLOAT32
from keras_sparse.utils.row_dtypes import RowDtypes

# What one process by itself leaves out, as files have had it before there were ranks.
_FIELDS_OF_RANKS = ("number", "part")
# The last step, the gradient's step, and the frequency.
_MOST_WORDS_BEHIND = 3


@dataclasses.dataclass(frozen=True)
class RowsFile:
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

    @property
    def place(self):
        """What no other part has: the file's name, and the path in it."""
        return self.file, self.group


@dataclasses.dataclass(frozen=True)
class SegmentFile:
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

    @property
    def place(self):
        """As of `RowsFile`."""
        return self.file, self.alive_path


@dataclasses.dataclass(frozen=True)
class History:
    """The steps that rows of a table may have missed: see `native.export_history`.

    Args:
        step: Integer. The last one.
        first_step: Integer. The one after which the history begins.
        table_step: Integer. The last one as the table counts them, or its clock, where ages are
            seconds.
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
class TableEntry:
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
    metadata: RowMetadata
    history: History
    initial_rows: InitialRows
    parts: tuple[RowsFile | SegmentFile, ...]
    filter: FilterHeader | None
    group: str
    number: int | None = None  # the place of its table among those of the model; `None`: its own
    part: TablePart | None = None
    accumulated: tuple[int, int, int] | None = None
    dtypes: RowDtypes = FLOAT32

    @property
    def version(self):
        """The first version of manifests whose readers know all that the table has."""
        if not self.dtypes.are_float32:
            return 5
        if self.accumulated is not None:
            return 4
        return 3 if self.metadata.frequencies or self.metadata.ages == "seconds" else 1

    def saved_fields(self, is_of_one):
        """Returns the table as a dict for JSON.

        Args:
            is_of_one: Boolean. Whether one process has saved all tables by itself.
        """
        fields = dataclasses.asdict(self)
        del fields["dtypes"]
        kept = {
            "keeps_ages": self.metadata.ages is not None,
            "keeps_frequencies": self.metadata.frequencies,
            "ages_in_seconds": self.metadata.ages == "seconds",
        }
        # In the order that older versions have written.
        names = [*fields]
        names[names.index("metadata")] = "keeps_ages"
        names[-1:] = ["keeps_frequencies", "ages_in_seconds", "accumulated"]
        fields = {name: {**fields, **kept}[name] for name in names}
        fields["initial_rows"] = self.initial_rows.saved_fields()
        for file, saved in zip(self.parts, fields["parts"], strict=True):
            saved["kind"] = _KINDS[type(file)]
        for field in _FIELDS_OF_RANKS if is_of_one else ():
            del fields[field]
        for field in ("keeps_frequencies", "ages_in_seconds", "accumulated"):
            if not fields[field]:
                del fields[field]
        return {**fields, **self.dtypes.saved_fields()}

    @classmethod
    def from_saved_fields(cls, fields):
        """Returns the table that `saved_fields` gave a dict of."""
        fields = dict(fields)
        fields["initial_rows"] = InitialRows(**fields["initial_rows"])
        keeps_ages, in_seconds = fields.pop("keeps_ages"), fields.pop("ages_in_seconds", False)
        if not isinstance(keeps_ages, bool) or not isinstance(in_seconds, bool):
            raise TypeError(f"keeps_ages={keeps_ages!r}, ages_in_seconds={in_seconds!r}")
        unit = "seconds" if in_seconds else "steps"
        frequencies = fields.pop("keeps_frequencies", False)
        fields["metadata"] = RowMetadata(unit if keeps_ages else None, frequencies)
        fields["dtypes"] = RowDtypes.from_saved_fields(fields)
        fields["slot_names"] = tuple(fields["slot_names"])
        fields["history"] = History(**fields["history"])
        fields["parts"] = tuple(_file(each) for each in fields["parts"])
        if fields["filter"] is not None:
            saved = fields["filter"]
            fields["filter"] = FilterHeader(saved["layout"], as_tuples(saved["chunks"]))
        if fields.get("part") is not None:
            fields["part"] = TablePart(**fields["part"])
        fields["accumulated"] = as_tuples(fields.get("accumulated"))
        return cls(**fields)._checked()

    def _checked(self):
        words = record_bytes(self) // 4
        if not words <= self.record_words <= words + _MOST_WORDS_BEHIND:
            raise ValueError(
                "`record_words` must be those of row and slots in their dtypes, and of up to "
                f"{_MOST_WORDS_BEHIND} words behind. Received: record_words={self.record_words} "
                f"for {words} with {self.dtypes}"
            )
        return self


_KINDS = {RowsFile: "rows", SegmentFile: "segment"}
_CLASSES = {kind: file for file, kind in _KINDS.items()}


def _file(fields):
    fields = dict(fields)
    file_class = _CLASSES[fields.pop("kind")]
    return file_class(**{name: as_tuples(value) for name, value in fields.items()})


def as_tuples(value):
    """Returns lists, at any depth, as tuples: JSON knows no tuples."""
    return tuple(as_tuples(each) for each in value) if isinstance(value, list) else value
