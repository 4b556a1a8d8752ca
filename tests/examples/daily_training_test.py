import numpy as np
import pytest

import daily_training


@pytest.mark.slow("example")
def test_days_are_trained_on_once_each_and_served(tmp_path, capsys):
    trained, served, careful, went_back = daily_training.main(["--folder", str(tmp_path)])
    expected, by_day = daily_training.make_model(), []
    asked = daily_training.data_of(daily_training.DAYS - 1)[0]
    for day in range(daily_training.DAYS):
        expected.fit(*daily_training.data_of(day), 32, shuffle=False, verbose=0)
        by_day.append(expected.predict(asked, verbose=0))
    np.testing.assert_array_equal(trained, by_day[-1])
    np.testing.assert_array_equal(served, by_day[-1])
    np.testing.assert_array_equal(careful, by_day[-2])
    np.testing.assert_array_equal(went_back, by_day[-2])
    printed = capsys.readouterr().out
    assert printed.count("was cut off") == printed.count("Going on from") == 3
    assert printed.count("Beginning from") == 2
    assert "day 2: 75 steps are served, from day-2\nwent back to day-1, 50 steps" in printed
