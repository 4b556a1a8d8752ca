class RefuseCheckpoints:
    """Mixin of layers whose content TensorFlow's own checkpoints would leave out in silence."""

    name: str

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        if save_type != "savedmodel":
            raise NotImplementedError(
                "Tables and vocabularies are not in TensorFlow's checkpoints. Use `model.save`, "
                "`model.save_weights` or `keras_sparse.saving.save_checkpoint`. Received: layer "
                f"'{self.name}'"
            )
        return super()._trackable_children(save_type, **kwargs)  # type: ignore[misc]
