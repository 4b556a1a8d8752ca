import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class FindResult:
    """What a table has of some keys, in their order.

    Attributes:
        exist: Boolean array of shape `(n,)`: whether the key has a row.
        rows: float32 array of shape `(n, output_dim)`: what a lookup reads, so the initial row, or
            the default of an admission filter, of a key without one.
        slots: Dict of float32 arrays by the names of the optimizer's slots, of shape `(n,
            output_dim)`, or `(n, 1)` where a slot has one float a row. Of a key without a row they
            are those that a new row begins with.
    """

    exist: np.ndarray
    rows: np.ndarray
    slots: dict[str, np.ndarray]
