import pytest

from benchmarks import chart

PAGE = (chart.DOCS / "benchmarks.md").read_text()
RESULTS = (chart.DOCS / "benchmarks" / "results.md").read_text()


@pytest.mark.parametrize(("column", "workload"), [*enumerate(chart.WORKLOADS, 1)])
def test_the_table_of_the_page_has_the_numbers_of_the_picture(column, workload):
    rows = [line.split("|")[1:-1] for line in PAGE.splitlines() if line.startswith("| ")]
    shown = {row[0].strip(): row[column].split("(")[0].strip() for row in rows if len(row) == 4}
    times = chart.step_times(RESULTS, workload)
    assert times.keys() >= chart.PEERS.keys()
    names = {
        "plain C++, huge pages": "plain C++ with prefetching, huge pages",
        "FBGEMM TBE": "FBGEMM on CPU",
        "torch sparse": "torch, sparse gradients",
    }
    for peer in chart.PEERS:
        assert float(shown[names.get(peer, peer)]) == times[peer]
