#include <map>
#include <tuple>
#include <typeindex>
#include <utility>

#include "ops/core/device/device_array.h"
#include "ops/core/device/device_floats.h"
#include "ops/core/gradients/row_segments.h"
#include "ops/core/operations/update_rows.h"
#include "ops/core/optimizer/update_launch.h"

namespace keras_sparse::cuda_impl {
namespace {

int64_t NumIds(const UpdateRequest& request) {
  int64_t num_ids = 0;
  for (const FoundGradient& each : request.gradients) num_ids += each.gradient.bags.num_ids;
  return num_ids;
}

// Class of rule, dim and floats per lane.
using Kind = std::tuple<std::type_index, int64_t, int>;
struct Group {
  Kind kind;
  std::vector<UpdateRequest> requests;
  int64_t num_rows = 0;
  int64_t num_ids = 0;

  bool HasRoomFor(const UpdateRequest& request) const {
    return num_rows + request.table.records.num_rows < RowSegments::kMost &&
           num_ids + NumIds(request) <= RowSegments::kMost;
  }
};

Kind KindOf(const UpdateRequest& request) {
  const int64_t dim = request.table.dim;
  bool has_vectors = RecordFormat::Of(request.rule->layout(), {}).HasVectors();
  for (const FoundGradient& each : request.gradients) {
    const GradientRows& grads = each.gradient.grads;
    has_vectors = has_vectors && HasVectors(grads.data, grads.stride, dim, grads.type);
  }
  return {typeid(*request.rule), dim, has_vectors ? kMaxLaneFloats : 1};
}

// Requests that one kernel launch updates, up to the number that fits 32-bit counts.
std::vector<Group> GroupsOf(const std::vector<UpdateRequest>& requests) {
  std::vector<Group> groups;
  std::map<Kind, size_t> last;
  for (UpdateRequest request : requests) {
    for (FoundGradient& each : request.gradients) {
      each.gradient.grads = each.gradient.grads.Of(request.table.dim);
    }
    const Kind kind = KindOf(request);
    const auto found = last.find(kind);
    if (found == last.end() || !groups[found->second].HasRoomFor(request)) {
      last[kind] = groups.size();
      groups.push_back({kind, {}});
    }
    Group& group = groups[last[kind]];
    group.num_rows += request.table.records.num_rows;
    group.num_ids += NumIds(request);
    group.requests.push_back(request);
  }
  return groups;
}

RecordWords WordsOf(const UpdateRequest& request) {
  const RecordLayout& layout = request.rule->layout();
  RecordWords words;
  if (layout.keeps_step()) words.last_word = layout.value_words();
  if (layout.keeps_gradient_step()) words.gradient_word = layout.kept_word();
  if (layout.keeps_frequency()) words.frequency_word = layout.record_words() - 1;
  words.last = static_cast<uint32_t>(request.rule->step() + 1);
  words.gradient = request.clock;
  return words;
}

// A group whose segments have been found.
struct Prepared {
  RuleKernels kernels;
  DeviceArray<UpdateTable> tables;
  RowSegments segments;
  UpdateLaunch launch;
};

Status Prepare(const Group& group, const uint32_t* any_refused, Device* device,
               Prepared* prepared) {
  std::vector<UpdateTable> tables;
  std::vector<SegmentRequest> segments;
  for (const UpdateRequest& each : group.requests) {
    const RecordFormat format = RecordFormat::Of(each.rule->layout(), each.rounding);
    UpdateTable table = {each.table.records, WordsOf(each), {}, format};
    KERAS_SPARSE_RETURN_IF_ERROR(each.history->Follow(*each.rule, device, &table.history));
    for (size_t i = 0; i < each.gradients.size(); ++i) {
      const FoundGradient& of_lookup = each.gradients[i];
      segments.push_back({of_lookup.gradient, of_lookup.found, each.table.records.num_rows, i > 0});
      tables.push_back(table);
      prepared->launch.rules.push_back(each.rule);
    }
  }
  KERAS_SPARSE_RETURN_IF_ERROR(DeviceArray<UpdateTable>::Copy(device, tables, &prepared->tables));
  KERAS_SPARSE_RETURN_IF_ERROR(RowSegments::Make(segments, device, &prepared->segments));
  UpdateLaunch& launch = prepared->launch;
  launch.tables = prepared->tables.data();
  launch.segments = prepared->segments.view();
  launch.num_ids = prepared->segments.num_ids();
  launch.any_refused = any_refused;
  launch.dim = std::get<1>(group.kind);
  launch.lane_floats = std::get<2>(group.kind);
  return Status::Ok();
}

}  // namespace

Status UpdateRows(const std::vector<UpdateRequest>& requests, const uint32_t* any_refused,
                  Device* device) {
  const std::vector<Group> groups = GroupsOf(requests);
  std::vector<Prepared> prepared(groups.size());
  for (size_t g = 0; g < groups.size(); ++g) {
    KERAS_SPARSE_RETURN_IF_ERROR(
        FindKernels(groups[g].requests[0].rule->name(), &prepared[g].kernels));
  }
  // All memory is allocated before a record changes.
  for (size_t g = 0; g < groups.size(); ++g) {
    KERAS_SPARSE_RETURN_IF_ERROR(Prepare(groups[g], any_refused, device, &prepared[g]));
  }
  for (const Prepared& each : prepared) {
    KERAS_SPARSE_RETURN_IF_ERROR(each.kernels.update(each.launch, device));
  }
  return Status::Ok();
}

}  // namespace keras_sparse::cuda_impl
