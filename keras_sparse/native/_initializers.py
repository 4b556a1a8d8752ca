def initializer_attributes(initial_rows):
    """Returns the attributes by which native ops take a list of `InitialRows`, as a dict."""
    return {
        "initializers": [rows.kind for rows in initial_rows],
        "initializer_args": [arg for rows in initial_rows for arg in (rows.a, rows.b)],
        "seeds": [rows.seed for rows in initial_rows],
        "initializer_parts": [
            number
            for rows in initial_rows
            for number in (rows.first_column, rows.key_stride, rows.key_offset)
        ],
    }
