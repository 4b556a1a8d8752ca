import numpy as np

from benchmarks.gpu import timeline
from benchmarks.synthetic.models import SyntheticModel
from benchmarks.synthetic.models import TableGroup


def work(name, called, returned, began=0, ended=0, num_bytes=0):
    times = {"called": called, "returned": returned, "began": began, "ended": ended}
    return {"name": name, "bytes": num_bytes} | {at: 1000 * us for at, us in times.items()}


def test_a_table_adds_up_a_step():
    facts = {
        "steps": [(0, 1_000_000), (2_000_000, 3_000_000)],
        "works": [
            work("copy to the GPU", -20, -10, -15, -10, 64),  # of the step that warms up
            work("copy to the GPU", 0, 10, 5, 25, 2_000_000),
            work("StaticRowsKernel", 20, 30, 25, 125),
            work("wait", 30, 130),
            work("UpdateKernel", 300, 310, 425, 825),
            work("StaticRowsKernel", 2020, 2030, 2025, 2325),
            work("NewKernel", 2030, 2040, 2325, 2345),
        ],
        "lookups": [
            {"row": 32, "record": 64, "rows": 10, "bags": 800}
            | {"ids": 100_000, "distinct": 10, "frequent": 99_000}
        ],
    }
    lines = timeline.table(facts, copy_rate=60).splitlines()
    assert [line.split() for line in lines[1:5]] == [
        ["StaticRowsKernel", "1", "0.200", "0.010", "1.200", "10%"],
        ["UpdateKernel", "0.5", "0.200", "0.005", "0.035", "0%"],
        ["copy", "to", "the", "GPU", "0.5", "0.010", "0.005", "1.000"],
        ["NewKernel", "0.5", "0.010", "0.005"],
    ]
    assert lines[5:] == [
        "A step of 1.000 ms has 2.5 of these, 0.420 ms of the GPU; 0.430 ms are before the first "
        "and after the last.",
        "Between them are 0.150 ms, 0.087 before the CPU asked for the next; the longest of 0.300 "
        "ms before UpdateKernel.",
        "The CPU waits 0.5 times, 0.050 ms; 0.5 after StaticRowsKernel, 0.050",
    ]
    assert timeline.table(facts).splitlines()[1].split()[-1] == "1.200"  # no rate, no share


def test_names_are_those_of_functions():
    names = {
        "keras_sparse::cuda_impl::(anonymous namespace)::RowsKernel(View, int*)": "RowsKernel",
        "void keras_sparse::UpdateKernel<keras_sparse::Sgd, 8, f<1>>(A<B>*)": "UpdateKernel",
        "copy to the GPU": "copy to the GPU",
        "wait": "wait",
    }
    assert {name: timeline.short_name(name) for name in names} == names


def test_lookups_are_counted_by_width():
    groups = (TableGroup(1, 1000, 8, (1, 2)), TableGroup(1, 10, 4), TableGroup(1, 20, 8))
    model = SyntheticModel("test", groups, num_numerical=0, units=(), gpu_ms={})
    inputs = [np.arange(300), np.zeros(600, int), np.arange(300) % 3, np.full(300, 7)]
    assert timeline.lookups_of(model, np.concatenate(inputs), 300, num_slots=1) == [
        {"row": 32, "record": 64, "rows": 1020, "ids": 1200, "bags": 900}
        | {"distinct": 301, "frequent": 901},
        {"row": 16, "record": 32, "rows": 10, "ids": 300, "bags": 300, "distinct": 3}
        | {"frequent": 0},
    ]
