from keras_sparse.saved_model.refuse_checkpoints import refuse_checkpoints


class RefuseCheckpoints:
    """Mixin of layers whose content TensorFlow's own checkpoints would leave out in silence."""

    name: str

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        refuse_checkpoints(save_type, "Tables and vocabularies", f"layer '{self.name}'")
        return super()._trackable_children(save_type, **kwargs)  # type: ignore[misc]
