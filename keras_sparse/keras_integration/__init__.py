"""What replaces attributes of Keras and TensorFlow, and stands between them and tables."""
