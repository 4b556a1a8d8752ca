import tensorflow as tf

from keras_sparse import native
from keras_sparse.distribute.ranks.broadcast_arrays import broadcast_pieces
from keras_sparse.distribute.ranks.collectives import broadcast_object
from keras_sparse.distribute.ranks.runtime import rank
from keras_sparse.utils.byte_sizes import CHUNK_BYTES


def broadcast_table(table, root_rank):
    """Gives a table that all ranks have the content that it has on one of them.

    That is what a checkpoint keeps of it: initial rows, the history of its rule, records as they
    lie in the tiers, and what its admission filter remembers. The table goes on with the same bits
    on all ranks. Rows that the root has not are gone.

    Args:
        table: `LocalTable`, of the same settings on all ranks.
        root_rank: Integer.
    """
    is_root = rank() == root_rank
    state = (table.initial_rows, _history(table)) if is_root else None
    initial_rows, history = broadcast_object(state, root_rank, "broadcast_table.state")
    if not is_root:
        table.set_initial_rows(initial_rows)
        native.restore(table, native.RuleHistory(*history))
        table.saved_state = None  # nothing here is what this rank has saved
    for keys, records in broadcast_pieces(_records(table), root_rank, "broadcast_table.rows"):
        if not is_root:
            table.import_(keys, records)
    waiting = table.export_filter(CHUNK_BYTES // 12)
    for keys, counts in broadcast_pieces(waiting, root_rank, "broadcast_table.filter"):
        if not is_root:
            native.import_filter([table], [keys], [counts])


def describe_table(table):
    """Returns what tables must have alike for one to take over the content of another: a string."""
    admission = table.admission
    settings = {
        "input_dim": table.input_dim,
        "output_dim": table.output_dim,
        "rule": table.rule,
        "constants": table.rule_constants,
        "weight_decay": table.rule_weight_decay,
        "slots": table.slot_names,
        "ages": table.metadata.ages,
        "frequencies": table.metadata.frequencies,
        "admission": None if admission is None else admission.layout(),
    }
    return f"table({', '.join(f'{name}={value}' for name, value in settings.items())})"


def _history(table):
    with tf.init_scope():
        (history,) = native.export_history([table])
    return tuple(tensor.numpy() for tensor in history)


def _records(table):
    # A record is up to a few words wider than the row and its slots.
    max_rows = max(1, CHUNK_BYTES // (4 * table.record_floats + 16))
    cursor = 0
    while cursor >= 0:
        keys, records, cursor = native.export_raw(table, cursor, max_rows, False, False)
        cursor = int(cursor)
        if len(keys):
            yield keys.numpy(), records.numpy()
