import keras
from keras import ops


@keras.saving.register_keras_serializable(package="dlrm")
class WarmupThenDecay(keras.optimizers.schedules.LearningRateSchedule):
    """MLPerf's schedule: linear warm-up, constant, then polynomial decay down to 0, as NVIDIA's.

        step < warmup_steps:      learning_rate * step / warmup_steps
        step < decay_start_step:  learning_rate
        then:                     learning_rate * ((decay_end - step) / decay_steps) ** power

    with `decay_end = decay_start_step + decay_steps`, after which it is 0.

    Args:
        learning_rate: Float. The highest.
        warmup_steps, decay_start_step, decay_steps: Integers.
        power: Float. Defaults to 2.
    """

    def __init__(self, learning_rate, warmup_steps, decay_start_step, decay_steps, power=2.0):
        super().__init__()
        if not 0 <= warmup_steps <= decay_start_step or decay_steps < 1:
            raise ValueError(
                "the decay must begin after the warm-up and take at least one step. Received: "
                f"warmup_steps={warmup_steps}, decay_start_step={decay_start_step}, "
                f"decay_steps={decay_steps}"
            )
        self.learning_rate = learning_rate
        self.warmup_steps = warmup_steps
        self.decay_start_step = decay_start_step
        self.decay_steps = decay_steps
        self.power = power

    @classmethod
    def in_proportion(cls, learning_rate, num_steps):
        """As in MLPerf's 64,000 steps: 8,000 warm up, 24,000 of decay begin at step 48,000."""
        warmup, start = num_steps // 8, num_steps * 3 // 4
        return cls(learning_rate, warmup, start, max(1, num_steps * 3 // 8))

    def __call__(self, step):
        step = ops.cast(step, "float32")
        rising = step / max(1, self.warmup_steps)
        left = (self.decay_start_step + self.decay_steps - step) / self.decay_steps
        falling = ops.power(ops.clip(left, 0.0, 1.0), self.power)
        return self.learning_rate * ops.where(step < self.warmup_steps, rising, falling)

    def get_config(self):
        names = ("learning_rate", "warmup_steps", "decay_start_step", "decay_steps", "power")
        return {name: getattr(self, name) for name in names}
