import dataclasses
import pathlib

from keras_sparse.saving.checkpoint.table_entry import RowsFile
from keras_sparse.saving.checkpoint.table_entry import SegmentFile

# Names of files that no later checkpoint of this process links. Each is the only file of its name,
# whatever folders have it, and has rows of several tables.
_not_linked: set[str] = set()


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

    def forbid_links(self):
        """Lets no later checkpoint have these files, for the sake of any table."""
        _not_linked.update(self._files())

    def may_be_linked(self):
        """Returns whether the next checkpoint may link the parts."""
        return _not_linked.isdisjoint(self._files())

    def _files(self):
        return {name for _, part in self.parts for name in part.files}
