// EvictionPolicy: decides which rows of a dynamic table are evicted.
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

// Most policies judge each row by its values or by its age: the steps of the table, or the seconds,
// since the row's last gradient. Ages wrap at 2^32. Other policies order the rows and evict the
// first ones, as many as the table has beyond its limit.
//
// Thread safety: const methods may overlap.
class EvictionPolicy {
 public:
  // Policies register under their name, each in its own file of ops/core/eviction. A factory gets
  // all of the constants and checks their values.
  using Factory = Status (*)(const EvictionOptions& options,
                             std::unique_ptr<EvictionPolicy>* policy);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);

  // Returns InvalidArgument if there is no such policy, or if the constants do not fit the policy.
  static Status Create(const EvictionOptions& options, std::unique_ptr<EvictionPolicy>* policy);

  virtual ~EvictionPolicy() = default;

  // Whether the policy needs the age or the frequency, which the table must then keep, or the row.
  virtual bool needs_age() const { return false; }
  virtual bool needs_frequency() const { return false; }
  virtual bool needs_row() const { return false; }
  // Whether ages are in seconds, rather than steps.
  virtual bool takes_seconds() const { return false; }

  // Whether the policy orders rows: the least frequent first if it needs the frequency, then the
  // oldest, then the lowest keys. Evicts returns false for every row then.
  virtual bool makes_room() const { return false; }

  // Returns whether the row is evicted.
  //   age  undefined unless needs_age()
  //   row  (dim), undefined unless needs_row()
  virtual bool Evicts(uint32_t age, const float* row, int64_t dim) const = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_EVICTION_EVICTION_POLICY_H_
