"""One file a peer. Each has `build(workload, column)`, which a worker process calls."""
