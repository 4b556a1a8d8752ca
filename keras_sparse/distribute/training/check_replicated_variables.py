import warnings

import numpy as np

from keras_sparse.distribute.ranks.collectives import gather_objects
from keras_sparse.distribute.ranks.runtime import error_prefix
from keras_sparse.distribute.ranks.runtime import size
from keras_sparse.tables.embedding_variable import EmbeddingVariable

# Where ranks do the same update of the same values they differ in the last bits at most, by
# processors that round otherwise. Where they do not, they have drifted by much more in an epoch.
_TOLERANCE = 1e-4


def warn_of_different_replicas(model):
    """Warns on all ranks if what each has of its own is not alike: they train different models.

    Looked at are the trained dense variables, of which every rank has a copy. All ranks must call
    it.

    Args:
        model: Built `keras.Model`.
    """
    if size() == 1:
        return
    variables = [v for v in model.trainable_variables if not isinstance(v, EmbeddingVariable)]
    own = {each.path: float(np.abs(each.numpy()).astype("float64").sum()) for each in variables}
    of_ranks = gather_objects(own, "keras_sparse.warn_of_different_replicas")
    for path, value in of_ranks[0].items():
        for other, theirs in enumerate(of_ranks):
            if np.isclose(theirs.get(path, np.nan), value, _TOLERANCE, 1e-6, equal_nan=True):
                continue
            warnings.warn(
                f"{error_prefix()}Dense variables must be the same on all ranks, which otherwise "
                "train different models. Compile with `keras_sparse.distribute."
                "DistributedOptimizer`, begin alike (`BroadcastGlobalVariables`), and clip norms "
                f"with it rather than after a tape. Received: sums of |{path}| of {value:.7g} on "
                f"rank 0 and {theirs.get(path)} on rank {other}",
                stacklevel=2,
            )
            return
