"""Tables in ops of TensorFlow alone, as SavedModels have them."""
