// EvictionPolicy: which rows of a dynamic table leave it.
#ifndef KERAS_SPARSE_OPS_CORE_EVICTION_EVICTION_POLICY_H_
#define KERAS_SPARSE_OPS_CORE_EVICTION_EVICTION_POLICY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

struct EvictionOptions {
  std::string policy;  // one of ops/core/eviction
  std::map<std::string, double> constants;
};

// A row is judged by itself: by what it reads as, and by its age, which is how many steps the table
// has made since the one in which the row had its last gradient, or how many seconds ago that was.
// Ages wrap at 2^32. Or else rows stand in an order, and as many of the first ones go as the table
// has too many.
//
// Thread safety: const methods may overlap.
class EvictionPolicy {
 public:
  // Policies register themselves under their name, each in its own file of ops/core/eviction.
  // A factory may count on all of the constants being there, and checks what they are.
  using Factory = Status (*)(const EvictionOptions& options,
                             std::unique_ptr<EvictionPolicy>* policy);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);

  // InvalidArgument if there is no such policy, or the constants are not the policy's.
  static Status Create(const EvictionOptions& options, std::unique_ptr<EvictionPolicy>* policy);

  virtual ~EvictionPolicy() = default;

  // Whether it asks for the age or the frequency, which the table must then keep, or for the row.
  virtual bool needs_age() const { return false; }
  virtual bool needs_frequency() const { return false; }
  virtual bool needs_row() const { return false; }
  // Whether ages are to be seconds, rather than steps.
  virtual bool takes_seconds() const { return false; }

  // Whether rows go in an order: the least frequent first if it asks for that, of rows of one
  // frequency the oldest, of rows of one age those of the lowest keys. No row goes by itself then.
  virtual bool makes_room() const { return false; }

  // Whether the row goes.
  //   age  of no meaning unless needs_age()
  //   row  (dim), of no meaning unless needs_row()
  virtual bool Evicts(uint32_t age, const float* row, int64_t dim) const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EVICTION_EVICTION_POLICY_H_
