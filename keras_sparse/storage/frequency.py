from keras_sparse.utils import checks


def check_frequency(frequency, input_dim):
    """Returns whether a table counts how often its rows are trained, or raises an error."""
    frequency = checks.boolean(frequency, "frequency")
    if frequency and input_dim is not None:
        raise ValueError(
            "`frequency` must be that of a dynamic table: all ids of a static one keep their rows. "
            f"Give it input_dim=None, or leave `frequency` out. Received: input_dim={input_dim} "
            "with frequency=True"
        )
    return frequency
