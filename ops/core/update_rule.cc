#include "ops/core/update_rule.h"

#include <algorithm>
#include <map>
#include <utility>

namespace keras_sparse {
namespace {

struct Entry {
  int num_slots;
  UpdateRule::Factory factory;
};

std::map<std::string, Entry>& Registry() {
  static auto* registry = new std::map<std::string, Entry>();
  return *registry;
}

class NoRule : public UpdateRule {
 public:
  explicit NoRule(int64_t dim) : UpdateRule("none", RowSchema(dim, {}, false)) {}
  int num_numbers() const override { return 0; }
  void BeginStep(int64_t /*step*/, const float* /*numbers*/) override {}
  void Update(float* const* /*records*/, const float* const* /*gradients*/,
              int64_t /*n*/) const override {}
};

}  // namespace

bool UpdateRule::Register(const std::string& name, int num_slots, Factory factory) {
  return Registry().emplace(name, Entry{num_slots, factory}).second;
}

Status UpdateRule::Create(const std::string& name, int64_t dim,
                          const std::vector<float>& slot_initial_values,
                          std::unique_ptr<UpdateRule>* rule) {
  const auto entry = Registry().find(name);
  if (entry == Registry().end()) {
    std::string names;
    for (const auto& known : Registry()) names += (names.empty() ? "'" : ", '") + known.first + "'";
    return InvalidArgument("`rule` must be one of (" + names + "). Received: rule='" + name + "'");
  }
  const int num_slots = static_cast<int>(slot_initial_values.size());
  if (num_slots != entry->second.num_slots) {
    return InvalidArgument("`slot_initial_values` must have one value a slot, " +
                           std::to_string(entry->second.num_slots) + " for rule '" + name +
                           "'. Received: " + std::to_string(num_slots) + " values");
  }
  *rule = entry->second.factory(dim, slot_initial_values);
  return Status::Ok();
}

std::unique_ptr<UpdateRule> UpdateRule::None(int64_t dim) { return std::make_unique<NoRule>(dim); }

void UpdateRule::Read(const float* record, float* row) const {
  std::copy_n(record, schema().dim(), row);
}

}  // namespace keras_sparse
