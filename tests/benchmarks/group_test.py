import re

from benchmarks import group


def test_shows_each_way_and_what_a_table_costs():
    small = ["--tables", "1", "3", "--batch-size", "8", "--rounds", "1", "--steps", "2"]
    text = group.main([*small, "--most-one-by-one", "1"])
    rows = [re.split(r" *\| *", line)[1:-1] for line in text.splitlines() if line.startswith("| ")]
    rows = [row for row in rows if row[0] != "tables"]
    assert [(row[0], row[1]) for row in rows] == 2 * [
        ("1", "forward"),
        ("1", "adagrad"),
        ("3", "forward"),
        ("3", "adagrad"),
    ]
    for row in rows:
        assert float(row[2]) > 0
        assert float(row[6]) > 0
        assert bool(row[3]) == bool(row[4]) == bool(row[5]) == (row[0] == "1")
