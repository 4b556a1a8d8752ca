"""Tables in the `.keras` and `.h5` files of Keras."""
