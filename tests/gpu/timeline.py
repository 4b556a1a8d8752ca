"""Tests the trace of a step of tables in a GPU's memory. Run by run_on_gpu.py."""

import json
import os
import pathlib
import re
import sys
from unittest import mock

# Benchmarks lie beside the package, not in it.
sys.path.insert(0, str(pathlib.Path(__file__).parents[2]))
from benchmarks import synthetic_models


def test_a_timeline_names_all_work_of_a_step(tmp_path):
    options = "--scale 1e-4 --batch_size 64 --make_rows batch --num_data_batches 1 --num_steps 1"
    path = tmp_path / "facts.json"
    with mock.patch.dict(os.environ):
        text = synthetic_models.main(
            [*options.split(), "--no-bandwidth", "--storage=HBM", "--trace=2", f"--json={path}"]
        )
    assert re.search(r"\nUpdateKernel +\d+ ", text)
    facts = json.loads(path.read_text())["trace"]
    steps = [
        [each["name"] for each in facts["works"] if begin <= each["called"] < end]
        for begin, end in facts["steps"]
    ]
    assert sorted(steps[0]) == sorted(steps[1])  # threads enqueue in any order
    for name in set(steps[0]):  # waits for all work of the GPU, "wait", are none of them
        assert re.fullmatch(
            r"\w+Kernel|SortPairs|Flagged|copy (to|from) the GPU|fill|wait for a copy", name
        )
