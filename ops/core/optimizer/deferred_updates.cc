#include "ops/core/optimizer/deferred_updates.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "ops/core/math/vector_functions.h"

namespace keras_sparse {
namespace {

// As a share of the sum of all moves: less is too small for a float.
constexpr double kNegligible = 1e-9;
constexpr double kSeriesError = 1e-7;
constexpr double kGreatestScale = 1e6;
constexpr double kGreatestReach = 1e18;
// Far below the largest float.
constexpr double kGreatest = 1e30;
// Each step updates all live pieces.
constexpr int64_t kMaxLength = 1024;

int64_t Reach(double mu, double nu, double epsilon) {
  if (mu == 0) return 0;
  double reach = kGreatestReach;
  // A move shrinks by mu / nu a step while the scale is large compared with epsilon ...
  if (mu < nu) reach = Log(kNegligible) / Log(mu / nu);
  // ... and by mu once it is small. Until then it may even grow.
  if (mu < 1 && epsilon > 0) {
    const double small = std::min(1.0, epsilon / kGreatestScale);
    reach = std::min(reach, Log(kNegligible * small) / Log(mu));
  }
  // Damaged constants are meaningless, but must not lead to a huge allocation.
  return reach >= 0 && reach < kGreatestReach ? static_cast<int64_t>(std::ceil(reach))
                                              : static_cast<int64_t>(kGreatestReach);
}

}  // namespace

DeferredUpdates::DeferredUpdates(double mu, double nu, double epsilon)
    : nu_(nu), reach_(Reach(mu, nu, epsilon)), max_length_(std::min(reach_, kMaxLength)) {
  shift_[0] = mu / nu;
  for (size_t i = 1; i < kTerms; ++i) shift_[i] = shift_[i - 1] / nu;
  recent_.resize(static_cast<size_t>(max_length_) + 1);
}

void DeferredUpdates::Prepend(const Step& step, double kept, Sums* sums) const {
  double term = step.weight * kept;
  const double absolute = std::abs(term);
  sums->absolute = shift_[0] * (absolute + sums->absolute);
  sums->centered = shift_[1] * (absolute * step.offset + sums->centered);
  for (size_t i = 0; i < (nu_ == 1 ? 1 : kTerms); ++i, term *= step.offset) {
    sums->weighted[i] = shift_[i] * (term + sums->weighted[i]);
  }
  double least = sums->least_offset;
  if (absolute > 0) least = least == 0 ? step.offset : std::min(least, step.offset);
  sums->least_offset = least / nu_;
}

DeferredUpdates::Piece DeferredUpdates::PieceOf(const Sums& sums, int64_t length,
                                                bool* is_exact) const {
  Piece piece = {length, 1, static_cast<float>(sums.weighted[0]), {}};
  *is_exact = sums.absolute <= kGreatest;
  if (nu_ == 1 || sums.absolute == 0) return piece;
  const double center = sums.centered / sums.absolute;
  // Expands (q / c - 1)^i by the binomial theorem: differences of the sums of W (q / c)^i. Always
  // computes all of them, even unused ones, because the compiler then vectorizes the loop.
  PerPower row;
  double scale = 1;
  for (size_t i = 0; i < kTerms; ++i, scale /= center) row[i] = sums.weighted[i] * scale;
  PerPower moments;
  for (size_t i = 0; i < kTerms; ++i) {
    moments[i] = row[0];
    for (size_t j = 0; j + 1 < kTerms; ++j) row[j] = row[j + 1] - row[j];
  }
  piece.center = static_cast<float>(center);
  for (size_t i = 0; i < std::size(piece.moments); ++i) {
    piece.moments[i] = static_cast<float>(moments[i + 2]);
  }
  // Among the omitted terms, N_1 is zero unless rates have both signs, and N_6 estimates all later
  // terms as long as no q is far below the center. Written so that NaN is not exact.
  const double error = kSeriesError * sums.absolute;
  *is_exact = *is_exact && center <= kGreatest && sums.least_offset >= center / 2 &&
              std::abs(moments[1]) <= error && std::abs(moments[kTerms - 1]) <= error;
  return piece;
}

void DeferredUpdates::Freeze(const Piece& piece) {
  ++first_live_;
  if (!frozen_.empty() && frozen_.back() == piece) {
    ++num_alike_;
    return;
  }
  if (num_alike_ > 0) frozen_.resize(frozen_.size() + num_alike_, frozen_.back());
  num_alike_ = 0;
  frozen_.push_back(piece);
}

void DeferredUpdates::Append(double weight, double offset, double keep) {
  if (reach_ == 0) return;
  const auto ring = static_cast<int64_t>(recent_.size());
  const Step appended = {weight, offset, keep};
  const bool is_equal = appended == recent_[static_cast<size_t>((num_steps_ + ring - 1) % ring)];
  if (is_steady_ && is_equal) {
    ++num_steps_;
    ++first_live_;
    ++num_alike_;
    return;
  }
  num_equal_ = is_equal ? num_equal_ + 1 : 1;
  recent_[static_cast<size_t>(num_steps_ % ring)] = appended;
  ++num_steps_;
  const size_t num_alike_before = num_alike_;
  Sums sums;
  double kept = 1;
  next_live_.clear();
  const int64_t max_length = std::min(max_length_, num_steps_ - first_live_);
  for (int64_t length = 1; length <= max_length; ++length) {
    const Step& step = recent_[static_cast<size_t>((num_steps_ - length) % ring)];
    Prepend(step, kept, &sums);
    kept *= step.keep;
    bool is_exact = true;
    const Piece piece = PieceOf(sums, length, &is_exact);
    if (!is_exact && length > 1) break;
    next_live_.push_back(piece);
  }
  // Pieces left out of next_live_ are as a step ago, the oldest first. In live_ each is one
  // position nearer to the front than it would be in next_live_.
  for (size_t i = live_.size(); i + 1 > next_live_.size(); --i) Freeze(live_[i - 1]);
  live_.swap(next_live_);
  is_steady_ = IsSteady(num_alike_before);
}

bool DeferredUpdates::IsSteady(size_t num_alike_before) const {
  return num_equal_ > max_length_ && num_alike_ == num_alike_before + 1 && live_ == next_live_;
}

void DeferredUpdates::Forget() {
  forgotten_ = num_steps_;
  first_live_ = num_steps_;
  live_.clear();
  frozen_ = std::vector<Piece>();  // frees the memory
  num_alike_ = 0;
  is_steady_ = false;
}

int64_t DeferredUpdates::bytes() const {
  const size_t pieces = live_.capacity() + next_live_.capacity() + frozen_.capacity();
  return static_cast<int64_t>(pieces * sizeof(Piece) + recent_.capacity() * sizeof(Step));
}

}  // namespace keras_sparse
