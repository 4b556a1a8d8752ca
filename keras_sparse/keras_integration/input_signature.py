"""Signatures of models with ragged or sparse inputs, which Keras writes as if these were dense."""

import functools
import inspect
from typing import Any

import keras
import tensorflow as tf
from keras.src.export.export_utils import make_tf_tensor_spec

from keras_sparse.saved_model.saved_model_scope import is_for_saved_model
from keras_sparse.saved_model.saved_model_scope import is_writing_archive

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
    """Returns the signature of a model with tables and ragged or sparse inputs, `None` for others.

    Its inputs are those that a `keras.Input` declares so, or that the model was called with.

    Args:
        model: `keras.Model`.

    Returns:
        List with the structure of each argument, of `keras.KerasTensor` or `tf.TypeSpec`.

    Raises:
        ValueError: The model was called with such inputs in a way that gives no signature.
    """
    if not has_tables(model):
        return None
    declared = _declared_inputs(model)
    called = vars(model).get("specs_of_call", [])
    if called is None and not _num_composites(declared):
        raise ValueError(
            "The signature of a model with ragged or sparse inputs must be known. Call it once "
            "with tensors alone, as its first arguments, or export it by `model.export(path, "
            "input_signature=[tf.RaggedTensorSpec((None, None), tf.int64)])`, with a spec for each "
            f"argument. Received: model '{model.name}', called with other arguments beside them"
        )
    signature = max(declared, called or [], key=_num_composites)
    return signature if _num_composites(signature) else None


def _declared_inputs(model):
    """Returns the one argument of a functional or sequential model, none of any other."""
    functional: Any = getattr(model, "_functional", None) or model
    return [functional.input] if hasattr(functional, "_inputs_struct") else []


def remembering_calls(call):
    """Returns `keras.Model.__call__` that `composite_signature` knows the ragged inputs of."""

    @functools.wraps(call)
    def calling(model, *args, **kwargs):
        leaves = keras.tree.flatten((args, kwargs))
        is_composite = any(isinstance(x, (tf.RaggedTensor, tf.SparseTensor)) for x in leaves)
        if is_composite and not is_for_saved_model():
            vars(model)["specs_of_call"] = _specs_of_call(model, args, kwargs)  # not tracked
        return call(model, *args, **kwargs)

    return calling


def _specs_of_call(model, args, kwargs):
    """Returns a spec for each argument, or `None` unless tensors are the first arguments."""
    names = [*inspect.signature(model.call).parameters]
    places = {names.index(name): each for name, each in kwargs.items() if name in names}
    places |= dict(enumerate(args))
    options = (bool, str, type(None))
    data = [place for place in sorted(places) if not isinstance(places[place], options)]
    specs = [keras.tree.map_structure(_spec_of_value, places[place]) for place in data]
    is_known = data == [*range(len(data))] and None not in keras.tree.flatten(specs)
    return specs if is_known else None


def _spec_of_value(x):
    """Returns the spec of a tensor or array with any batch size, or `None` for anything else."""
    if isinstance(x, tf.RaggedTensor) and x.shape.rank is None:
        return None
    if isinstance(x, tf.RaggedTensor):
        axes = (None,) * (x.ragged_rank + 1)
        shape = (*axes, *x.shape[len(axes) :])
        return tf.RaggedTensorSpec(shape, x.dtype, x.ragged_rank, x.row_splits.dtype)
    if isinstance(x, tf.SparseTensor):
        rank = x.shape.rank
        return None if rank is None else tf.SparseTensorSpec((None,) * rank, x.dtype)
    if not (hasattr(x, "shape") and hasattr(x, "dtype")):
        return None
    shape = tf.TensorShape(x.shape)
    return tf.TensorSpec((None, *shape[1:]) if shape.rank else shape, x.dtype)


def keeping_composites(make_spec):
    """Returns `make_tf_tensor_spec` of Keras that keeps ragged and sparse specs what they are."""

    @functools.wraps(make_spec)
    def making(x, *args, **kwargs):
        return _composite_spec(x) or make_spec(x, *args, **kwargs)

    return making


def _composite_spec(x):
    """Returns the spec of a ragged or sparse `keras.KerasTensor` or spec, or `None`."""
    if isinstance(x, (*_COMPONENTS,)):
        return x
    if getattr(x, "ragged", False):
        return tf.RaggedTensorSpec((None, *x.shape[1:]), x.dtype, x.ragged_rank or 1)
    if getattr(x, "sparse", False):
        return tf.SparseTensorSpec((None, *x.shape[1:]), x.dtype)
    return None


def _num_composites(signature):
    leaves = keras.tree.flatten(signature)
    return sum(_composite_spec(x) is not None for x in leaves)


def naming_components(get_concrete_fn):
    """Returns `_get_concrete_fn` of Keras' archives whose functions are called by tensors.

    An endpoint keeps its ragged and sparse arguments; a signature, as servers use it, has none.
    """

    @functools.wraps(get_concrete_fn)
    def getting(archive, endpoint):
        function = get_concrete_fn(archive, endpoint)
        signature = archive._endpoint_signatures.get(endpoint)
        return by_components(function, signature) if _num_composites(signature) else function

    return getting


def default_signature(default):
    """Returns `_default_save_signature` of Keras' models, which `tf.saved_model.save` asks for."""

    def finding(model):
        if is_writing_archive():  # which looks for hash tables, and would trace this for nothing
            return None
        signature = composite_signature(model)
        return by_components(model.__call__, signature) if signature else default.fget(model)

    return property(finding)


def knowing_inputs(save):
    """Returns `tf.saved_model.save`, which would write no signature of a model without a known one.

    It passes over what the property above raises.
    """

    @functools.wraps(save)
    def saving(obj, export_dir, signatures=None, *args, **kwargs):
        if isinstance(obj, keras.Model) and signatures is None:
            composite_signature(obj)
        return save(obj, export_dir, signatures, *args, **kwargs)

    return saving


def by_components(function, signature):
    """Returns a `tf.function` of the named tensors that a function's arguments consist of.

    Outputs are split in the same way: C++ servers read dense tensors alone.
    """
    specs = keras.tree.map_structure(keeping_composites(make_tf_tensor_spec), signature)
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
