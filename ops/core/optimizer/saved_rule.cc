#include "ops/core/optimizer/saved_rule.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <string>
#include <vector>

#include "ops/core/record/packed_record.h"

namespace keras_sparse {
namespace {

constexpr int64_t kNanosecondsPerCatchUp = 200;
// A record stores its step modulo this.
constexpr int64_t kStepPeriod = int64_t{1} << 32;

// Returns the numbers of run `r` of a history.
std::vector<float> NumbersOf(const RuleHistory& history, size_t r) {
  const auto width = static_cast<std::ptrdiff_t>(history.num_numbers);
  const auto begin = history.numbers.begin() + static_cast<std::ptrdiff_t>(r) * width;
  return {begin, begin + width};
}

Status CheckRunLengths(const RuleHistory& history) {
  if (history.first_step < 0 || history.step < history.first_step) {
    return InvalidArgument(
        "`first_step` must be at least 0, and `step` at least that. Received: first_step=" +
        std::to_string(history.first_step) + ", step=" + std::to_string(history.step));
  }
  int64_t num_steps = 0;
  for (size_t r = 0; r < history.run_lengths.size(); ++r) {
    const int64_t length = history.run_lengths[r];
    if (length < 1 || length >= kStepPeriod - num_steps) {
      return InvalidArgument(
          "`run_lengths` must be at least 1 each and below 2^32 together. Received: run_lengths[" +
          std::to_string(r) + "] = " + std::to_string(length));
    }
    num_steps += length;
  }
  if (history.step - history.first_step != num_steps) {
    return InvalidArgument("`run_lengths` must be the steps from `first_step` to `step`, " +
                           std::to_string(history.step - history.first_step) +
                           ". Received: " + std::to_string(num_steps) + " steps");
  }
  return Status::Ok();
}

Status CheckNumbers(const UpdateRule& rule, const RuleHistory& history) {
  const size_t num_runs = history.run_lengths.size();
  if (history.num_numbers != rule.num_numbers() ||
      history.numbers.size() != num_runs * static_cast<size_t>(rule.num_numbers())) {
    return InvalidArgument("`numbers` of rule '" + rule.name() + "' must be (" +
                           std::to_string(num_runs) + ", " + std::to_string(rule.num_numbers()) +
                           "), one row a run. Received: " + std::to_string(history.numbers.size()) +
                           " numbers, " + std::to_string(history.num_numbers) + " a row");
  }
  for (size_t r = 0; r < num_runs; ++r) {
    KERAS_SPARSE_RETURN_IF_ERROR(rule.CheckNumbers(NumbersOf(history, r)));
  }
  return Status::Ok();
}

}  // namespace

Status SavedRule::Replay(const RuleOptions& options, const RuleHistory& history,
                         std::unique_ptr<UpdateRule>* rule) {
  if (options.dim < 1 || options.dim > kMaxOutputDim) {
    return InvalidArgument("`output_dim` must be in [1, " + std::to_string(kMaxOutputDim) +
                           "]. Received: output_dim=" + std::to_string(options.dim));
  }
  std::unique_ptr<UpdateRule> replayed;
  KERAS_SPARSE_RETURN_IF_ERROR(UpdateRule::Create(options, &replayed));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckRunLengths(history));
  KERAS_SPARSE_RETURN_IF_ERROR(CheckNumbers(*replayed, history));
  replayed->StartAt(history.first_step);
  for (size_t r = 0; r < history.run_lengths.size(); ++r) {
    const std::vector<float> numbers = NumbersOf(history, r);
    for (int64_t i = 0; i < history.run_lengths[r]; ++i) {
      replayed->BeginStep(numbers);
      replayed->FinishStep();
    }
  }
  *rule = std::move(replayed);
  return Status::Ok();
}

Status SavedRule::Open(const RuleOptions& options, const RuleHistory& history,
                       std::unique_ptr<SavedRule>* rule) {
  std::unique_ptr<UpdateRule> replayed;
  KERAS_SPARSE_RETURN_IF_ERROR(Replay(options, history, &replayed));
  rule->reset(new SavedRule(std::move(replayed)));
  return Status::Ok();
}

Status SavedRule::CatchUp(const float* raw, int64_t n, int64_t width, float* records,
                          Executor* executor) const {
  if (width != record_words()) {
    return InvalidArgument("`raw` must be " + std::to_string(record_words()) +
                           " words wide, what a record of rule '" + rule_->name() +
                           "' takes. Received: " + std::to_string(width));
  }
  const int64_t record_floats = layout().record_floats();
  const auto float_words = static_cast<size_t>(rule_->float_layout().record_words());
  std::atomic<int64_t> wrong{n};  // the first record with a step outside the history
  executor->ParallelFor(n, kNanosecondsPerCatchUp, [&](int64_t begin, int64_t end) {
    std::vector<float> record(float_words);
    for (int64_t i = begin; i < end; ++i) {
      if (!rule_->RemembersLastStep(layout(), raw + i * width)) {
        int64_t least = wrong.load();
        while (i < least && !wrong.compare_exchange_weak(least, i)) {
        }
        return;
      }
      UnpackRecord(layout(), raw + i * width, record.data());
      rule_->CatchUp(record.data());
      RoundRecord(layout(), record.data());
      std::copy_n(record.data(), record_floats, records + i * record_floats);
    }
  });
  if (wrong == n) return Status::Ok();
  return rule_->ForgottenStep(layout(), raw + wrong * width, wrong);
}

}  // namespace keras_sparse
