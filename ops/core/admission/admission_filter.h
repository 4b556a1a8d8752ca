// AdmissionFilter: may a key of a dynamic table get a row yet.
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
  int64_t seed = 0;  // of a filter that draws
  // What a key without a row reads as: its initial row, or this number in all elements.
  bool reads_initial_rows = false;
  float default_value = 0;
};

// Some of what a filter remembers. What an entry is, is the filter's own affair; most have one for
// each waiting key, with its count.
struct FilterEntries {
  std::vector<int64_t> keys;
  std::vector<uint32_t> counts;  // as many
  int64_t next_cursor = -1;
};

// A key waits once it has had a gradient, until it is admitted. The table asks once a training step
// for each key that has a gradient and a row in no tier, and tells the filter of rows that it makes
// for other reasons too.
//
// Keys fall into parts by the top bits of their hash, as in FirstTier. What a filter answers in a
// part depends on what it was asked in that part alone, in the order of asking: so the result does
// not depend on the number of threads, and no two of them share anything.
//
// Thread safety: const methods may overlap; Admit and Forget for keys of different parts too. Any
// other call needs the filter alone.
class AdmissionFilter {
 public:
  // Filters register themselves under their name, each in its own file of ops/core/admission.
  // A factory may count on all of the constants being there, and checks what they are.
  using Factory = Status (*)(const FilterOptions& options,
                             std::unique_ptr<AdmissionFilter>* filter);
  static bool Register(const std::string& name, std::vector<std::string> constant_names,
                       Factory factory);

  // InvalidArgument if there is no such filter, or the constants are not the filter's.
  static Status Create(const FilterOptions& options, std::unique_ptr<AdmissionFilter>* filter);

  virtual ~AdmissionFilter() = default;

  // The finest cut into parts, in bits.
  virtual int max_partition_bits() const = 0;

  // Says that a training step begins.
  virtual void BeginStep() {}

  // Starts bringing what Admit will read for this key into the cache.
  virtual void Prefetch(int64_t /*key*/) const {}

  // Whether a key counts as often as it comes in a training step, instead of once. Then the two
  // below must be told how often that is, and else 1.
  virtual bool counts_occurrences() const { return false; }

  // Whether keys share counts, as in a Bloom filter. Then a training step asks WouldAdmit of all
  // its keys, and then counts those that wait by CountWaiting: none is let in by others of its
  // step.
  virtual bool keys_share_counts() const { return false; }
  virtual void CountWaiting(int64_t /*key*/, uint32_t /*num_occurrences*/) {}

  // Whether a key may have a row in the training step to come, by what was counted before it.
  virtual bool WouldAdmit(int64_t key, uint32_t num_occurrences) const = 0;

  // Counts a key that has a gradient in this training step, and says whether it may have a row now.
  // A key that may can come again without a row: the table may have had no memory for it.
  virtual bool Admit(int64_t key, uint32_t num_occurrences) = 0;

  // The key has got a row.
  virtual void Forget(int64_t /*key*/) {}

  // Back to the state before training.
  virtual void Clear() = 0;

  // Keys that wait. A filter that does not keep them apart says about how many keys it has counted,
  // or 0 if it counts none.
  virtual int64_t num_waiting() const { return 0; }
  virtual int64_t bytes() const = 0;

  // All entries, in pieces of about max_entries. A piece begins at `cursor` (0 first, below 2^48);
  // its next_cursor is -1 at the end.
  virtual void Walk(int64_t cursor, int64_t max_entries, FilterEntries* entries) const = 0;

  // Writes entries that a filter of the same kind and size has given.
  // InvalidArgument for one that this filter cannot have; entries before it stay.
  virtual Status Restore(const int64_t* keys, const uint32_t* counts, int64_t n) = 0;
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_ADMISSION_ADMISSION_FILTER_H_
