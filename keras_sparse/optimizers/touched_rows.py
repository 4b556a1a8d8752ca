class TouchedRows:
    """Rows of an embedding variable that a step has gradients for.

    Stands for the variable in the list that goes through Keras' `apply`, beside the values of its
    gradient. It has what Keras reads of a variable there, so that Keras can drop it when it has no
    gradient, and warn by its path.

    Args:
        variable: `EmbeddingVariable`.
        ids: int64 tensor of shape `(num_ids,)`, or `None` if there is no gradient.
    """

    constraint = None  # refused when the optimizer is built
    overwrite_with_gradient = False

    def __init__(self, variable, ids):
        self.variable = variable
        self.ids = ids
        self.path = variable.path
