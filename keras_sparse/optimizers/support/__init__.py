"""What optimizers share: checks, and gradients of rows in the lists that go through Keras."""
