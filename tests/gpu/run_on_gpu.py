"""Runs tests of tables in memory with tables in a GPU's memory (see tables_on_gpu.py).

python tests/gpu/run_on_gpu.py    on the GPU of this machine, or the emulated one
"""

import pathlib
import sys

import pytest

TESTS = pathlib.Path(__file__).parents[1]

# Of one process. Nearly all others pass so, too.
FILES = (
    "gpu/both_memories.py",
    "gpu/lower_tiers.py",
    "native/lookup_test.py",
    "native/apply_gradients_test.py",
    "native/lookup_gradient_test.py",
    "native/pooled_slices_test.py",
    "native/saved_rule_test.py",
    "native/staging_test.py",
    "data/prefetch_lookups_test.py",
    "optimizers/sparse_optimizer_test.py",
    "saving/checkpoint/checkpoint_delta_test.py",
    "tables/compact_test.py",
    "tables/embedding_variable_test.py",
    "tables/embedding_variable_part_test.py",
    "tables/variable_keys_test.py",
    "storage/occurrences_test.py::test_are_counted_by_a_bloom_filter",
    "storage/stacks_test.py",
    "docs/code_on_pages_test.py::test_blocks_run_one_after_another[docs/guide/gpu-memory.md]",
)
# Beginnings of tests that say nothing more of a GPU: of optimizers, which know of no stage.
LEFT_OUT = (
    "tests/data/prefetch_lookups_test.py::test_exact_training_is_that_without_it_for_each_optimizer",
    "tests/tables/compact_test.py::test_layers_have_it_for_all_their_tables",
    "tests/tables/compact_test.py::test_no_byte_is_left_of_rows_that_have_gone_or_come_up[DRAM",
    "tests/tables/variable_keys_test.py::test_rows_of_every_tier_are_found_written_and_erased[DRAM",
)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS / "gpu"))
    files = [f"{TESTS}/{name}" for name in FILES]
    options = ["-p", "tables_on_gpu", "-p", "no:cacheprovider"]
    options += [f"--deselect={each}" for each in LEFT_OUT]
    sys.exit(pytest.main([*options, *sys.argv[1:], *files]))
