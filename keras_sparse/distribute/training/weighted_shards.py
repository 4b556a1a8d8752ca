import tensorflow as tf


class WeightedShards(tf.experimental.ExtensionType):
    """The sample weights of a rank's part of a batch, times the share of the part.

    To TensorFlow and Keras they are the tensor of that product, which is what the loss of a part
    needs. `MetricAverage` takes them apart: what is reported is to have the weights alone. That
    cannot be told from a tensor, as samples may have had weights before.
    """

    weights: tf.Tensor
    share: tf.Tensor  # a scalar: n * b / B of a part of b of the B samples of a batch, on n ranks

    @property
    def shape(self):
        return self.weights.shape

    @property
    def dtype(self):
        return self.weights.dtype

    def __tf_tensor__(self, dtype=None, name=None):
        product = self.weights * tf.cast(self.share, self.weights.dtype)
        return product if dtype is None else tf.cast(product, dtype, name)

    def __array__(self, dtype=None, copy=None):
        return self.__tf_tensor__(dtype).numpy()

    def __getitem__(self, key):
        return tf.convert_to_tensor(self)[key]

    def __mul__(self, other):
        return tf.convert_to_tensor(self) * other

    __rmul__ = __mul__
