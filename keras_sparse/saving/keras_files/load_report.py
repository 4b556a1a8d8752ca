import dataclasses
import warnings


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """Lists what a load by names has loaded, skipped, and left unused.

    Args:
        loaded: Tuple of strings. Names of the loaded layers, tables and optimizers.
        skipped: Dict from the names of layers, tables and optimizers that keep their values, at
            least in part, to the reasons.
        unused: Tuple of strings. Names in the file that the model does not use.

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
        """Shows the report as a warning if anything was skipped or left unused."""
        if self.skipped or self.unused:
            warnings.warn(str(self), stacklevel=4)

    def __str__(self):
        skipped = "".join(f"\n  {name}: {reason}" for name, reason in self.skipped.items())
        unused = "".join(f"\n  {name}" for name in self.unused)
        return (
            f"A total of {len(self.skipped)} objects could not be loaded:{skipped or ' -'}"
            f"\nUnused in the file:{unused or ' -'}"
        )
