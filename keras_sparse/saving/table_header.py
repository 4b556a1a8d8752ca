import dataclasses
import json
import zlib

import numpy as np

from keras_sparse.initial_rows import InitialRows

FORMAT = "keras_sparse table"
VERSION = 2


@dataclasses.dataclass(frozen=True)
class TableHeader:
    """What a saved table says of itself. Byte layout: docs/formats/table.md.

    Args:
        input_dim: Integer, or `None` for a dynamic table.
        output_dim: Integer.
        rule: String, or `None` for a table that no optimizer was built on.
        slot_names: Tuple of strings.
        record_floats: Integer. Width of a record: the row and its slots.
        initial_rows: `InitialRows`.
        chunks: Tuple with, for each chunk, its number of rows and the CRC-32 of its keys and of its
            records.
    """

    input_dim: int | None
    output_dim: int
    rule: str | None
    slot_names: tuple[str, ...]
    record_floats: int
    initial_rows: InitialRows
    chunks: tuple[tuple[int, int, int], ...]

    @property
    def num_rows(self):
        return sum(chunk[0] for chunk in self.chunks)

    def write(self, store):
        """Puts the header into a Keras store."""
        text = json.dumps({"format": FORMAT, "version": VERSION, **dataclasses.asdict(self)})
        content = np.frombuffer(text.encode(), np.uint8)
        store["header"] = content
        store["header_crc32"] = np.array(zlib.crc32(content.data), np.uint32)

    @classmethod
    def read(cls, store):
        """Reads the header of a table.

        Raises:
            ValueError: It is damaged, or of a later version.
        """
        content = np.ascontiguousarray(store["header"], np.uint8)
        if zlib.crc32(content.data) != int(np.asarray(store["header_crc32"])):
            raise ValueError("A saved table's header must match its checksum. The file is damaged")
        fields = json.loads(content.tobytes())
        if fields.pop("format") != FORMAT or fields["version"] != VERSION:
            raise ValueError(
                f"A saved table must be of version {VERSION}. Load it with the keras_sparse that "
                f"saved it, or a later one. Received: version {fields['version']}"
            )
        del fields["version"]
        fields["initial_rows"] = InitialRows(**fields["initial_rows"])
        fields["slot_names"] = tuple(fields["slot_names"])
        fields["chunks"] = tuple(tuple(chunk) for chunk in fields["chunks"])
        return cls(**fields)
