// OwnedResource: our objects as resources of TensorFlow.
#ifndef KERAS_SPARSE_OPS_TF_BINDING_OWNED_RESOURCE_H_
#define KERAS_SPARSE_OPS_TF_BINDING_OWNED_RESOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ops/core/base/mutex.h"
#include "ops/core/base/status.h"
#include "tensorflow/core/framework/resource_base.h"

namespace keras_sparse {

// A resource that can release its object while handles to it remain. TensorFlow keeps graphs as
// long as it likes, and with a graph its handles: those of a gradient registered by name until the
// process ends.
class DroppableResource : public tensorflow::ResourceBase {
 public:
  virtual void Drop() = 0;
};

// Holds a `T` until it is dropped, or until its last handle is destroyed. Running ops also hold the
// object, and finish with it unchanged.
//
// Thread safety: all methods may overlap.
template <typename T>
class OwnedResource : public DroppableResource {
 public:
  //   name  for messages, such as "table 'users'"
  OwnedResource(std::string name, std::shared_ptr<T> object)
      : name_(std::move(name)), object_(std::move(object)) {}

  std::string DebugString() const override { return name_; }

  // Returns FailedPrecondition once the object was dropped.
  Status Find(std::shared_ptr<T>* object) const {
    {
      const MutexLock lock(mutex_);
      *object = object_;
    }
    if (*object != nullptr) return Status::Ok();
    return FailedPrecondition(absl::StrCat(
        "A function must be called while the layers that it uses are alive: what they hold goes "
        "with them. Keep a reference to the model or the layer. Received: ",
        name_, ", whose last reference is gone"));
  }

  void Drop() override {
    std::shared_ptr<T> object;  // destroyed outside of the lock, because this may take long
    const MutexLock lock(mutex_);
    object.swap(object_);
  }

 private:
  const std::string name_;
  mutable Mutex mutex_;
  std::shared_ptr<T> object_ GUARDED_BY(mutex_);
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_BINDING_OWNED_RESOURCE_H_
