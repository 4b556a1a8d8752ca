"""The commands of `python -m keras_sparse`, one a file. Each has `add_to` and `run`."""
