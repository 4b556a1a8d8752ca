import json
import os
import subprocess
import sys
import textwrap

import pytest

SCRIPT = """
    import json, re, sys
    import keras
    import keras_sparse

    def peak_bytes():
        with open("/proc/self/status") as status:
            return int(re.search(r"VmHWM:\\s+(\\d+) kB", status.read()).group(1)) * 1024

    def reset_peak():
        with open("/proc/self/clear_refs", "w") as clear:
            clear.write("5")

    input_dim = json.loads(sys.argv[1])
    model = keras.Sequential([
        keras.Input((1,), dtype="int64"), keras_sparse.layers.Embedding(input_dim, 64, "sum")
    ])
    model.compile(keras_sparse.optimizers.Adagrad(0.1), loss="mse")
    model.optimizer.build(model.trainable_variables)
    table = model.layers[0].embeddings
    if input_dim is None:
        import numpy as np
        rows = np.ones((2**16, 64), "float32")
        for part in range(10):
            table.import_(np.arange(part, 10 * 2**16, 10), rows)
        del rows
    extra = {}
    for path in sys.argv[2:]:
        is_archive = path.endswith(".keras")
        steps = {
            "save": model.save if is_archive else model.save_weights,
            "load weights": model.load_weights,
        }
        for name, run in steps.items():
            reset_peak()
            before = peak_bytes()
            run(path)
            extra[f"{name} {path}"] = peak_bytes() - before
    print(json.dumps({"table": table.stats()["bytes"], "extra": extra}))
"""


@pytest.mark.slow("starts processes")
@pytest.mark.parametrize(
    ("input_dim", "names"),
    [(10 * 2**16, ["large.weights.h5"]), (None, ["large.weights.h5", "large.keras"])],
)
def test_saving_and_loading_take_little_memory_beside_the_table(input_dim, names, tmp_path):
    """But for `keras.saving.load_model`, where Keras reads a file whole if it takes the memory."""
    paths = [tmp_path / name for name in names]
    # Large blocks that are freed go back to the system: what the C library would keep of them is
    # another amount each time.
    environment = dict(os.environ, MALLOC_MMAP_THRESHOLD_=str(1 << 20))
    output = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCRIPT), json.dumps(input_dim), *paths],
        env=environment,
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    measured = json.loads(output.splitlines()[-1])
    assert measured["table"] > 300 << 20
    assert max(measured["extra"].values()) < 128 << 20, measured
    for path in paths:
        path.unlink()
