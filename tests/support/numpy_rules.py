"""The rules of the optimizers in float64, as their documentation states them.

A rule changes `state` in place, `(4, rows, dim)`: the rows and up to three slots. `g` are the
gradients, zeros where a row has none, and `step` counts from 1. Numbers that Keras rounds to
float32 are rounded here: with a beta of 0.999 that shows in the fifth digit of a move.
"""

import numpy as np


def f32(x):
    return np.float64(np.float32(x))


def adam_alpha(rate, beta_1, beta_2, step):
    return rate * np.sqrt(1 - f32(beta_2) ** step) / (1 - f32(beta_1) ** step)


def sgd(state, g, step, rate, momentum=0.0, nesterov=False):
    row, velocity = state[:2]
    velocity *= f32(momentum)
    velocity -= rate * g
    row += f32(momentum) * velocity - rate * g if nesterov else velocity


def adagrad(state, g, step, rate, initial_accumulator_value=0.1, epsilon=1e-7):
    row, accumulator = state[:2]
    accumulator += g**2
    row -= np.where(g == 0, 0, rate * g / np.sqrt(accumulator + epsilon))


def adagrad_decay(
    state,
    g,
    step,
    rate,
    initial_accumulator_value=0.1,
    epsilon=1e-7,
    accumulator_decay_step=100000,
    accumulator_decay_rate=0.9,
):
    if step % accumulator_decay_step == 0:
        state[1] = np.maximum(state[1] * accumulator_decay_rate, initial_accumulator_value)
    adagrad(state, g, step, rate, epsilon=epsilon)


def row_wise_adagrad(state, g, step, rate, initial_accumulator_value=0.1, epsilon=1e-7):
    row, accumulator = state[:2]
    accumulator += np.mean(g**2, axis=-1, keepdims=True)
    row -= rate * g / np.sqrt(accumulator + epsilon)


def rmsprop(state, g, step, rate, rho=0.9, momentum=0.0, epsilon=1e-7, centered=False):
    row, velocity, moving, average = state
    velocity += (1 - f32(rho)) * (g**2 - velocity)
    average += (1 - f32(rho)) * (g - average)
    variance = velocity - average**2 if centered else velocity
    moving *= f32(momentum)
    moving += rate * g / np.sqrt(variance + epsilon)
    row -= moving


def adam(state, g, step, rate, beta_1=0.9, beta_2=0.999, epsilon=1e-7, amsgrad=False):
    row, momentum, velocity, velocity_hat = state
    momentum += (g - momentum) * f32(1 - beta_1)
    velocity += (g**2 - velocity) * f32(1 - beta_2)
    np.maximum(velocity_hat, velocity, out=velocity_hat)
    alpha = adam_alpha(rate, beta_1, beta_2, step)
    row -= alpha * momentum / (np.sqrt(velocity_hat if amsgrad else velocity) + epsilon)


def adam_async_rmsprop(state, g, step, rate, beta_1, beta_2, epsilon, apply_sparse_rmsprop):
    rmsprop(state, g, step, rate, beta_2, beta_1, epsilon)


def adamax(state, g, step, rate, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    row, momentum, norm = state[:3]
    momentum += (g - momentum) * f32(1 - beta_1)
    np.maximum(f32(beta_2) * norm, np.abs(g), out=norm)
    row -= rate / (1 - f32(beta_1) ** step) * momentum / (norm + epsilon)


def nadam(state, g, step, rate, beta_1=0.9, beta_2=0.999, epsilon=1e-7):
    row, momentum, velocity = state[:3]
    u = f32(beta_1) * (1 - 0.5 * f32(0.96) ** np.arange(1, step + 2))
    momentum += (g - momentum) * (1 - f32(beta_1))
    velocity += (g**2 - velocity) * (1 - f32(beta_2))
    m = u[-1] * momentum / (1 - np.prod(u)) + (1 - u[-2]) * g / (1 - np.prod(u[:-1]))
    row -= rate * m / (np.sqrt(velocity / (1 - f32(beta_2) ** step)) + epsilon)


def adadelta(state, g, step, rate, rho=0.95, epsilon=1e-7):
    row, accumulated_grad, accumulated_delta = state[:3]
    accumulated_grad += (1 - f32(rho)) * (g**2 - accumulated_grad)
    delta = np.sqrt(accumulated_delta + epsilon) * g / np.sqrt(accumulated_grad + epsilon)
    accumulated_delta += (1 - f32(rho)) * (delta**2 - accumulated_delta)
    row -= rate * delta


def lion(state, g, step, rate, beta_1=0.9, beta_2=0.99):
    row, momentum = state[:2]
    row -= rate * np.sign(f32(beta_1) * momentum + (1 - f32(beta_1)) * g)
    momentum *= f32(beta_2)
    momentum += (1 - f32(beta_2)) * g


def ftrl(
    state,
    g,
    step,
    rate,
    learning_rate_power=-0.5,
    initial_accumulator_value=0.1,
    l1_regularization_strength=0.0,
    l2_regularization_strength=0.0,
    l2_shrinkage_regularization_strength=0.0,
    beta=0.0,
):
    row, accumulator, linear = state[:3]
    power = accumulator**-learning_rate_power
    accumulator += g**2
    new_power = accumulator**-learning_rate_power
    linear += g + 2 * l2_shrinkage_regularization_strength * row
    linear -= (new_power - power) / rate * row
    l1 = l1_regularization_strength
    l2 = l2_regularization_strength + beta / (2 * rate)
    row[...] = (np.clip(linear, -l1, l1) - linear) / (new_power / rate + 2 * l2)
