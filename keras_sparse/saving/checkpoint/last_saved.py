import dataclasses
import pathlib

from keras_sparse.saving.table_format.table_entry import RowsFile
from keras_sparse.saving.table_format.table_entry import SegmentFile


@dataclasses.dataclass(frozen=True)
class LastSaved:
    """The place of a table's rows on disk, as far as they have not changed since.

    Args:
        folder: Path of the checkpoint or delta that the table was last saved to or loaded from.
        id: String, that of its manifest.
        index: Integer: the table's number there.
        parts: Tuple of pairs of a folder and a `RowsFile` or `SegmentFile` there, in the order to
            read them in.
        is_linked: Boolean. Whether rows in SSD tiers are in none of the parts: each checkpoint
            links the segments they are in anew.
    """

    folder: pathlib.Path
    id: str
    index: int
    parts: tuple[tuple[pathlib.Path, RowsFile | SegmentFile], ...]
    is_linked: bool
