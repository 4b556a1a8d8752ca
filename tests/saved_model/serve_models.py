"""Answers requests to SavedModels with TensorFlow alone: `python serve_models.py FOLDER`.

For each `FOLDER/NAME.npz` of inputs, in the order of their names, there is a SavedModel
`FOLDER/NAME`. Writes
`FOLDER/NAME.answers.npz`: what its default signature answers where Python loads it, and where a
session does, as the servers that are written in C++ load it.
"""

import pathlib
import sys

# Whatever imports it fails.
sys.modules["keras_sparse"] = None  # type: ignore[assignment]

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

_SIGNATURE = "serving_default"


def main(folder):
    for requests in sorted(folder.glob("*.npz")):
        path, inputs = str(requests.with_suffix("")), list(np.load(requests).values())
        answers = {"python": _in_python(path, inputs), "session": _in_session(path, inputs)}
        np.savez(path + ".answers.npz", **answers)


def _in_python(path, inputs):
    serve = tf.saved_model.load(path).signatures[_SIGNATURE]
    names = sorted(serve.structured_input_signature[1])
    tensors = [tf.constant(each) for each in inputs]
    (answer,) = serve(**dict(zip(names, tensors, strict=True))).values()
    return answer


def _in_session(path, inputs):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        graph = tf.compat.v1.saved_model.loader.load(session, ["serve"], path)
        signature = graph.signature_def[_SIGNATURE]
        (output,) = signature.outputs.values()
        names = [signature.inputs[name].name for name in sorted(signature.inputs)]
        return session.run(output.name, dict(zip(names, inputs, strict=True)))


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
