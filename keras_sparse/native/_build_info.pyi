# What CMake writes into _build_info.py: see CMakeLists.txt.
TENSORFLOW_VERSION: str
CPU_FLAGS: str
LOWER_TIERS: str
CUDA_VERSION: str
CUDA_ARCHITECTURES: str
