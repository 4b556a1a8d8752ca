from keras_sparse.saved_model.reject_tf_checkpoint import reject_tf_checkpoint


class RejectTfCheckpoint:
    """Mixin of layers whose content TensorFlow's own checkpoints would leave out in silence."""

    name: str

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        reject_tf_checkpoint(save_type, "Tables and vocabularies", f"layer '{self.name}'")
        return super()._trackable_children(save_type, **kwargs)  # type: ignore[misc]
