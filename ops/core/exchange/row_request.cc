#include "ops/core/exchange/row_request.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "ops/core/exchange/reply_format.h"
#include "ops/core/ids/distinct_ids.h"

namespace keras_sparse {
namespace {

constexpr int kMaxRequestBits = 16;
constexpr int64_t kNanosecondsPerRequest = 100000;
constexpr int64_t kCountWords = 4;
constexpr int64_t kWordsPerId = 2;
constexpr int64_t kBytesPerWord = 4;

// The remainder of a floored division: never negative.
uint32_t ShardOf(int64_t key, size_t num_shards) {
  const auto n = static_cast<int64_t>(num_shards);
  return static_cast<uint32_t>((key % n + n) % n);
}

bool MayPool(const Bags& bags) {
  return bags.combiner != Combiner::kNone && bags.weights == nullptr;
}

// Returns the id by which the rank of its shard knows an id.
int64_t LocalId(const ExchangedTable& table, int64_t id) {
  if (!table.by_rows || table.input_dim < 0) return id;
  return table.IsOutside(id) ? -1 : id / static_cast<int64_t>(table.num_shards());
}

constexpr int64_t kNanosecondsPerBlock = 100000;

}  // namespace

int64_t RowRequest::Shard::num_words() const {
  return kCountWords + kWordsPerId * num_ids + num_bags() + static_cast<int64_t>(places.size());
}

RowRequest::RowRequest(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
                       FloatType wire_type)
    : layout_(layout),
      wire_type_(wire_type),
      requests_(inputs),
      tables_(layout.tables.size()),
      inputs_(inputs.size()) {
  for (size_t i = 0; i < inputs.size(); ++i) tables_[inputs[i].table].inputs.push_back(i);
}

Status RowRequest::Create(const ExchangeLayout& layout, const std::vector<RequestInput>& inputs,
                          FloatType wire_type, Executor* executor,
                          std::unique_ptr<RowRequest>* request) {
  for (const RequestInput& input : inputs) {
    KERAS_SPARSE_RETURN_IF_ERROR(input.bags.Check());
    if (input.table < layout.tables.size()) continue;
    return InvalidArgument("`input_tables` must name tables of the layout. Received: table " +
                           std::to_string(input.table) + " of " +
                           std::to_string(layout.tables.size()));
  }
  std::unique_ptr<RowRequest> result(new RowRequest(layout, inputs, wire_type));
  for (const RequestInput& input : inputs) {
    const ExchangedTable& table = layout.tables[input.table];
    KERAS_SPARSE_RETURN_IF_ERROR(table.CheckIds(input.ids, input.bags.num_ids));
  }
  result->JoinIds();
  for (const Table& table : result->tables_) {
    if (table.num_ids < std::numeric_limits<uint32_t>::max()) continue;
    return InvalidArgument("an op takes fewer than 2^32 ids a table. Received: " +
                           std::to_string(table.num_ids));
  }
  result->FindDistinct(executor);
  executor->ParallelFor(static_cast<int64_t>(result->tables_.size()), kNanosecondsPerRequest,
                        [&](int64_t begin, int64_t end) {
                          for (int64_t t = begin; t < end; ++t) {
                            result->ChooseForm(static_cast<size_t>(t));
                            result->AssignPlaces(static_cast<size_t>(t));
                          }
                        });
  for (const auto words_of :
       {&RowRequest::num_words, &RowRequest::num_reply_words, &RowRequest::num_gradient_words}) {
    std::vector<int64_t> words(layout.num_ranks);
    for (size_t r = 0; r < layout.num_ranks; ++r) words[r] = (*result.*words_of)(r);
    KERAS_SPARSE_RETURN_IF_ERROR(CheckNumWords(layout, words));
  }
  *request = std::move(result);
  return Status::Ok();
}

void RowRequest::JoinIds() {
  for (Table& table : tables_) {
    // Inputs that can only request rows come first, then those with the smallest bags. So the rows
    // already requested are known when a later input chooses its form.
    std::stable_sort(table.inputs.begin(), table.inputs.end(), [&](size_t a, size_t b) {
      const auto hotness = [&](const Bags& bags) {
        if (!MayPool(bags)) return 0.0;
        return static_cast<double>(bags.num_ids) / static_cast<double>(bags.num_bags + 1);
      };
      return hotness(requests_[a].bags) < hotness(requests_[b].bags);
    });
    for (const size_t i : table.inputs) {
      inputs_[i].first_id = table.num_ids;
      table.num_ids += requests_[i].bags.num_ids;
    }
    if (table.inputs.size() == 1) table.ids = requests_[table.inputs[0]].ids;
    if (table.inputs.size() <= 1) continue;
    table.joined_ids.reserve(static_cast<size_t>(table.num_ids));
    for (const size_t i : table.inputs) {
      const RequestInput& input = requests_[i];
      table.joined_ids.insert(table.joined_ids.end(), input.ids, input.ids + input.bags.num_ids);
    }
    table.ids = table.joined_ids.data();
  }
}

void RowRequest::FindDistinct(Executor* executor) {
  std::vector<IdList> lists;
  lists.reserve(tables_.size());
  for (size_t t = 0; t < tables_.size(); ++t) {
    lists.push_back({tables_[t].ids, tables_[t].num_ids, kMaxRequestBits, nullptr,
                     layout_.tables[t].max_entries});
  }
  const DistinctIds distinct(lists, executor);
  for (size_t t = 0; t < tables_.size(); ++t) {
    const auto num_entries = static_cast<size_t>(distinct.num_entries(t));
    tables_[t].entry_ids.resize(num_entries);
    tables_[t].first_use.resize(num_entries);
    tables_[t].entry_of.resize(static_cast<size_t>(tables_[t].num_ids));
  }
  distinct.ForEachPart(executor, [&](const DistinctIds::Part& part) {
    Table& table = tables_[part.list];
    auto first = static_cast<size_t>(part.first_entry);
    for (int64_t u = 0; u < part.groups.num_unique(); ++u) {
      const uint32_t* occurrences = part.groups.occurrences(u);
      const int64_t num_entries = part.num_entries(u);
      for (int64_t o = 0; o < part.groups.num_occurrences(u); ++o) {
        const size_t entry = first + static_cast<size_t>(std::min(o, num_entries - 1));
        table.entry_of[occurrences[o]] = static_cast<uint32_t>(entry);
        if (o >= num_entries) continue;
        table.entry_ids[entry] = part.groups.unique_ids()[u];
        table.first_use[entry] = occurrences[o];
      }
      first += static_cast<size_t>(num_entries);
    }
  });
}

void RowRequest::ChooseForm(size_t t) {
  Table& table = tables_[t];
  const ExchangedTable& exchanged = layout_.tables[t];
  table.shards.resize(exchanged.num_shards());
  if (table.shards.size() > 1) {
    table.shard_of.resize(table.entry_ids.size());
    for (size_t u = 0; u < table.entry_ids.size(); ++u) {
      table.shard_of[u] = ShardOf(table.entry_ids[u], table.shards.size());
    }
  }
  const auto may_pool = [&](size_t i) { return MayPool(requests_[i].bags); };
  if (std::none_of(table.inputs.begin(), table.inputs.end(), may_pool)) return;
  // How many rows each input would add to the rows that earlier inputs request.
  std::vector<int64_t> ends;
  ends.reserve(table.inputs.size());
  for (const size_t i : table.inputs)
    ends.push_back(inputs_[i].first_id + requests_[i].bags.num_ids);
  std::vector<int64_t> added(table.inputs.size());
  for (const uint32_t use : table.first_use) {
    ++added[static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), int64_t{use}) -
                                ends.begin())];
  }
  for (size_t k = 0; k < table.inputs.size(); ++k) {
    const size_t i = table.inputs[k];
    if (!may_pool(i)) continue;
    const FloatType row_type = ReplyFormat(exchanged, exchanged.dim, wire_type_).row_type();
    const int64_t bytes_per_float = FloatBytes(row_type) + FloatBytes(wire_type_);
    const int64_t bytes_of_rows = added[k] * bytes_per_float * exchanged.dim;
    inputs_[i].wants_bags = BytesOfBags(t, i) < bytes_of_rows;
  }
}

int64_t RowRequest::BytesOfBags(size_t t, size_t input) const {
  const Table& table = tables_[t];
  const ExchangedTable& exchanged = layout_.tables[t];
  const Bags& bags = requests_[input].bags;
  // A bag has a part in each shard that contains one of its ids.
  std::vector<int64_t> last_bag(table.shards.size(), -1);
  int64_t num_parts = 0;
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    for (int64_t i = bags.row_splits[b]; i < bags.row_splits[b + 1]; ++i) {
      size_t shard = 0;
      if (!table.shard_of.empty()) {
        shard = table.shard_of[table.entry_of[static_cast<size_t>(inputs_[input].first_id + i)]];
      }
      num_parts += last_bag[shard] != b;
      last_bag[shard] = b;
    }
  }
  const int64_t copies = exchanged.by_rows ? 1 : static_cast<int64_t>(exchanged.slices.size());
  return num_parts * (2 * FloatBytes(wire_type_) * exchanged.dim + kBytesPerWord * copies) +
         bags.num_ids * kBytesPerWord * copies;
}

void RowRequest::AssignPlaces(size_t t) {
  Table& table = tables_[t];
  const ExchangedTable& exchanged = layout_.tables[t];
  const size_t num_entries = table.entry_ids.size();
  const auto wants_bags = [&](size_t i) { return inputs_[i].wants_bags; };
  const bool any_bags = std::any_of(table.inputs.begin(), table.inputs.end(), wants_bags);
  if (!any_bags && table.shards.size() == 1) {
    table.shards[0].num_ids = table.shards[0].num_single = static_cast<int64_t>(num_entries);
    return;
  }
  std::vector<uint8_t> is_single(num_entries, any_bags ? 0 : 1);
  for (const size_t i : table.inputs) {
    if (!any_bags || wants_bags(i)) continue;
    const auto first = table.entry_of.begin() + inputs_[i].first_id;
    std::for_each(first, first + requests_[i].bags.num_ids, [&](uint32_t u) { is_single[u] = 1; });
  }
  table.place_of.resize(num_entries);
  for (const uint8_t single : {uint8_t{1}, uint8_t{0}}) {
    for (size_t u = 0; u < num_entries; ++u) {
      if (is_single[u] != single) continue;
      Shard& shard = table.shards[table.shard_of.empty() ? 0 : table.shard_of[u]];
      table.place_of[u] = static_cast<uint32_t>(shard.ids.size());
      shard.ids.push_back(LocalId(exchanged, table.entry_ids[u]));
      shard.num_single += single;
    }
  }
  for (Shard& shard : table.shards) shard.num_ids = static_cast<int64_t>(shard.ids.size());
  for (const size_t i : table.inputs) {
    if (wants_bags(i)) AskForBags(table, i, &table.shards);
  }
  int64_t reply_rows = 0;
  for (Shard& shard : table.shards) {
    shard.first_reply_row = reply_rows;
    reply_rows += shard.num_reply_rows();
  }
}

void RowRequest::AskForBags(const Table& table, size_t i, std::vector<Shard>* shards) {
  Input& input = inputs_[i];
  const Bags& bags = requests_[i].bags;
  std::vector<int32_t> lengths(shards->size(), 0);
  input.splits.push_back(0);
  for (int64_t b = 0; b < bags.num_bags; ++b) {
    for (int64_t at = bags.row_splits[b]; at < bags.row_splits[b + 1]; ++at) {
      const uint32_t entry = table.entry_of[static_cast<size_t>(input.first_id + at)];
      const uint32_t shard = table.shard_of.empty() ? 0 : table.shard_of[entry];
      (*shards)[shard].places.push_back(static_cast<int32_t>(table.place_of[entry]));
      ++lengths[shard];
    }
    for (size_t s = 0; s < shards->size(); ++s) {
      if (lengths[s] == 0) continue;
      input.part_shards.push_back(static_cast<uint32_t>(s));
      input.parts.push_back(static_cast<uint32_t>((*shards)[s].lengths.size()));
      (*shards)[s].lengths.push_back(lengths[s]);
      lengths[s] = 0;
    }
    input.splits.push_back(static_cast<int64_t>(input.parts.size()));
  }
}

int64_t RowRequest::num_words(size_t rank) const {
  int64_t words = kHeaderWords;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    words += tables_[part.table].shards[layout_.shard(part)].num_words();
  }
  return words;
}

int64_t RowRequest::num_reply_words(size_t rank) const {
  int64_t words = kHeaderWords;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    const Shard& shard = tables_[part.table].shards[layout_.shard(part)];
    const ReplyFormat format(layout_.tables[part.table], layout_.slice(part).num_columns,
                             wire_type_);
    words += format.RowWords(shard.num_single) + format.SumWords(shard.num_bags());
  }
  return words;
}

int64_t RowRequest::num_gradient_words(size_t rank) const {
  int64_t floats = 0;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    const Shard& shard = tables_[part.table].shards[layout_.shard(part)];
    floats += shard.num_reply_rows() * layout_.slice(part).num_columns;
  }
  return kHeaderWords + FloatWords(wire_type_, floats);
}

int64_t RowRequest::num_positions(size_t input) const {
  if (inputs_[input].wants_bags) return static_cast<int64_t>(inputs_[input].parts.size());
  return requests_[input].bags.num_ids;
}

void RowRequest::Write(const Result& result, Executor* executor) const {
  const auto num_blocks = static_cast<int64_t>(layout_.num_ranks);
  const auto num_inputs = static_cast<int64_t>(inputs_.size());
  executor->ParallelFor(num_blocks + num_inputs, kNanosecondsPerBlock,
                        [&](int64_t first, int64_t last) {
                          for (int64_t i = first; i < last; ++i) {
                            if (i < num_blocks) {
                              WriteBlock(static_cast<size_t>(i), result.blocks[i]);
                            } else {
                              const auto input = static_cast<size_t>(i - num_blocks);
                              WriteInput(input, result.inputs[input]);
                            }
                          }
                        });
  const size_t num_all = tables_.size() * layout_.num_ranks;
  std::fill_n(result.reply_rows, 2 * num_all, 0);
  for (size_t t = 0; t < tables_.size(); ++t) {
    const ExchangedTable& table = layout_.tables[t];
    int64_t* rows = result.reply_rows + t * layout_.num_ranks;
    for (size_t s = 0; s < table.slices.size(); ++s) {
      const Shard& shard = tables_[t].shards[table.by_rows ? s : 0];
      const auto rank = static_cast<size_t>(table.slices[s].rank);
      rows[rank] = shard.num_reply_rows();
      rows[num_all + rank] = shard.num_single;
    }
  }
}

void RowRequest::WriteInput(size_t i, const InputResult& result) const {
  const Input& input = inputs_[i];
  const Bags& bags = requests_[i].bags;
  const Table& table = tables_[requests_[i].table];
  if (input.wants_bags) {
    for (size_t p = 0; p < input.parts.size(); ++p) {
      const Shard& shard = table.shards[input.part_shards[p]];
      result.positions[p] =
          static_cast<uint32_t>(shard.first_reply_row + shard.num_single) + input.parts[p];
    }
    std::copy(input.splits.begin(), input.splits.end(), result.splits);
  } else {
    const uint32_t* entry_of = table.entry_of.data() + input.first_id;
    for (int64_t p = 0; p < bags.num_ids; ++p) {
      const uint32_t entry = entry_of[p];
      const uint32_t shard = table.shard_of.empty() ? 0 : table.shard_of[entry];
      const uint32_t place = table.place_of.empty() ? entry : table.place_of[entry];
      result.positions[p] = static_cast<uint32_t>(table.shards[shard].first_reply_row) + place;
    }
    if (result.splits != nullptr) {
      std::copy_n(bags.row_splits, bags.num_bags + 1, result.splits);
    }
  }
  if (result.scales == nullptr) return;
  for (int64_t b = 0; b < bags.num_bags; ++b) result.scales[b] = bags.Scale(b);
}

void RowRequest::WriteBlock(size_t rank, Word* block) const {
  WriteStatus(Status::Ok(), layout_.checksum, block);
  block += kHeaderWords;
  for (const ExchangeLayout::Part& part : layout_.parts_of_rank[rank]) {
    const Table& table = tables_[part.table];
    const Shard& shard = table.shards[layout_.shard(part)];
    *block++ = static_cast<Word>(shard.num_ids);
    *block++ = static_cast<Word>(shard.num_single);
    *block++ = static_cast<Word>(shard.num_bags());
    *block++ = static_cast<Word>(shard.places.size());
    const int64_t* ids = shard.ids.empty() ? table.entry_ids.data() : shard.ids.data();
    if (shard.num_ids > 0) std::memcpy(block, ids, static_cast<size_t>(8 * shard.num_ids));
    block = std::copy(shard.lengths.begin(), shard.lengths.end(), block + 2 * shard.num_ids);
    block = std::copy(shard.places.begin(), shard.places.end(), block);
  }
}

}  // namespace keras_sparse
