"""A model through a file of each form."""

import keras

from keras_sparse.saving import load_checkpoint
from keras_sparse.saving import save_checkpoint

FORMS = ["weights.h5", "keras", "weights.json", "checkpoint"]


def save(model, folder, form):
    """Returns the path of the file or checkpoint."""
    path = folder / f"saved.{form}"
    if form == "checkpoint":
        return save_checkpoint(model, path, verbose=False)
    if form == "keras":
        model.save(path)
    else:
        model.save_weights(path, **({"max_shard_size": 2e-6} if form == "weights.json" else {}))
    return path


def load(model, path, **options):
    """Returns the model, with what has been saved."""
    if path.is_dir():
        load_checkpoint(model, path, verbose=False, **options)
    else:
        model.load_weights(path, **options)
    return model


def reloaded(model, make_other, folder, form):
    """Returns the model of a file: one that `make_other` makes, where the file has no config."""
    path = save(model, folder, form)
    return keras.saving.load_model(path) if form == "keras" else load(make_other(), path)
