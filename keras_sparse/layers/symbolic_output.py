import keras


class SymbolicOutput(keras.KerasTensor):
    """The symbolic output of a layer that is called later: at its first use, at the latest.

    Keras asks a tensor where it comes from when something is called with it. What that raises must
    not come earlier, as from a mask, or Keras keeps the state of the call that failed.

    Args:
        call: Function that is called at first use, and calls `set`.
        spec: `keras.KerasTensor` of the same shape and dtype.
        mask: `keras.KerasTensor` of its mask, or `None`.
    """

    def __init__(self, call, spec, mask):
        super().__init__(spec.shape, spec.dtype, ragged=spec.ragged)
        self._keras_mask = mask
        self._call = call
        self._symbol = None

    def set(self, symbol):
        """Takes the place of a layer's output, in the graph of calls too."""
        self._symbol = symbol
        operation, node, place = symbol._keras_history
        operation._inbound_nodes[node].outputs[place] = self

    def _called(self):
        if self._symbol is None:
            self._call()
        return self._symbol

    @property
    def _keras_history(self):
        return self._called()._keras_history

    @_keras_history.setter
    def _keras_history(self, history):
        self._called()._keras_history = history  # Keras does so when it saves a model
