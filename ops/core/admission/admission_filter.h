// AdmissionFilter: decides which keys of a dynamic table get a row.
#ifndef KERAS_SPARSE_OPS_CORE_ADMISSION_ADMISSION_FILTER_H_
#define KERAS_SPARSE_OPS_CORE_ADMISSION_ADMISSION_FILTER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ops/core/base/status.h"

namespace keras_sparse {

struct FilterOptions {
  std::string filter;  // one of ops/core/admission
  std::map<std::string, double> constants;
  int64_t seed = 0;  // for a filter that draws random numbers
  // The values of a key without a row: its initial row, or `default_value` in all elements.
  bool reads_initial_rows = false;
  float default_value = 0;
};

// Some entries of a filter. Each filter defines its entries; most have one for each waiting key,
// with its count.
struct FilterEntries {
  std::vector<int64_t> keys;
  std::vector<uint32_t> counts;  // as many
  int64_t next_cursor = -1;
};

// A key waits from its first gradient until it is admitted. The table asks once a training step for
// each key that has a gradient and no row in any tier. It also reports rows that it creates for
// other reasons.
//
// Keys are partitioned by the top bits of their hash, as in FirstTier. A filter's answers in a part
// depend only on the calls for that part, in order. So the result does not depend on the number of
// threads, and threads share nothing.
//
// Thread safety: const methods may overlap, as may Admit and Forget for keys of different parts.
// Any other call needs exclusive access to the filter.
class AdmissionFilter {
 public:
  // Filters register under their name, each in its own file of ops/core/admission. A factory gets
  // all of the constants and checks their values.
  using Factory = Status (*)(const FilterOptions& options,
                             std::unique_ptr<AdmissionFilter>* filter);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);

  // Returns InvalidArgument if there is no such filter, or if the constants do not fit the filter.
  static Status Create(const FilterOptions& options, std::unique_ptr<AdmissionFilter>* filter);

  virtual ~AdmissionFilter() = default;

  // Returns the finest partition, in bits.
  virtual int max_partition_bits() const = 0;

  // Begins a training step.
  virtual void BeginStep() {}

  // Prefetches the memory that Admit will read for this key.
  virtual void Prefetch(int64_t /*key*/) const {}

  // Whether a key counts as often as it occurs in a training step, instead of once. Then WouldAdmit
  // and Admit need the number of occurrences, otherwise 1.
  virtual bool counts_occurrences() const { return false; }

  // Whether keys share counts, as in a Bloom filter. Then a training step calls WouldAdmit for all
  // its keys before it counts the waiting ones with CountWaiting, so that no key is admitted by
  // other keys of its step.
  virtual bool keys_share_counts() const { return false; }
  virtual void CountWaiting(int64_t /*key*/, uint32_t /*num_occurrences*/) {}

  // Returns whether a key may have a row in the next training step, by the counts so far.
  virtual bool WouldAdmit(int64_t key, uint32_t num_occurrences) const = 0;

  // Counts a key that has a gradient in this training step, and returns whether it may have a row
  // now. An admitted key may return without a row, if the table had no memory for it.
  virtual bool Admit(int64_t key, uint32_t num_occurrences) = 0;

  // Drops the entry of a key that has got a row.
  virtual void Forget(int64_t /*key*/) {}

  // Resets the filter to its state before training.
  virtual void Clear() = 0;

  // Returns the number of waiting keys. A filter that does not distinguish keys returns about how
  // many it has counted, or 0 if it counts none.
  virtual int64_t num_waiting() const { return 0; }
  virtual int64_t bytes() const = 0;

  // Returns all entries in chunks of about max_entries. A chunk starts at `cursor` (first 0, below
  // 2^48); its next_cursor is -1 at the end.
  virtual void Walk(int64_t cursor, int64_t max_entries, FilterEntries* entries) const = 0;

  // Writes entries from a filter of the same kind and size. Returns InvalidArgument for an entry
  // that this filter cannot have; earlier entries stay.
  virtual Status Restore(const int64_t* keys, const uint32_t* counts, int64_t n) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ADMISSION_ADMISSION_FILTER_H_
