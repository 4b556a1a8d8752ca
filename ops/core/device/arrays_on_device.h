// ArraysOnDevice: copies host arrays to a GPU in one copy.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/core/device/device_array.h"

namespace keras_sparse {

// The device's arrays live as long as this object.
template <typename T>
class ArraysOnDevice {
 public:
  // Adds the current content of an array. Copy then sets `*array` to the array's place on the
  // device; a null array stays null.
  //   *array  (n)    must stay valid until Copy, as must `array`
  void Add(const T** array, int64_t n) {
    if (*array == nullptr) return;
    places_.emplace_back(array, values_.size());
    values_.insert(values_.end(), *array, *array + n);
  }

  Status Copy(Device* device) {
    KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<T>::Copy(device, values_, &copies_));
    for (const auto& [array, place] : places_) *array = copies_.data() + place;
    return Status::Ok();
  }

 private:
  std::vector<std::pair<const T**, size_t>> places_;
  std::vector<T> values_;
  DeviceArray<T> copies_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_ARRAYS_ON_DEVICE_H_
