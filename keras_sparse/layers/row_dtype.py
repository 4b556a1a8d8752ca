from keras_sparse import native


def row_dtype(compute_dtypes, forms):
    """Returns what a lookup is to write its rows in: what its outputs are to be, where it can.

    Args:
        compute_dtypes: List of strings, one an input: what its output is to be.
        forms: List of `RaggedForm`, one an input.

    Returns:
        String, one of `ROW_DTYPES`. `"float32"` where outputs are to be of several dtypes or of
        another one, or are made of rows that still have to be multiplied by weights.
    """
    first = compute_dtypes[0]
    is_same = first in native.ROW_DTYPES and all(each == first for each in compute_dtypes)
    are_done = all(form.weights is None or form.row_splits is not None for form in forms)
    return first if is_same and are_done else "float32"
