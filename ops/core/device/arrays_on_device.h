// ArraysOnDevice: copies host arrays to a GPU in one copy.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/core/device/device_array.h"

namespace keras_sparse {

// The device's arrays live as long as this object.
class ArraysOnDevice {
 public:
  // Adds the current content of an array. Copy then sets `*array` to the array's place on the
  // device; a null array stays null.
  //   *array  (n)    `array` must stay valid until Copy
  template <typename T>
  void Add(const T** array, int64_t n) {
    if (*array != nullptr) Add(*array, n, array);
  }
  // As above, for an array with another place in host memory. Kernels may write to it.
  template <typename T>
  void Add(const std::vector<std::remove_const_t<T>>& from, T** array) {
    Add(from.data(), static_cast<int64_t>(from.size()), array);
  }

  Status Copy(Device* device) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<char>::Copy(device, bytes_, &copies_));
    for (const auto& [array, place] : places_) *array = copies_.data() + place;
    places_.clear();
    return Status::Ok();
  }

 private:
  static constexpr size_t kAlignment = 16;

  template <typename T>
  void Add(const std::remove_const_t<T>* from, int64_t n, T** array) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= kAlignment, "bytes move");
    const auto* bytes = reinterpret_cast<const char*>(from);
    bytes_.resize((bytes_.size() + kAlignment - 1) / kAlignment * kAlignment);
    places_.emplace_back(reinterpret_cast<void**>(const_cast<std::remove_const_t<T>**>(array)),
                         bytes_.size());
    bytes_.insert(bytes_.end(), bytes, bytes + n * static_cast<int64_t>(sizeof(T)));
  }

  std::vector<std::pair<void**, size_t>> places_;
  std::vector<char> bytes_;
  DeviceArray<char> copies_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_
