// A vocabulary as TensorFlow holds it.
#ifndef KERAS_SPARSE_OPS_TF_VOCABULARY_RESOURCE_H_
#define KERAS_SPARSE_OPS_TF_VOCABULARY_RESOURCE_H_

#include <cstdint>
#include <string>

#include "ops/core/vocabulary.h"
#include "tensorflow/core/framework/resource_mgr.h"

namespace keras_sparse {

// It ends with the last handle to it.
class VocabularyResource : public tensorflow::ResourceBase {
 public:
  explicit VocabularyResource(int64_t max_tokens) : vocabulary_(max_tokens) {}
  std::string DebugString() const override { return "Vocabulary"; }
  Vocabulary& vocabulary() { return vocabulary_; }

 private:
  Vocabulary vocabulary_;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_VOCABULARY_RESOURCE_H_
