import pytest

import prefetch_timeline
from stages import until_used


@pytest.mark.slow("example")
def test_shows_when_the_stage_works_beside_the_steps(capsys, tmp_path):
    picture = tmp_path / "made" / "timeline.svg"
    options = ["--picture", str(picture), "--rows", "3000", "--batch-size", "32"]

    def run(_):
        traces = prefetch_timeline.main(options)
        assert list(traces) == list(prefetch_timeline.WAYS)
        for events in traces.values():
            numbers = {row: len(spans) for row, spans in events.items()}
            assert numbers["lookup"] == numbers["update"] == prefetch_timeline.NUM_STEPS
            assert numbers["dense"] >= prefetch_timeline.NUM_STEPS
            assert all(0 <= begin <= end for spans in events.values() for begin, end in spans)
        off, *ahead = (len(events["stage"]) for events in traces.values())
        assert off == 0
        return all(number > 0 for number in ahead)

    until_used(run)
    assert "exact" in capsys.readouterr().out
    assert picture.read_text().count("<svg") == 1
