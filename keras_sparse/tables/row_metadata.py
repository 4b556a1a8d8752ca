import dataclasses


@dataclasses.dataclass(frozen=True)
class RowMetadata:
    """What a dynamic table keeps of each row beside the row and its slots.

    Attributes:
        ages: `"steps"` or `"seconds"`, the unit of the age of a row since its last gradient.
            Defaults to `None`: no ages.
        frequencies: Boolean. Whether the table counts the steps that have a gradient of the row.
            Defaults to `False`.
    """

    ages: str | None = None
    frequencies: bool = False

    @property
    def names(self):
        """Tuple of strings: the fields of a `RowPiece` that have it, in their order."""
        kept = {"ages": self.ages is not None, "frequencies": self.frequencies}
        return tuple(name for name, is_kept in kept.items() if is_kept)
