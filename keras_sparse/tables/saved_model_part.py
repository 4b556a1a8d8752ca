from keras_sparse.saved_model.reject_tf_checkpoint import reject_tf_checkpoint
from keras_sparse.saved_model.saved_table import HasSavedTable


class SavedModelPart(HasSavedTable):
    """How an embedding variable gets into a SavedModel, and why not into TensorFlow's checkpoints.

    A SavedModel has a `SavedTable` in the place of the variable.

    Attributes:
        is_of_ranks: Boolean. Whether it is a part or a copy of a table that several ranks have: a
            SavedModel has that, by the layer, and nothing of this variable.
    """

    path: str
    is_of_ranks = False

    def _trackable_children(self, save_type="checkpoint", **kwargs):
        reject_tf_checkpoint(save_type, "Embedding variables", f"variable '{self.path}'")
        return {} if self.is_of_ranks else {"saved_table": self.saved_table}

    # Of itself it has nothing there.

    def _serialize_to_tensors(self):
        return {}

    def _export_to_saved_model_graph(self, object_map, tensor_map, options, **kwargs):
        return []

    def _write_object_proto(self, proto, options):
        proto.user_object.identifier = "_generic_user_object"
        proto.user_object.version.producer = proto.user_object.version.min_consumer = 1
