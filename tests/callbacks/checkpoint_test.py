import keras
import numpy as np
import pytest

from checkpoint_cases import content
from checkpoint_cases import make_model
from keras_sparse.callbacks import Checkpoint

IDS = np.random.default_rng(0).integers(0, 3000, (80, 2))
TARGETS = np.random.default_rng(1).normal(size=(80, 1))


def fit(model, callbacks=(), epochs=3):
    """Ten steps an epoch."""
    return model.fit(
        IDS, TARGETS, batch_size=8, epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks
    )


def names(folder):
    return sorted(path.name for path in folder.iterdir())


class PowerCut(keras.callbacks.Callback):
    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if int(self.model.optimizer.iterations) == self.step:
            raise KeyboardInterrupt


def test_saves_each_epoch_and_at_the_end(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path)])
    assert names(tmp_path) == ["step-000000010", "step-000000020", "step-000000030"]


def test_saves_every_few_steps_with_deltas_between_and_removes_old_ones(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path, every_steps=8, delta_every=3, keep=2)])
    assert names(tmp_path) == [
        "step-000000024",
        "step-000000027-delta",
        "step-000000030",
        "step-000000030-delta",
    ]


def test_the_first_delta_is_a_checkpoint(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path, every_steps=8, delta_every=3)], epochs=1)
    assert names(tmp_path) == [
        "step-000000003",
        "step-000000006-delta",
        "step-000000008",
        "step-000000009-delta",
        "step-000000010",
    ]


@pytest.mark.parametrize("step", [10, 14, 19])
@pytest.mark.parametrize("options", [{}, {"every_steps": 10, "delta_every": 3}])
def test_goes_on_where_it_was_cut_off(options, step, tmp_path):
    """Epochs that were saved at their end do not come again; one that was cut off does."""
    cut = make_model()
    with pytest.raises(KeyboardInterrupt):
        fit(cut, [Checkpoint(tmp_path, **options), PowerCut(step)])
    # Steps of the epoch that was cut off, before the last save.
    seen = max([int(name[5:14]) for name in names(tmp_path)], default=0) % 10
    resumed = make_model()
    fit(resumed, [Checkpoint(tmp_path, **options)])
    expected = make_model()
    if seen > 0:
        fit(expected, epochs=step // 10)
        kept = slice(0, 8 * seen)
        expected.fit(IDS[kept], TARGETS[kept], batch_size=8, shuffle=False, verbose=0)
        fit(expected, epochs=3 - step // 10)
    else:
        fit(expected, epochs=3)
    assert content(resumed) == content(expected)


def test_a_finished_training_is_not_done_again(tmp_path):
    model = make_model()
    fit(model, [Checkpoint(tmp_path)])
    again = make_model()
    history = fit(again, [Checkpoint(tmp_path)])
    assert history.epoch == []
    assert content(again) == content(model)


def test_a_second_fit_of_a_model_goes_on_with_it(tmp_path):
    model = make_model()
    callback = Checkpoint(tmp_path)
    for _ in range(2):
        fit(model, [callback], epochs=1)
    expected = make_model()
    fit(expected, epochs=2)
    assert content(model) == content(expected)
    assert names(tmp_path) == ["step-000000010", "step-000000020"]


def test_a_damaged_checkpoint_is_put_aside(tmp_path):
    model = make_model()
    fit(model, [Checkpoint(tmp_path)], epochs=2)
    (tmp_path / "step-000000020" / "model.weights.h5").write_text("nothing")
    resumed = make_model()
    with pytest.warns(UserWarning, match="put aside: A checkpoint must have all its files"):
        fit(resumed, [Checkpoint(tmp_path)], epochs=2)
    assert names(tmp_path) == ["step-000000010", "step-000000020", "step-000000020.damaged"]
    assert content(resumed) == content(model)


def test_what_a_killed_process_left_is_removed(tmp_path):
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    (tmp_path / ".step-000000020.0123.partial").mkdir()
    (tmp_path / "step-000000005").mkdir()  # its manifest was removed first
    (tmp_path / "notes").mkdir()
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    assert names(tmp_path) == ["notes", "step-000000010"]


def test_bad_arguments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="`delta_every` must be below `every_steps`"):
        Checkpoint(tmp_path, every_steps=5, delta_every=5)
    with pytest.raises(ValueError, match="`every_steps` must be"):
        Checkpoint(tmp_path, every_steps=0)
    with pytest.raises(ValueError, match="`keep` must be"):
        Checkpoint(tmp_path, keep=0)
    fit(make_model(), [Checkpoint(tmp_path)], epochs=1)
    with pytest.raises(ValueError, match="without checkpoints if `resume` is off"):
        fit(make_model(), [Checkpoint(tmp_path, resume=False)], epochs=1)
