// DeviceArray: an array in a GPU's memory.
#ifndef KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_ARRAY_H_
#define KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "ops/core/device/device.h"

namespace keras_sparse {

// Freed in the order of the device's stream. The device must outlive the array.
template <typename T>
class DeviceArray {
  static_assert(std::is_trivially_copyable_v<T>, "its bytes are what it is");

 public:
  // Allocates an array with undefined content. An empty array has no memory.
  static Status Allocate(Device* device, int64_t size, DeviceArray* array) {
    DeviceArray made(device, size);
    if (size > 0) {
      void* memory = nullptr;
      KERAS_SPARSE_RETURN_IF_ERROR(device->Allocate(made.bytes(), &memory));
      made.data_ = static_cast<T*>(memory);
    }
    *array = std::move(made);
    return Status::Ok();
  }
  static Status Copy(Device* device, const std::vector<T>& from, DeviceArray* array) {
    return Copy(device, from.data(), static_cast<int64_t>(from.size()), array);
  }
  //   from  (size)
  static Status Copy(Device* device, const T* from, int64_t size, DeviceArray* array) {
    KERAS_SPARSE_RETURN_IF_ERROR(Allocate(device, size, array));
    return size == 0 ? Status::Ok() : device->CopyToDevice(from, array->bytes(), array->data());
  }

  DeviceArray() = default;
  ~DeviceArray() { Free(); }
  DeviceArray(DeviceArray&& other) noexcept { *this = std::move(other); }
  DeviceArray& operator=(DeviceArray&& other) noexcept {
    if (this == &other) return *this;
    Free();
    device_ = std::exchange(other.device_, nullptr);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  T* data() const { return data_; }
  int64_t size() const { return size_; }
  int64_t bytes() const { return size_ * static_cast<int64_t>(sizeof(T)); }

  // Waits for all work enqueued on the device so far.
  Status Read(std::vector<T>* to) const { return ReadFirst(size_, to); }
  //   n  number of elements to read
  Status ReadFirst(int64_t n, std::vector<T>* to) const {
    to->resize(static_cast<size_t>(n));
    if (n == 0) return Status::Ok();
    return device_->CopyToHost(data_, n * static_cast<int64_t>(sizeof(T)), to->data());
  }

 private:
  DeviceArray(Device* device, int64_t size) : device_(device), size_(size) {}
  void Free() {
    if (data_ != nullptr) device_->Free(static_cast<void*>(data_));
    data_ = nullptr;
  }

  Device* device_ = nullptr;
  T* data_ = nullptr;
  int64_t size_ = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_DEVICE_DEVICE_ARRAY_H_
