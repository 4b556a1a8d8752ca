"""Runs tests of tables in memory with tables in a GPU's memory (see tables_on_gpu.py).

python tests/gpu/run_on_gpu.py            all of them: without a GPU, on the emulated one
python tests/gpu/run_on_gpu.py --short    on the GPU of this machine, some of each kind, and two
                                          ranks that share it where Horovod is installed

With `--seconds` the tests that would begin later are skipped. Other options are pytest's.
"""

import argparse
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import pytest

TESTS = pathlib.Path(__file__).parents[1]
IS_EMULATED = "EMULATED_BUILD_INFO" in os.environ

# Of one process. Nearly all others pass so, too.
FILES = (
    "gpu/both_memories.py",
    "gpu/cached_row_indices.py",
    "gpu/lower_tiers.py",
    "gpu/timeline.py",
    "native/lookup_test.py",
    "native/apply_gradients_test.py",
    "native/lookup_gradient_test.py",
    "native/pooled_slices_test.py",
    "native/saved_rule_test.py",
    "data/prefetch_lookups_test.py",
    "optimizers/sparse_optimizer_test.py",
    "saving/checkpoint/checkpoint_delta_test.py",
    "tables/compact_test.py",
    "tables/embedding_variable_test.py",
    "tables/embedding_variable_part_test.py",
    "tables/local_table_test.py",
    "storage/occurrences_test.py::test_are_counted_by_a_bloom_filter",
    "storage/stacks_test.py",
    "examples/dlrm_test.py::test_rows_in_gpu_memory_give_the_same",
    "docs/code_on_pages_test.py::test_blocks_run_one_after_another[docs/how-to/gpu-memory.md]",
)
# Beginnings of tests that say nothing more of a GPU: of optimizers, which know of no stage.
LEFT_OUT = (
    "tests/data/prefetch_lookups_test.py::test_exact_training_is_that_without_it_for_each_optimizer",
    "tests/tables/compact_test.py::test_layers_have_it_for_all_their_tables",
    "tests/tables/compact_test.py::test_no_byte_is_left_of_rows_that_have_gone_or_come_up[DRAM",
    "tests/tables/local_table_test.py::test_rows_of_every_tier_are_found_written_and_erased[DRAM",
)

# All of the above are more than five minutes of a GPU, and the emulated one runs them. What matters
# most comes first.
SHORT = (
    "gpu/both_memories.py",
    "gpu/cached_row_indices.py",
    "native/lookup_test.py",
    "native/apply_gradients_test.py",
    "native/lookup_gradient_test.py::test_gradients_arrive",
    "native/pooled_slices_test.py::test_optimizers_move_rows_by_the_same_sums",
    "gpu/lower_tiers.py",
    "gpu/timeline.py",
    "data/prefetch_lookups_test.py::test_exact_training_is_that_without_it_bit_for_bit",
    "tables/embedding_variable_test.py::test_exports_in_pieces_what_was_imported",
    "tables/embedding_variable_test.py::test_a_new_rule_gives_rows_fresh_slots",
    "tables/local_table_test.py::test_rows_of_every_tier_are_found_written_and_erased",
    "saving/checkpoint/checkpoint_delta_test.py::test_holds_the_keys_updated_since_the_last_save",
    "docs/code_on_pages_test.py::test_blocks_run_one_after_another[docs/how-to/gpu-memory.md]",
    "storage/stacks_test.py::test_every_optimizer",
    "native/saved_rule_test.py::test_a_restored_table_goes_on_as_the_saved_one",
)
# Of every optimizer; TensorFlow's kernels make the sums, and on the emulated GPU these do nothing.
ON_REAL_GPUS = (
    "optimizers/accumulation_test.py::test_is_one_step_of_all_their_samples",
    "optimizers/accumulation_test.py::test_what_a_variable_has_waits_for_its_next_gradient",
)
OF_RANKS = "gpu/tables_of_ranks.py"
# Of the time that there is, what the ranks may take.
PART_OF_RANKS = 0.4


class Budget:
    """A plugin of pytest, with which no test begins after so many seconds."""

    def __init__(self, seconds):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def pytest_runtest_setup(self, item):
        if time.monotonic() > self.end:
            pytest.skip(f"{self.seconds:.0f} s are over")


def run_two_ranks(seconds):
    """Tables of two ranks that share a GPU. Returns whether all has passed.

    Each process takes as much of the GPU's memory as it needs, for which no other may have it all.
    """
    if importlib.util.find_spec("horovod") is None:
        print("Two ranks are left out: Horovod is not installed (make .venv/stamps/horovod)")
        return True
    from ranks import run_ranks

    with tempfile.TemporaryDirectory() as folder:
        # What one process has saved, for both to go on from, and the other way round.
        if not run_one_process(folder, "begin=of1"):
            return False
        os.environ |= {"SAVED": folder, "PYTHONPATH": str(TESTS / "gpu")}
        options = ("-q", "-p", "tables_on_gpu", "-p", "no:cacheprovider", "--durations=5")
        options += ("--basetemp", f"{folder}/rank")
        tests = ("-m", "pytest", *options, TESTS / OF_RANKS)
        try:
            status, printed = run_ranks(2, *tests, seconds=seconds, fresh=True)
        except pytest.fail.Exception as error:  # of their time
            status, printed = 1, error
        print(printed, flush=True)
        return status == 0 and run_one_process(folder, "load=of2")


def run_one_process(folder, step):
    """A step of a training in memory, without a GPU. Returns whether it has passed."""
    command = [sys.executable, TESTS / "support" / "saving_ranks.py", folder, step]
    without_gpu = os.environ | {"CUDA_VISIBLE_DEVICES": "", "FAKE_GPUS": "0"}
    return subprocess.run(command, env=without_gpu).returncode == 0


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    parser.add_argument("--short", action="store_true", help="some tests of each kind, and ranks")
    parser.add_argument("--seconds", type=float, default=3600, help="begin none after these")
    options, of_pytest = parser.parse_known_args(arguments)
    sys.path[:0] = [str(TESTS / "gpu"), str(TESTS / "support")]
    start = time.monotonic()
    names, have_passed = FILES, True
    if options.short:
        names = SHORT if IS_EMULATED else SHORT + ON_REAL_GPUS
        have_passed = run_two_ranks(int(PART_OF_RANKS * options.seconds))
    budget = Budget(options.seconds - (time.monotonic() - start))
    command = ["-p", "tables_on_gpu", "-p", "no:cacheprovider"]
    command += [f"--deselect={each}" for each in LEFT_OUT]
    status = pytest.main([*command, *of_pytest, *(f"{TESTS}/{each}" for each in names)], [budget])
    if not have_passed:
        print("Two ranks on the GPU have failed, see above")
    return status or int(not have_passed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
