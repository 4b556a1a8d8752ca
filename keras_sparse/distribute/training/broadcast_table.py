import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.broadcast_arrays import broadcast_pieces
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


def broadcast_table(variable, root_rank):
    """Gives a table that all ranks have the content that it has on one of them.

    That is what a checkpoint keeps of it: initial rows, the history of its rule, records as they
    lie in the tiers, and what its admission filter remembers. The table goes on with the same bits
    on all ranks. Rows that the root has not are gone.

    Args:
        variable: `EmbeddingVariable`, of the same settings on all ranks.
        root_rank: Integer.
    """
    is_root = rank() == root_rank
    state = (variable.initial_rows, _history(variable)) if is_root else None
    initial_rows, history = broadcast_object(state, root_rank, "broadcast_table.state")
    if not is_root:
        variable.set_initial_rows(initial_rows)
        native.restore(variable, native.RuleHistory(*history))
        variable.saved_state = None  # nothing here is what this rank has saved
    for keys, records in broadcast_pieces(_records(variable), root_rank, "broadcast_table.rows"):
        if not is_root:
            variable.import_(keys, records)
    waiting = variable.export_filter(CHUNK_BYTES // 12)
    for keys, counts in broadcast_pieces(waiting, root_rank, "broadcast_table.filter"):
        if not is_root:
            native.import_filter([variable], [keys], [counts])


def describe_table(variable):
    """Returns what tables must have alike for one to take over the content of another: a string."""
    admission = variable.admission
    settings = {
        "input_dim": variable.input_dim,
        "output_dim": variable.output_dim,
        "rule": variable.rule,
        "constants": variable.rule_constants,
        "weight_decay": variable.rule_weight_decay,
        "slots": variable.slot_names,
        "ages": variable.metadata.ages,
        "frequencies": variable.metadata.frequencies,
        "admission": None if admission is None else admission.layout(),
    }
    return f"table({', '.join(f'{name}={value}' for name, value in settings.items())})"


def _history(variable):
    with tf.init_scope():
        (history,) = native.export_history([variable])
    return tuple(tensor.numpy() for tensor in history)


def _records(variable):
    # A record is up to a few words wider than the row and its slots.
    max_rows = max(1, CHUNK_BYTES // (4 * variable.record_floats + 16))
    cursor = 0
    while cursor >= 0:
        keys, records, cursor = native.export_raw(variable, cursor, max_rows, False, False)
        cursor = int(cursor)
        if len(keys):
            yield keys.numpy(), records.numpy()
