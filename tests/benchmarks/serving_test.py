from benchmarks import serving


def test_many_tables_are_timed_beside_those_of_keras(in_this_process, monkeypatch):
    in_this_process(serving)
    monkeypatch.setattr(serving, "REPEATS", 2)
    head, _, *rows = serving.main(["--tables", "2"]).splitlines()
    cells = [[each.strip() for each in row.strip("|").split("|")] for row in rows]
    kinds = [serving.KERAS, serving.STATIC, serving.DYNAMIC, serving.UNSEEN]
    assert [row[:2] for row in cells] == [["2", kind] for kind in kinds]
    assert {len(row) for row in cells} == {len(head.strip("|").split("|"))}
    assert cells[0][3] == cells[0][-1] == "1.00"
