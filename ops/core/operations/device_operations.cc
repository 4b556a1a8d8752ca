#include "ops/core/operations/device_operations.h"

namespace keras_sparse {

// Made where it is first asked for: static objects fill it in, in no order.
DeviceOperations& DeviceOperations::Get() {
  static auto* operations = new DeviceOperations();
  return *operations;
}

}  // namespace keras_sparse
