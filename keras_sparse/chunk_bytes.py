# What is copied of a table takes so much memory at a time, whatever the size of the table.
CHUNK_BYTES = 16 << 20
