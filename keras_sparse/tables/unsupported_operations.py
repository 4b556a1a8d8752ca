from keras_sparse.tables.gradient_anchor import refuse_optimizer


class UnsupportedOperations:
    """Refuses what Keras and TensorFlow do with variables, and a table cannot."""

    path: str

    def _refuse_computation(self, *args, **kwargs):
        raise TypeError(
            "An embedding variable cannot be computed with as a whole. Read rows with its layer: "
            "to tie weights, multiply by `layer(np.arange(input_dim))`; or with `keras_sparse.ops."
            "lookup`, `embedding_lookup`, `embedding_lookup_sparse` or `safe_embedding_lookup_"
            "sparse`; or take a static table's `.numpy()`. Leave tables out of a norm or a sum "
            "over `model.weights`: `isinstance(each, keras_sparse.EmbeddingVariable)`; L2 terms "
            f"are a layer's `embeddings_regularizer`. Received: variable '{self.path}'"
        )

    __tf_tensor__ = __getitem__ = __neg__ = __pos__ = __abs__ = __invert__ = _refuse_computation
    __lt__ = __le__ = __gt__ = __ge__ = __round__ = _refuse_computation
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_computation
    __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refuse_computation
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _refuse_computation
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = _refuse_computation
    __matmul__ = __rmatmul__ = assign_add = assign_sub = _refuse_computation

    # Stock optimizers read this before they make a slot as large as the variable.

    @property
    def _layout(self):
        refuse_optimizer(self.path)

    @_layout.setter
    def _layout(self, layout):
        pass
