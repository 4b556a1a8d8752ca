import dataclasses
import warnings


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The names that a load by names has loaded, skipped, and left unused.

    Args:
        loaded: Tuple of strings: the names of layers, tables and optimizers that are loaded.
        skipped: Dict of reasons by the names of those that stay as they are, or in part.
        unused: Tuple of strings: the names of what the file has beside.

    Example:
    >>> print(LoadReport(("users",), {"city": "not in the file"}, ("country",)))
    A total of 1 objects could not be loaded:
      city: not in the file
    Unused in the file:
      country
    """

    loaded: tuple[str, ...]
    skipped: dict[str, str]
    unused: tuple[str, ...]

    def warn(self):
        """Shows it as a warning, unless nothing was left out."""
        if self.skipped or self.unused:
            warnings.warn(str(self), stacklevel=4)

    def __str__(self):
        skipped = "".join(f"\n  {name}: {reason}" for name, reason in self.skipped.items())
        unused = "".join(f"\n  {name}" for name in self.unused)
        return (
            f"A total of {len(self.skipped)} objects could not be loaded:{skipped or ' -'}"
            f"\nUnused in the file:{unused or ' -'}"
        )
