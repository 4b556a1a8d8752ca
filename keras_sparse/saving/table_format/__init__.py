"""One way to write a table and one to read it, in files of Keras and in checkpoints."""
