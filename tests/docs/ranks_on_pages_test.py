import pathlib
import re

import pytest

from ranks import HOROVODRUN
from ranks import needs_horovod
from ranks import run_ranks

ROOT = pathlib.Path(__file__).parents[2]


@needs_horovod
@pytest.mark.slow("starts processes")
def test_two_ranks_print_the_auc_that_the_page_says(tmp_path):
    page = (ROOT / "docs/how-to/distributed.md").read_text()
    script = tmp_path / "train.py"
    script.write_text(re.search(r'```python title="train.py"\n(.*?)```', page, re.DOTALL)[1])
    (auc,) = re.findall(r"the same AUC, (\S+) after three epochs", page)
    status, printed = run_ranks(2, script, launcher=HOROVODRUN)
    assert status == 0, printed
    assert re.findall(r"AUC: (\S+)", printed)[2:] == [auc], printed
