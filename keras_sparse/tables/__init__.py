"""`EmbeddingVariable`, the variable that a table is to Keras, and what it is made of."""
