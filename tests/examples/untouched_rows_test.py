import numpy as np
import pytest

import untouched_rows


@pytest.mark.slow("example")
def test_dense_semantics_follow_keras_and_the_others_do_not(capsys, tmp_path):
    curves = untouched_rows.main(["--picture", str(tmp_path / "made" / "rows.svg")])
    for lines in curves.values():
        keras_values, ours, other = lines.values()
        assert len(keras_values) == untouched_rows.STEPS
        np.testing.assert_allclose(ours, keras_values, rtol=0, atol=2e-6)
        assert np.abs(other - keras_values).max() > 0.1
    assert "Adam: LazyAdam ends at" in capsys.readouterr().out
    assert (tmp_path / "made" / "rows.svg").read_text().count("<svg") == 1
