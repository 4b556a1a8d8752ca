import dataclasses
import json
import zlib

import numpy as np

from keras_sparse.saving.format.damage_error import check_types
from keras_sparse.saving.format.damage_error import PARSER_ERRORS
from keras_sparse.saving.format.read_dataset import read_dataset
from keras_sparse.tables.initial_rows import InitialRows
from keras_sparse.tables.packed_records import packed_records
from keras_sparse.utils.row_dtypes import FLOAT32
from keras_sparse.utils.row_dtypes import RowDtypes

FORMAT = "keras_sparse table"
VERSION = 6
# Files without what a later version brought are written as before, for readers that do not know it.
_VERSION_OF_SECONDS = 5  # and of frequencies
_VERSION_OF_AGES = 4  # in steps
_VERSION_WITHOUT_AGES = 3
_VERSION_WITHOUT_FILTER = 2
_VERSIONS = range(_VERSION_WITHOUT_FILTER, VERSION + 1)


@dataclasses.dataclass(frozen=True)
class FilterHeader:
    """The header of what a saved table's admission filter remembers.

    Args:
        layout: Dict: what a filter that takes it over must be, see `AdmissionFilter.layout`.
        chunks: Tuple with, for each chunk, its number of entries; the first key, if the keys are
            consecutive and so not stored, or `None`; the CRC-32 of its keys, if they are stored, or
            `None`; the CRC-32 of its counts.
    """

    layout: dict
    chunks: tuple[tuple[int, int | None, int | None, int], ...]


@dataclasses.dataclass(frozen=True)
class TableHeader:
    """The header of a saved table. Byte layout: docs/formats/table.md.

    Args:
        input_dim: Integer, or `None` for a dynamic table.
        output_dim: Integer.
        rule: String, or `None` for a table that no optimizer was built on.
        slot_names: Tuple of strings.
        record_floats: Integer. Width of a record: the row and its slots.
        initial_rows: `InitialRows`.
        chunks: Tuple with, for each chunk, its number of rows and the CRC-32 of its keys and of its
            records.
        filter: `FilterHeader`, or `None` for a table whose filter remembers nothing.
        ages: Tuple with the CRC-32 of the ages of each chunk, or `None` for a table that does not
            keep them.
        frequencies: Likewise, of the frequencies.
        ages_clock: Integer, seconds since 1970, modulo 2^32: when the ages were saved, if they are
            seconds; otherwise `None`.
        dtypes: `RowDtypes` of the stored records.
        rule_step: Integer, the finished steps of the rule; `None` for a float32 table.
    """

    input_dim: int | None
    output_dim: int
    rule: str | None
    slot_names: tuple[str, ...]
    record_floats: int
    initial_rows: InitialRows
    chunks: tuple[tuple[int, int, int], ...]
    filter: FilterHeader | None = None
    ages: tuple[int, ...] | None = None
    frequencies: tuple[int, ...] | None = None
    ages_clock: int | None = None
    dtypes: RowDtypes = FLOAT32
    rule_step: int | None = None

    @property
    def num_rows(self):
        return sum(chunk[0] for chunk in self.chunks)

    @property
    def packed(self):
        """The `PackedRecords` that convert its chunks, or `None` for float32."""
        return packed_records(self)

    @property
    def record_shape(self):
        """`(dtype, width)` of a stored record."""
        if self.packed is None:
            return np.float32, self.record_floats
        return np.uint32, self.packed.words

    def kept_words(self):
        """Returns the checksums of what is kept of rows beside records, by the datasets' names."""
        kept = {"ages": self.ages, "frequencies": self.frequencies}
        return {name: checksums for name, checksums in kept.items() if checksums is not None}

    def write(self, store):
        """Puts the header into a Keras store."""
        fields = dataclasses.asdict(self)
        fields["initial_rows"] = self.initial_rows.saved_fields()
        fields |= fields.pop("dtypes") and self.dtypes.saved_fields()
        version = self._version()
        for name in ("filter", "ages", "ages_clock", "frequencies", "rule_step"):
            if fields[name] is None:
                del fields[name]
        text = json.dumps({"format": FORMAT, "version": version, **fields})
        content = np.frombuffer(text.encode(), np.uint8)
        store["header"] = content
        store["header_crc32"] = np.array(zlib.crc32(content.data), np.uint32)

    def _version(self):
        if not self.dtypes.are_float32:
            return VERSION
        if self.frequencies is not None or self.ages_clock is not None:
            return _VERSION_OF_SECONDS
        if self.ages is not None:
            return _VERSION_OF_AGES
        return _VERSION_WITHOUT_FILTER if self.filter is None else _VERSION_WITHOUT_AGES

    @classmethod
    def read(cls, store):
        """Reads the header of a table.

        Raises:
            ValueError: It is damaged, or of a later version.
        """
        content = np.ascontiguousarray(read_dataset(store, "header", np.uint8, (None,)))
        if zlib.crc32(content.data) != int(read_dataset(store, "header_crc32", np.uint32, ())):
            raise ValueError("A saved table's header must match its checksum. The file is damaged")
        try:
            fields = json.loads(content.tobytes())
            version, is_ours = fields.pop("version"), fields.pop("format") == FORMAT
            if is_ours and version in _VERSIONS:
                return check_types(cls._from_fields(fields))
        except PARSER_ERRORS as error:
            raise ValueError(
                "A saved table's header must have the fields that are saved. The file is damaged. "
                f"Received: {error!r}"
            ) from error
        raise ValueError(
            f"A saved table must be of version {_VERSIONS[0]} to {VERSION}. Load it with the "
            f"keras_sparse that saved it, or a later one. Received: version {version}"
        )

    @classmethod
    def _from_fields(cls, fields):
        fields["initial_rows"] = InitialRows(**fields["initial_rows"])
        fields["dtypes"] = RowDtypes.from_saved_fields(fields)
        fields["slot_names"] = tuple(fields["slot_names"])
        fields["chunks"] = tuple(tuple(chunk) for chunk in fields["chunks"])
        if "filter" in fields:
            saved = fields["filter"]
            chunks = tuple(tuple(chunk) for chunk in saved["chunks"])
            fields["filter"] = FilterHeader(saved["layout"], chunks)
        for name in ("ages", "frequencies"):
            if name in fields:
                fields[name] = tuple(fields[name])
        return cls(**fields)
