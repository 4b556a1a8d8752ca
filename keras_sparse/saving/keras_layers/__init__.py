"""Models with tables as models of Keras' own layers."""
