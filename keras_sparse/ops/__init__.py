"""One Python function, and the gradient, of each native op. All take lists: one element a table."""

from keras_sparse.native.checkpoint import apply_changes as apply_changes
from keras_sparse.native.checkpoint import erased_keys as erased_keys
from keras_sparse.native.checkpoint import export_raw as export_raw
from keras_sparse.native.checkpoint import link_files as link_files
from keras_sparse.native.checkpoint import mark_saved as mark_saved
from keras_sparse.native.checkpoint import read_segment as read_segment
from keras_sparse.native.checkpoint import restore as restore
from keras_sparse.native.checkpoint import snapshot_versions as snapshot_versions
from keras_sparse.native.gradients import apply_gradients as apply_gradients
from keras_sparse.native.gradients import check_room as check_room
from keras_sparse.native.gradients import check_updates as check_updates
from keras_sparse.native.gradients import merge_gradients as merge_gradients
from keras_sparse.native.gradients import pack_slices as pack_slices
from keras_sparse.native.gradients import refuse_step as refuse_step
from keras_sparse.native.gradients import unpack_slices as unpack_slices
from keras_sparse.native.lookup import COMBINERS as COMBINERS
from keras_sparse.native.lookup import lookup as lookup
from keras_sparse.native.owner import Owner as Owner
from keras_sparse.native.pooled_slices import PooledSlices as PooledSlices
from keras_sparse.native.rows import erase_rows as erase_rows
from keras_sparse.native.rows import evict_rows as evict_rows
from keras_sparse.native.rows import export_filter as export_filter
from keras_sparse.native.rows import export_rows as export_rows
from keras_sparse.native.rows import have_rows as have_rows
from keras_sparse.native.rows import import_filter as import_filter
from keras_sparse.native.rows import import_rows as import_rows
from keras_sparse.native.rows import promote_rows as promote_rows
from keras_sparse.native.rows import read_rows as read_rows
from keras_sparse.native.rule_history import export_history as export_history
from keras_sparse.native.rule_history import RuleHistory as RuleHistory
from keras_sparse.native.rule_history import SavedRule as SavedRule
from keras_sparse.native.staging import collect_lookups as collect_lookups
from keras_sparse.native.staging import create_lookup_stage as create_lookup_stage
from keras_sparse.native.staging import lookup_stage_state as lookup_stage_state
from keras_sparse.native.staging import lookups_by_memory as lookups_by_memory
from keras_sparse.native.staging import stage_lookups as stage_lookups
from keras_sparse.native.staging import STAGING_STATISTICS as STAGING_STATISTICS
from keras_sparse.native.staging import staging_stats as staging_stats
from keras_sparse.native.statistics import STATISTICS as STATISTICS
from keras_sparse.native.statistics import table_stats as table_stats
from keras_sparse.native.statistics import TIER_STATISTICS as TIER_STATISTICS
from keras_sparse.native.statistics import tier_stats as tier_stats
from keras_sparse.native.tables import clear_tables as clear_tables
from keras_sparse.native.tables import compact_tables as compact_tables
from keras_sparse.native.tables import create_tables as create_tables
from keras_sparse.native.tables import set_filter as set_filter
from keras_sparse.native.tables import set_initial_rows as set_initial_rows
from keras_sparse.native.tables import set_row_limit as set_row_limit
from keras_sparse.native.tables import set_rule as set_rule
from keras_sparse.native.tables import table_sizes as table_sizes
from keras_sparse.native.vocabulary import add_tokens as add_tokens
from keras_sparse.native.vocabulary import create_vocabulary as create_vocabulary
from keras_sparse.native.vocabulary import export_vocabulary as export_vocabulary
from keras_sparse.native.vocabulary import find_tokens as find_tokens
from keras_sparse.native.vocabulary import import_vocabulary as import_vocabulary
from keras_sparse.ops.embedding_lookup import embedding_lookup as embedding_lookup
from keras_sparse.ops.embedding_lookup_sparse import (
    embedding_lookup_sparse as embedding_lookup_sparse,
)
from keras_sparse.ops.group_embedding_lookup import group_embedding_lookup as group_embedding_lookup
from keras_sparse.ops.group_embedding_lookup_sparse import (
    group_embedding_lookup_sparse as group_embedding_lookup_sparse,
)
from keras_sparse.ops.safe_embedding_lookup_sparse import (
    safe_embedding_lookup_sparse as safe_embedding_lookup_sparse,
)
from keras_sparse.ops.sampled_softmax_loss import sampled_softmax_loss as sampled_softmax_loss
