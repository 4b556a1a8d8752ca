# Enables the language CUDA as KERAS_SPARSE_CUDA says: AUTO, which is if there is a compiler that
# works, ON, which stops with the remedy where there is none, or OFF.
#
# Sets cuda_VERSION, empty without CUDA, cuda_ARCHITECTURES, cuda_LIBRARY and cuda_summary.

set(oldest_cuda 12.4)
set(cuda_VERSION "")
set(cuda_ARCHITECTURES "")
set(cuda_summary "left out (KERAS_SPARSE_CUDA=OFF)")

if(NOT KERAS_SPARSE_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "KERAS_SPARSE_CUDA must be AUTO, ON or OFF. "
                      "Received: KERAS_SPARSE_CUDA=${KERAS_SPARSE_CUDA}")
endif()
if(KERAS_SPARSE_CUDA STREQUAL "OFF")
  return()
endif()

# That of an earlier build is gone with the packages that pip had brought for it.
if(CMAKE_CUDA_COMPILER MATCHES "NOTFOUND$"
   OR (IS_ABSOLUTE "${CMAKE_CUDA_COMPILER}" AND NOT EXISTS "${CMAKE_CUDA_COMPILER}"))
  unset(CMAKE_CUDA_COMPILER CACHE)
  file(REMOVE "${CMAKE_BINARY_DIR}${CMAKE_FILES_DIRECTORY}/${CMAKE_VERSION}/CMakeCUDACompiler.cmake")
endif()

# What was named for this build, then that of Python's packages, which a build in an environment of
# pip's own has asked for, then those of the system.
function(find_nvcc)
  if(CMAKE_CUDA_COMPILER)
    set(nvcc "${CMAKE_CUDA_COMPILER}" PARENT_SCOPE)
    return()
  endif()
  if(DEFINED ENV{CUDACXX})
    set(nvcc "$ENV{CUDACXX}" PARENT_SCOPE)
    return()
  endif()
  find_package(Python 3.11 COMPONENTS Interpreter)
  if(Python_FOUND)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c [=[
import importlib.util
import pathlib
spec = importlib.util.find_spec("nvidia")
places = spec.submodule_search_locations if spec else []
found = [nvcc for place in places for nvcc in pathlib.Path(place).glob("cu*/bin/nvcc")]
print(*sorted(found)[-1:])
]=]
      OUTPUT_VARIABLE of_python
      OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  if(of_python)
    set(nvcc "${of_python}" PARENT_SCOPE)
    return()
  endif()
  find_program(of_system nvcc PATHS /usr/local/cuda/bin NO_CACHE)
  set(nvcc "${of_system}" PARENT_SCOPE)
endfunction()

# What is wrong with `nvcc`, or empty and its version.
function(try_nvcc)
  if(NOT nvcc)
    set(trouble "no nvcc was found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${nvcc}" --version OUTPUT_VARIABLE answer ERROR_QUIET)
  if(NOT answer MATCHES "release [0-9.]+, V([0-9.]+)")
    set(trouble "${nvcc} is no nvcc" PARENT_SCOPE)
  elseif(CMAKE_MATCH_1 VERSION_LESS oldest_cuda)
    set(trouble "${nvcc} is of CUDA ${CMAKE_MATCH_1}" PARENT_SCOPE)
  else()
    set(trouble "" PARENT_SCOPE)
    set(version "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

find_nvcc()
try_nvcc()
if(NOT trouble)
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
    # Each time: CMake itself would keep that with which a folder is configured for the first time.
    set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}")
    unset(ENV{CUDAARCHS})
  elseif(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    # From Turing on; later GPUs than the last one compile its code when it is first used.
    set(CMAKE_CUDA_ARCHITECTURES 75-real 80-real 86-real 89-real)
    if(version VERSION_LESS 12.8)
      list(APPEND CMAKE_CUDA_ARCHITECTURES 90)
    else()
      list(APPEND CMAKE_CUDA_ARCHITECTURES 90-real 100-real 120)
    endif()
  endif()
  # nvcc looks for the libraries beside it in lib64, and Python's packages have lib.
  cmake_path(GET nvcc PARENT_PATH nvcc_folder)
  set(ENV{LIBRARY_PATH} "${nvcc_folder}/../lib:$ENV{LIBRARY_PATH}")
  set(ENV{CUDACXX} "${nvcc}")
  set(CMAKE_CUDA_STANDARD 17)
  set(CMAKE_CUDA_STANDARD_REQUIRED ON)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(trouble
        "${nvcc} compiles nothing with ${CMAKE_CXX_COMPILER} (CMakeConfigureLog.yaml says why)")
  endif()
endif()
if(trouble AND KERAS_SPARSE_CUDA STREQUAL "ON")
  message(FATAL_ERROR
          "KERAS_SPARSE_CUDA=ON needs nvcc ${oldest_cuda} or later, and ${trouble}. Install the "
          "CUDA toolkit, name its compiler by the environment variable CUDACXX, or let pip bring one: "
          "`KERAS_SPARSE_CUDA=ON pip install .` without --no-build-isolation, with it after "
          "`pip install \"cuda-toolkit[nvcc,cudart,cccl]==13.0.*\"`.")
endif()
if(trouble)
  set(cuda_summary "left out: ${trouble}")
  return()
endif()

enable_language(CUDA)
# CUDA's runtime is linked by its path, and before TensorFlow's library, which has functions of the
# same names, of another version, to stand in for it.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
find_library(cuda_LIBRARY cudart_static
             HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} "${nvcc_folder}/../lib"
             NO_CACHE REQUIRED)
set(cuda_VERSION "${CMAKE_CUDA_COMPILER_VERSION}")
set(cuda_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}")
set(cuda_summary "${cuda_VERSION} (${CMAKE_CUDA_COMPILER}) for ${cuda_ARCHITECTURES}")
