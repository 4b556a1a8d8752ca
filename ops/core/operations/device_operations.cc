#include "ops/core/operations/device_operations.h"

namespace keras_sparse {

// Created on first use, because static objects set the pointers in unspecified order.
DeviceOperations& DeviceOperations::Get() {
  static auto* operations = new DeviceOperations();
  return *operations;
}

}  // namespace keras_sparse
