# Asks Python's TensorFlow how to compile against it, and stops with the remedy when there is none
# that fits.
#
# Sets tensorflow_VERSION, tensorflow_FOLDER, tensorflow_INCLUDE, tensorflow_COMPILE_OPTIONS
# (without the include path, which must come in as a system include) and tensorflow_LIBRARY.

# Also in pyproject.toml and keras_sparse/utils/supported_versions.py.
set(first_tensorflow "2.20")
set(last_tensorflow "2.21")

execute_process(
  COMMAND "${CMAKE_COMMAND}" -E env TF_CPP_MIN_LOG_LEVEL=3 "${Python_EXECUTABLE}" -c [=[
import os
import tensorflow as tf
options = [f for f in tf.sysconfig.get_compile_flags() if not f.startswith(("-I", "--std"))]
print(tf.__version__)
print(os.path.dirname(tf.__file__))
print(tf.sysconfig.get_include())
print(os.path.join(tf.sysconfig.get_lib(), "libtensorflow_framework.so.2"))
print(" ".join(options))
]=]
  OUTPUT_VARIABLE answer
  ERROR_VARIABLE trouble
  RESULT_VARIABLE result
  OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_STRIP_TRAILING_WHITESPACE)

string(CONCAT remedy
       "Install it with `pip install \"tensorflow==${last_tensorflow}.*\"`, or let pip do so: "
       "`pip install .` without --no-build-isolation. "
       "For the C++ tests alone pass -DKERAS_SPARSE_CORE_ONLY=ON.")

if(NOT result EQUAL 0)
  string(REGEX REPLACE "^.*\n" "" last_line "${trouble}")
  message(FATAL_ERROR
          "keras_sparse's native ops are compiled against TensorFlow ${first_tensorflow} to "
          "${last_tensorflow}, and ${Python_EXECUTABLE} could not import it:\n  ${last_line}\n${remedy}")
endif()

string(REPLACE "\n" ";" answer "${answer}")
list(GET answer 0 tensorflow_VERSION)
list(GET answer 1 tensorflow_FOLDER)
list(GET answer 2 tensorflow_INCLUDE)
list(GET answer 3 tensorflow_LIBRARY)
list(GET answer 4 tensorflow_COMPILE_OPTIONS)
separate_arguments(tensorflow_COMPILE_OPTIONS)

string(REGEX MATCH "^[0-9]+\\.[0-9]+" tensorflow_release "${tensorflow_VERSION}")
if(tensorflow_release VERSION_LESS first_tensorflow
   OR tensorflow_release VERSION_GREATER last_tensorflow)
  message(FATAL_ERROR
          "keras_sparse's native ops need TensorFlow ${first_tensorflow} to ${last_tensorflow}. "
          "Received: TensorFlow ${tensorflow_VERSION} in ${tensorflow_FOLDER}.\n${remedy}")
endif()
if(NOT EXISTS "${tensorflow_LIBRARY}")
  message(FATAL_ERROR "TensorFlow ${tensorflow_VERSION} has no ${tensorflow_LIBRARY}. "
                      "keras_sparse needs the Linux wheel from PyPI.")
endif()
