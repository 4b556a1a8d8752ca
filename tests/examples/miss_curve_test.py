import pathlib

import miss_curve

GUIDE = pathlib.Path(__file__).parents[2] / "docs" / "guide"


def test_prints_what_the_guide_shows_and_draws_it(capsys, tmp_path):
    curves = miss_curve.main(["--picture", str(tmp_path / "made" / "curve.svg")])
    in_order, shuffled = curves.values()
    assert in_order.rows_for(0.95) * 10 < shuffled.rows_for(0.95)
    printed = capsys.readouterr().out
    guide = (GUIDE / "storage.md").read_text()
    assert f"```text\n{in_order}\n```" in guide
    assert str(shuffled) in printed
    assert f"{in_order.bytes_for(0.95, 64, 1) / 1e6:.1f} MB: storage_size[0]" in guide
    for curve in curves.values():
        assert f"{curve.rows_for(0.95):,}" in guide
    assert (tmp_path / "made" / "curve.svg").read_text().count("<svg") == 1
