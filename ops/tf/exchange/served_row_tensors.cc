#include "ops/tf/exchange/served_row_tensors.h"

#include "absl/strings/str_cat.h"
#include "ops/tf/binding/output_allocator.h"

namespace keras_sparse {

absl::Status LocalSlices::Check(const ExchangeLayout& layout, const TableList& handles) {
  const size_t num_parts = layout.own_parts().size();
  if (pools.size() != num_parts || handles.size() != num_parts) {
    return InvalidInput(absl::StrCat("`pools` and `handles` must have one entry a part, ",
                                     num_parts, ". Received: ", pools.size(), " and ",
                                     handles.size()));
  }
  for (size_t p = 0; p < num_parts; ++p) {
    tables.push_back(handles[p]);
    const ExchangeLayout::Part& part = layout.own_parts()[p];
    const int64_t num_columns = layout.slice(part).num_columns;
    if (handles[p]->options().types.row != layout.tables[part.table].row_type) {
      return InvalidInput(absl::StrCat("`row_dtypes` must be those of the tables. Received: ",
                                       "another one for table '", handles[p]->name(), "'"));
    }
    if (handles[p]->dim() == num_columns) continue;
    return InvalidInput(absl::StrCat(
        "`handles` must be the tables of the layout's own parts. Received: table '",
        handles[p]->name(), "' of width ", handles[p]->dim(), " for a part of ", num_columns));
  }
  return absl::OkStatus();
}

absl::Status ServedIds::Make(const ExchangeLayout& layout, const GatheredRows& served,
                             const std::vector<bool>& pools) {
  const auto num_parts = static_cast<int64_t>(pools.size());
  const auto num_ranks = static_cast<int64_t>(layout.num_ranks);
  TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT64, {num_parts, num_ranks}, &served_rows));
  for (size_t p = 0; p < pools.size(); ++p) {
    ids.emplace_back();
    row_splits.emplace_back();
    const int64_t num_splits = pools[p] ? served.num_rows(p) + 1 : 0;
    TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT64, {served.num_ids(p)}, &ids.back()));
    TF_RETURN_IF_ERROR(MakeTensor(tf::DT_INT64, {num_splits}, &row_splits.back()));
    served.WriteIds(p, ids.back().flat<int64_t>().data(),
                    pools[p] ? row_splits.back().flat<int64_t>().data() : nullptr);
    for (size_t r = 0; r < layout.num_ranks; ++r) {
      served_rows.matrix<int64_t>()(static_cast<int64_t>(p), static_cast<int64_t>(r)) =
          served.num_rows(p, r);
    }
  }
  return absl::OkStatus();
}

std::vector<const int64_t*> ServedIds::id_pointers() const {
  std::vector<const int64_t*> pointers;
  for (const tf::Tensor& tensor : ids) pointers.push_back(tensor.flat<int64_t>().data());
  return pointers;
}

void ServedIds::SetOutputs(tf::OpKernelContext* ctx, int output) const {
  ctx->set_output(output++, served_rows);
  for (const tf::Tensor& tensor : ids) ctx->set_output(output++, tensor);
  for (const tf::Tensor& tensor : row_splits) ctx->set_output(output++, tensor);
}

Status MakeReply(const ExchangeLayout& layout, FloatType wire_type, const GatheredRows& served,
                 const LocalSlices& parts, const ServedIds& ids, ExchangePlace* place,
                 BlockOutputs* blocks, std::vector<int64_t>* versions,
                 std::vector<uint32_t>* num_updates) {
  for (size_t p = 0; p < parts.pools.size(); ++p) {
    if (!served.has_bags(p) || parts.pools[p]) continue;
    return FailedPrecondition(
        "every rank must make the layer with the same combiners. Received: bags of a table "
        "without a combiner on this rank");
  }
  std::vector<int64_t> num_words;
  std::vector<int64_t> gradient_words;  // which may be more
  for (size_t r = 0; r < layout.num_ranks; ++r) {
    num_words.push_back(served.num_words(r, wire_type));
    gradient_words.push_back(kHeaderWords + FloatWords(wire_type, served.num_floats(r)));
  }
  KERAS_SPARSE_RETURN_IF_ERROR(CheckNumWords(layout, gradient_words));
  std::vector<Word*> words;
  KERAS_SPARSE_RETURN_IF_ERROR(FromTf(blocks->AllocateWords(kHeaderWords, num_words, &words)));
  KERAS_SPARSE_RETURN_IF_ERROR(place->WriteHeaders(layout, blocks->Blocks()));
  const std::vector<LookupRequest> lookups =
      served.Lookups(parts.tables, ids.id_pointers(), words, wire_type, versions, num_updates);
  for (const LookupRequest& each : lookups) {
    const int64_t num_floats = each.bags.num_bags * each.table->dim();
    const int64_t bytes = FloatBytes(each.rows.type) * num_floats;
    const int64_t padding = 4 * FloatWords(each.rows.type, num_floats) - bytes;
    if (padding == 0) continue;
    KERAS_SPARSE_RETURN_IF_ERROR(place->Clear(static_cast<char*>(each.rows.data) + bytes, padding));
  }
  return place->Lookup(lookups);
}

}  // namespace keras_sparse
