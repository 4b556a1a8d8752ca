# Names of files that no later checkpoint of this process links. Each is the only file of its name,
# whatever folders have it, and has rows of several tables.
_not_linked: set[str] = set()


class SavedFiles:
    """The files of checkpoints that a table was saved to or loaded from: they have its rows.

    That is whatever has become of the rows since, and whether the table would have them linked.
    """

    def __init__(self):
        self._names: set[str] = set()

    def add(self, parts):
        """Takes the files of some parts.

        Args:
            parts: Iterable of pairs of a folder and a `RowsFile` or `SegmentFile` there.
        """
        self._names.update(names_of(parts))

    def forbid_links(self):
        """Lets no later checkpoint have these files, for the sake of any table."""
        _not_linked.update(self._names)


def names_of(parts):
    """Returns the names of the files of parts, as of `SavedFiles.add`: a set."""
    return {name for _, part in parts for name in part.files}


def may_be_linked(parts):
    """Returns whether the next checkpoint may link the files of parts."""
    return _not_linked.isdisjoint(names_of(parts))
