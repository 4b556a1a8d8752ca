// The rule of a saved table as TensorFlow holds it.
#ifndef KERAS_SPARSE_OPS_TF_CHECKPOINT_SAVED_RULE_RESOURCE_H_
#define KERAS_SPARSE_OPS_TF_CHECKPOINT_SAVED_RULE_RESOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "ops/core/optimizer/saved_rule.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace keras_sparse {

// Made once for a file, whose records come in many pieces: taking its steps again may take seconds.
// It ends with the last handle to it.
class SavedRuleResource : public tensorflow::ResourceBase {
 public:
  explicit SavedRuleResource(std::unique_ptr<SavedRule> rule) : rule_(std::move(rule)) {}
  std::string DebugString() const override { return "SavedRule"; }
  const SavedRule& rule() const { return *rule_; }

 private:
  std::unique_ptr<SavedRule> rule_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_CHECKPOINT_SAVED_RULE_RESOURCE_H_
