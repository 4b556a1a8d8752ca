from keras_sparse.saved_model.saved_model_scope import is_looking_for_resources


def reject_tf_checkpoint(save_type, content, received):
    """Raises NotImplementedError unless a SavedModel is made, not one of TensorFlow's checkpoints.

    They would leave the content out in silence.

    Args:
        save_type: String, as `_trackable_children` of TensorFlow's objects gets it.
        content: String. What would be missing.
        received: String. What has it.
    """
    # Keras 3.13 looks for what a SavedModel has as if it made a checkpoint.
    if save_type != "savedmodel" and not is_looking_for_resources():
        raise NotImplementedError(
            f"{content} are not in TensorFlow's checkpoints. Use `model.save`, "
            "`model.save_weights` or `keras_sparse.saving.save_checkpoint`. Received: "
            f"{received}"
        )


class RejectTfCheckpoint:
    """Mixin of layers whose content TensorFlow's own checkpoints would leave out in silence."""

    name: str

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        reject_tf_checkpoint(save_type, "Tables and vocabularies", f"layer '{self.name}'")
        return super()._trackable_children(save_type, **kwargs)  # type: ignore[misc]
