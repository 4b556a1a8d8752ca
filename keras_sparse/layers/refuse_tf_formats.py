class RefuseTensorFlowFormats:
    """Mixin of layers whose content TensorFlow's own formats would leave out in silence."""

    name: str

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        raise NotImplementedError(
            "Tables and vocabularies are not in TensorFlow's checkpoints and SavedModels. Use "
            f"`model.save` or `model.save_weights`. Received: layer '{self.name}'"
        )
