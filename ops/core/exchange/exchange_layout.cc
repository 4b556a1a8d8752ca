#include "ops/core/exchange/exchange_layout.h"

#include <utility>

#include "ops/core/base/crc32c.h"
#include "ops/core/ids/owned_keys.h"
#include "ops/core/record/record_layout.h"

namespace keras_sparse {
namespace {

// Returns numbers one by one, and zeros after the last.
class Numbers {
 public:
  explicit Numbers(const std::vector<int64_t>& numbers) : numbers_(numbers) {}
  int64_t Next() {
    const size_t at = next_++;
    return at < numbers_.size() ? numbers_[at] : 0;
  }
  bool AreUsedUp() const { return next_ == numbers_.size(); }
  bool HavePairs(int64_t n) const {
    return next_ <= numbers_.size() && n >= 0 &&
           static_cast<uint64_t>(n) <= (numbers_.size() - next_) / 2;
  }

 private:
  const std::vector<int64_t>& numbers_;
  size_t next_ = 0;
};

Status Malformed(const std::string& what) {
  return InvalidArgument("`layout` must describe tables and their slices. Received: " + what);
}

Status ReadTable(const std::string& name, size_t num_ranks, Numbers* numbers,
                 ExchangedTable* table) {
  table->name = name;
  table->input_dim = numbers->Next();
  table->dim = numbers->Next();
  table->out_of_range_is_zero = numbers->Next() != 0;
  table->by_rows = numbers->Next() != 0;
  table->max_entries = numbers->Next();
  const int64_t num_slices = numbers->Next();
  if (table->dim < 1 || table->dim > kMaxOutputDim) {
    return Malformed(std::to_string(table->dim) + " columns of table '" + name + "'");
  }
  if (table->max_entries < 1) {
    return Malformed(std::to_string(table->max_entries) + " entries of an id of table '" + name +
                     "'");
  }
  if (num_slices < 1 || !numbers->HavePairs(num_slices)) {
    return Malformed(std::to_string(num_slices) + " slices of table '" + name + "'");
  }
  int64_t num_columns = 0;
  for (int64_t s = 0; s < num_slices; ++s) {
    const int64_t rank = numbers->Next();
    const int64_t columns = numbers->Next();
    const bool in_order = !table->by_rows || rank == s;
    const bool is_part = columns >= 1 && columns <= table->dim;
    if (rank < 0 || static_cast<uint64_t>(rank) >= num_ranks || !is_part || !in_order) {
      return Malformed("a slice of " + std::to_string(columns) + " columns on rank " +
                       std::to_string(rank) + " of table '" + name + "'");
    }
    table->slices.push_back({rank, table->by_rows ? 0 : num_columns, columns});
    num_columns += columns;
  }
  const int64_t expected =
      table->by_rows ? table->dim * static_cast<int64_t>(num_ranks) : table->dim;
  if (num_columns == expected && (!table->by_rows || table->slices.size() == num_ranks)) {
    return Status::Ok();
  }
  return Malformed(std::to_string(num_columns) + " columns of table '" + name + "'");
}

// A checksum of all numbers except this rank's own, of all names and of the types.
uint32_t Checksum(const std::vector<int64_t>& numbers, const std::vector<std::string>& names,
                  const std::string& exchange, const std::vector<FloatType>& row_types) {
  uint32_t crc = Crc32c(numbers.data(), 8);
  crc = Crc32c(numbers.data() + 2, 8 * (numbers.size() - 2), crc);
  for (const std::string& name : names) crc = Crc32c(name.c_str(), name.size() + 1, crc);
  crc = Crc32c(row_types.data(), sizeof(FloatType) * row_types.size(), crc);
  return Crc32c(exchange.data(), exchange.size(), crc);
}

}  // namespace

Status ExchangedTable::CheckIds(const int64_t* ids, int64_t num_ids) const {
  if (input_dim < 0 || out_of_range_is_zero) return Status::Ok();
  for (int64_t i = 0; i < num_ids; ++i) {
    if (IsOutside(ids[i])) return OwnedKeys{input_dim}.Refuse(name, "ids", i, ids[i]);
  }
  return Status::Ok();
}

Status ExchangeLayout::Read(const std::vector<int64_t>& numbers,
                            const std::vector<std::string>& names, const std::string& exchange,
                            const std::vector<FloatType>& row_types, ExchangeLayout* layout) {
  Numbers reader(numbers);
  const int64_t num_ranks = reader.Next();
  const int64_t rank = reader.Next();
  if (num_ranks < 1 || num_ranks > (1 << 20) || rank < 0 || rank >= num_ranks) {
    return Malformed("rank " + std::to_string(rank) + " of " + std::to_string(num_ranks));
  }
  if (!row_types.empty() && row_types.size() != names.size()) {
    return Malformed(std::to_string(row_types.size()) + " types of rows of " +
                     std::to_string(names.size()) + " tables");
  }
  ExchangeLayout result;
  result.num_ranks = static_cast<size_t>(num_ranks);
  result.rank = static_cast<size_t>(rank);
  result.parts_of_rank.resize(result.num_ranks);
  for (size_t t = 0; t < names.size(); ++t) {
    ExchangedTable table;
    KERAS_SPARSE_RETURN_IF_ERROR(ReadTable(names[t], result.num_ranks, &reader, &table));
    if (!row_types.empty()) table.row_type = row_types[t];
    for (size_t s = 0; s < table.slices.size(); ++s) {
      result.parts_of_rank[static_cast<size_t>(table.slices[s].rank)].push_back({t, s});
    }
    result.tables.push_back(std::move(table));
  }
  if (!reader.AreUsedUp()) return Malformed(std::to_string(numbers.size()) + " numbers");
  result.checksum = Checksum(numbers, names, exchange, row_types);
  *layout = std::move(result);
  return Status::Ok();
}

}  // namespace keras_sparse
