#include "ops/core/optimizer/update_rule.h"

#include <algorithm>
#include <array>
#include <utility>

#include "ops/core/base/registry.h"

namespace keras_sparse {
namespace {

Registry<UpdateRule::Factory>& Rules() {
  static auto* rules = new Registry<UpdateRule::Factory>("`rule`", "`constants` of rule", "rule=");
  return *rules;
}

// Packed records that are converted together, so that the processor loads several at once.
constexpr int64_t kPackedRows = 32;

class NoRule : public UpdateRule {
 public:
  NoRule(int64_t dim, KeptWords keeps, RecordTypes types)
      : UpdateRule({"none", dim, {}, 0, keeps, types}, RecordLayout(dim, {}, false)) {}

 protected:
  void UpdateRecords(float* const* /*records*/, const float* const* /*gradients*/,
                     int64_t /*n*/) const override {}
};

}  // namespace

bool UpdateRule::Register(const std::string& name, std::vector<std::string> constant_names,
                          Factory factory) {
  return Rules().Add(name, factory, std::move(constant_names));
}

Status UpdateRule::Create(const RuleOptions& options, std::unique_ptr<UpdateRule>* rule) {
  Factory factory = nullptr;
  KERAS_SPARSE_RETURN_IF_ERROR(Rules().Find(options.rule, &factory, options.constants));
  *rule = factory(options);
  return Status::Ok();
}

std::unique_ptr<UpdateRule> UpdateRule::None(int64_t dim, KeptWords keeps, RecordTypes types) {
  return std::make_unique<NoRule>(dim, keeps, types);
}

Status UpdateRule::CheckNumbers(const std::vector<float>& numbers) const {
  if (static_cast<int>(numbers.size()) != num_numbers()) {
    return InvalidArgument("`numbers` of rule '" + name() + "' must be " +
                           std::to_string(num_numbers()) +
                           ". Received: " + std::to_string(numbers.size()));
  }
  if (weight_decay() != 0 && !(weight_decay() * static_cast<double>(numbers[0]) < 1)) {
    return InvalidArgument(
        "`weight_decay` times the learning rate must be below 1, or a step would take all of a row "
        "and more; lower one of them. Received: weight_decay=" +
        std::to_string(weight_decay()) + ", learning_rate=" + std::to_string(numbers[0]));
  }
  return Status::Ok();
}

Status UpdateRule::ForgottenStep(const RecordLayout& layout, const float* record, int64_t i) const {
  return InvalidArgument("the last step of a record must be in [" +
                         std::to_string(step_ - log_.num_steps()) + ", " + std::to_string(step_) +
                         "] modulo 2^32, the steps that rule '" + name() +
                         "' remembers. Received: records[" + std::to_string(i) + "] of step " +
                         std::to_string(layout.LastStep(record)));
}

void UpdateRule::BeginStep(const std::vector<float>& numbers) {
  learning_rate_ = numbers[0];
  decay_ = static_cast<float>(weight_decay() * static_cast<double>(learning_rate_));
  SetNumbers(numbers.data() + 1);
  if (defers_moves()) numbers_ = numbers;
}

void UpdateRule::Update(float* const* records, const float* const* gradients, int64_t n) const {
  UpdateRecords(records, gradients, n);
  if (!defers_moves()) return;
  for (int64_t i = 0; i < n; ++i) float_layout_.SetLastStep(records[i], step_ + 1);
}

void UpdateRule::UpdatePacked(const Rounding& rounding, const int64_t* keys, float* const* records,
                              const float* const* gradients, int64_t n) const {
  const auto words = static_cast<size_t>(float_layout_.record_words());
  static thread_local std::vector<float> unpacked;
  unpacked.resize(words * kPackedRows);
  std::array<float*, kPackedRows> floats;
  for (size_t i = 0; i < floats.size(); ++i) floats[i] = unpacked.data() + i * words;
  for (int64_t begin = 0; begin < n; begin += kPackedRows) {
    const int64_t size = std::min(kPackedRows, n - begin);
    for (int64_t i = 0; i < size; ++i) {
      float* record = floats[static_cast<size_t>(i)];
      UnpackRecord(layout_, records[begin + i], record);
      if (defers_moves()) CatchUp(record);
    }
    Update(floats.data(), gradients + begin, size);
    for (int64_t i = 0; i < size; ++i) {
      PackRecord(layout_, floats[static_cast<size_t>(i)], rounding, keys[begin + i],
                 records[begin + i]);
    }
  }
}

void UpdateRule::FinishStep() {
  if (defers_moves()) log_.Append(numbers_);
  ++step_;
  RememberStep();
}

RuleHistory UpdateRule::history() const {
  return {step_ - log_.num_steps(), step_, num_numbers(), log_.run_lengths(), log_.numbers(), 0};
}

void UpdateRule::Read(const float* record, float* row) const { std::copy_n(record, dim(), row); }

}  // namespace keras_sparse
