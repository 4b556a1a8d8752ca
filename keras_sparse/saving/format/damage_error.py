class CheckpointDamagedError(ValueError):
    """A file of a checkpoint is missing, or its bytes are not those that were saved."""
