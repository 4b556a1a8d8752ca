// A vocabulary as TensorFlow holds it.
#ifndef KERAS_SPARSE_OPS_TF_VOCABULARY_VOCABULARY_RESOURCE_H_
#define KERAS_SPARSE_OPS_TF_VOCABULARY_VOCABULARY_RESOURCE_H_

#include "ops/core/index/vocabulary.h"
#include "ops/tf/binding/owned_resource.h"

namespace keras_sparse {

using VocabularyResource = OwnedResource<Vocabulary>;

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_TF_VOCABULARY_VOCABULARY_RESOURCE_H_
