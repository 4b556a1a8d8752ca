import prefetch_timeline


def test_shows_when_the_stage_works_beside_the_steps(capsys, tmp_path):
    picture = tmp_path / "made" / "timeline.svg"
    options = ["--picture", str(picture), "--rows", "3000", "--batch-size", "32"]
    traces = prefetch_timeline.main(options)
    assert list(traces) == list(prefetch_timeline.WAYS)
    for way, events in traces.items():
        numbers = {row: len(spans) for row, spans in events.items()}
        assert numbers["lookup"] == numbers["update"] == prefetch_timeline.NUM_STEPS
        assert numbers["dense"] >= prefetch_timeline.NUM_STEPS
        assert (numbers["stage"] > 0) == (way != "off")
        assert all(0 <= begin <= end for spans in events.values() for begin, end in spans)
    assert "exact" in capsys.readouterr().out
    assert picture.read_text().count("<svg") == 1
