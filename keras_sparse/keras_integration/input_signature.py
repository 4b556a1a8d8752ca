"""Signatures of models with ragged or sparse inputs, which Keras writes as if these were dense."""

import functools
import inspect
from typing import Any

import keras
import tensorflow as tf
from keras.src.export.export_utils import make_tf_tensor_spec

_COMPONENTS = {
    tf.RaggedTensorSpec: ("values", "row_splits"),
    tf.SparseTensorSpec: ("indices", "values", "dense_shape"),
}


def has_tables(model):
    """Returns whether a model has tables or an IntegerLookup: by what a SavedModel asks of them."""
    return any(hasattr(type(each), "saved_table") for each in model.variables) or any(
        hasattr(type(each), "saved_index") for each in model._flatten_layers()
    )


def composite_signature(model):
    """Returns the signature of a model with tables and declared ragged or sparse inputs.

    Args:
        model: `keras.Model`.

    Returns:
        List with the structure of each argument, of `keras.KerasTensor`. `None` for other models,
        whose signature Keras knows.

    Raises:
        ValueError: The inputs may have been ragged: Keras has noted a shape of them alone.
    """
    if not has_tables(model):
        return None
    declared = _declared_inputs(model)
    shapes = getattr(model, "_build_shapes_dict", None) or {}
    if not declared and any(None in shape[1:] for shape in _shapes(shapes)):
        raise ValueError(
            "The signature of a model of your own class must be given if an input has an axis of "
            "any length: Keras does not note whether it is ragged. Export it by "
            "`model.export(path, input_signature=[tf.RaggedTensorSpec((None, None), tf.int64)])`, "
            f"with a spec for each argument. Received: model '{model.name}' with inputs of the "
            f"shapes {dict(shapes)}"
        )
    return declared if has_composites(declared) else None


def _shapes(structure):
    """Yields each shape in the dict that Keras has of a model's inputs."""
    children = [*structure.values()] if isinstance(structure, dict) else structure or ()
    if all(isinstance(each, (int, type(None))) for each in children):
        yield children
    else:
        for each in children:
            yield from _shapes(each)


def _declared_inputs(model):
    """Returns the one argument of a functional or sequential model, none of any other."""
    functional: Any = getattr(model, "_functional", None) or model
    return [functional.input] if hasattr(functional, "_inputs_struct") else []


def spec_of(x):
    """Returns the `tf.TypeSpec` of a tensor, a spec or a `keras.KerasTensor`, with any batch size.

    Keras' own function makes a dense one of all.
    """
    return _composite_spec(x) or make_tf_tensor_spec(x)


def _composite_spec(x):
    """Returns the spec of a ragged or sparse `keras.KerasTensor` or spec, or `None`."""
    if isinstance(x, (*_COMPONENTS,)):
        return x
    if getattr(x, "ragged", False):
        return tf.RaggedTensorSpec((None, *x.shape[1:]), x.dtype, x.ragged_rank or 1)
    if getattr(x, "sparse", False):
        return tf.SparseTensorSpec((None, *x.shape[1:]), x.dtype)
    return None


def has_composites(signature):
    """Returns whether a signature, or `None`, has a ragged or sparse input."""
    return any(_composite_spec(x) is not None for x in keras.tree.flatten(signature))


def knowing_inputs(save):
    """Returns `tf.saved_model.save` that writes the ragged and sparse inputs of a model as such."""

    @functools.wraps(save)
    def saving(obj, export_dir, signatures=None, *args, **kwargs):
        if isinstance(obj, keras.Model) and signatures is None:
            signature = composite_signature(obj)
            if signature:
                signatures = {"serving_default": by_components(obj.__call__, signature)}
        return save(obj, export_dir, signatures, *args, **kwargs)

    return saving


def by_components(function, signature):
    """Returns a `tf.function` of the named tensors that a function's arguments consist of.

    Outputs are split in the same way: C++ servers read dense tensors alone.
    """
    specs = keras.tree.map_structure(spec_of, signature)
    names = _names(getattr(function, "python_function", function), specs)
    leaves = keras.tree.flatten(specs)
    parts = [_components(*each) for each in zip(leaves, names, strict=True)]

    @tf.function(input_signature=[part for each in parts for part in each], autograph=False)
    def serving_default(*tensors):
        rest = iter(tensors)
        each_parts = [[next(rest) for _ in each] for each in parts]
        values = [_joined(*each) for each in zip(leaves, each_parts, strict=True)]
        return _taken_apart(function(*keras.tree.pack_sequence_as(specs, values)))

    return serving_default


def _names(function, specs):
    """Returns a name for each leaf: of its `keras.Input`, or of its argument and its keys there."""
    owner = getattr(function, "__self__", None)
    inputs = keras.tree.flatten_with_path(_declared_inputs(owner))
    paths = [path for path, _ in keras.tree.flatten_with_path(specs)]
    if [path for path, _ in inputs] == paths:
        return [x.name for _, x in inputs]
    arguments = dict(enumerate(inspect.signature(getattr(owner, "call", function)).parameters))
    names = []
    for place, *keys in paths:
        is_key_enough = len(specs) == 1 and keys and isinstance(keys[0], str)
        argument = arguments.get(place, f"args_{place}")
        names.append("_".join(map(str, keys if is_key_enough else [argument, *keys])))
    return names


def _components(spec, name):
    """Returns the `tf.TensorSpec` of each tensor that a value of this spec consists of."""
    if isinstance(spec, tf.TensorSpec):
        return [tf.TensorSpec(spec.shape, spec.dtype, spec.name or name)]
    parts = tf.nest.flatten(spec, expand_composites=True)
    words = [*_COMPONENTS[type(spec)], *(f"row_splits_{i}" for i in range(1, len(parts)))]
    return [
        tf.TensorSpec(part.shape, part.dtype, f"{name}_{word}")
        for part, word in zip(parts, words, strict=False)
    ]


def _joined(spec, tensors):
    if isinstance(spec, tf.RaggedTensorSpec):
        values, *splits = tensors
        return tf.RaggedTensor.from_nested_row_splits(values, splits)
    return tf.SparseTensor(*tensors) if isinstance(spec, tf.SparseTensorSpec) else tensors[0]


def _taken_apart(outputs):
    """Returns outputs by the names that TensorFlow gives them, those of their components added."""
    if not isinstance(outputs, dict):
        outputs = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        outputs = {f"output_{i}": each for i, each in enumerate(outputs)}
    tensors: dict = {}
    for name, each in outputs.items():
        if isinstance(each, (tf.RaggedTensor, tf.SparseTensor)):
            specs = _components(tf.type_spec_from_value(each), name)
            parts = tf.nest.flatten(each, expand_composites=True)
            tensors |= {spec.name: part for spec, part in zip(specs, parts, strict=True)}
        else:
            tensors[name] = each
    return tensors
