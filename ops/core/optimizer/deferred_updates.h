// DeferredUpdates: combines the moves of a row in many steps without a gradient.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Without a gradient, an optimizer like Adam continues in step k with
//
//     momentum *= mu,  scale *= nu
//     row       = keep_k * row - weight_k * momentum / (scale + offset_k)
//
// (scale is Adam's sqrt(velocity), offset its epsilon). After the steps a+1 to b the row has moved,
// besides its decay, by momentum_a * f(scale_a) with
//
//     f(scale) = sum over k of  W_k / (scale + q_k),    q_k = offset_k * nu^(a-k),
//                               W_k = weight_k * (mu / nu)^(k-a) * keep_(k+1) * ... * keep_b
//
// The q_k are close together where W_k matters, because nu is close to one. Around their weighted
// mean c the sum is a short series that holds for any scale from zero to infinity: with u = c /
// (scale + c), which is between 0 and 1, and the moments N_i = sum over k of W_k (q_k / c - 1)^i,
//
//     f(scale) = (N_0 + N_2 u^2 - N_3 u^3 + N_4 u^4 - N_5 u^5 + ...) / (scale + c)
//
// The moments depend only on the steps, so a row costs as much for a thousand missed steps as for
// one. They are kept for each a, and updated in each step as long as they still change. Where the
// series is not accurate enough (the q_k spread too far, or rates have both signs), a run of steps
// is cut into pieces; a piece of one step is exact.
//
// Without `nu` (1) the move is momentum_a * N_0: there is no scale, or it is constant.
//
// Thread safety: const methods may overlap; Append needs exclusive access to the object.
class DeferredUpdates {
 public:
  // A run of steps as one move.
  struct Piece {
    int64_t length = 0;     // number of steps
    float center = 1;       // c, in units of the offsets
    float total = 0;        // N_0
    float moments[4] = {};  // N_2 .. N_5

    bool operator==(const Piece& other) const {
      return length == other.length && center == other.center && total == other.total &&
             std::equal(moments, moments + 4, other.moments);
    }
    // Applies decay to the moves so far.
    KERAS_SPARSE_HOST_DEVICE void Keep(float factor) {
      total *= factor;
      for (float& moment : moments) moment *= factor;
    }
    // Returns f at a scale. `epsilon` is the unit of the offsets.
    KERAS_SPARSE_HOST_DEVICE float Over(float scale, float epsilon) const {
      const float c = center * epsilon;
      const float inverse = 1 / (scale + c);
      const float u = c * inverse;
      const float tail = moments[0] - u * (moments[1] - u * (moments[2] - u * moments[3]));
      return inverse * (total + u * u * tail);
    }
  };

  // The pieces as loops and kernels read them. Valid until the DeferredUpdates changes.
  struct View {
    // Pieces by the gradient's step. Live pieces, which still grow, are ordered from the youngest
    // to the oldest; the others, in order, are frozen. Pieces after the last frozen one kept are
    // equal to it.
    const Piece* live = nullptr;
    int64_t num_live = 0;
    const Piece* frozen = nullptr;
    int64_t num_frozen = 0;
    int64_t num_steps = 0;
    int64_t first_live = 0;
    int64_t forgotten = 0;
    int64_t reach = 0;

    KERAS_SPARSE_HOST_DEVICE const Piece& From(int64_t from) const {
      if (from >= first_live) return live[num_steps - from - 1];
      const int64_t i = from - forgotten;
      return frozen[i < num_frozen ? i : num_frozen - 1];
    }
  };
  View view() const {
    return {live_.data(),   static_cast<int64_t>(live_.size()),
            frozen_.data(), static_cast<int64_t>(frozen_.size()),
            num_steps_,     first_live_,
            forgotten_,     reach_};
  }

  //   epsilon  the unit of the offsets, which decides how far moves matter
  // REQUIRES: 0 <= mu <= 1, 0 < nu <= 1; with a nu of 1 all offsets are 1
  DeferredUpdates(double mu, double nu, double epsilon);

  // Appends a step. `offset` is in units of epsilon, and 1 by default.
  void Append(double weight, double offset, double keep);

  // Moves more than `reach` steps after the last gradient are too small for a float.
  int64_t reach() const { return reach_; }

  // Returns the piece that begins after the first `from` steps. It ends at the last step, or
  // earlier: the rest then follows as the piece that begins there, unless it is out of reach.
  // REQUIRES: steps forgotten <= from < steps appended; reach() > 0
  const Piece& From(int64_t from) const { return view().From(from); }

  // Numbers the next steps after `step`.
  // REQUIRES: no step was appended
  void StartAt(int64_t step) {
    num_steps_ = step;
    Forget();
  }

  // Forgets the steps so far; they keep their numbers.
  void Forget();
  int64_t bytes() const;

 private:
  static constexpr int kTerms = 7;
  using PerPower = std::array<double, kTerms>;  // of exponents 0 to 6; the last estimates the error
  // Sums over the steps of a piece.
  struct Sums {
    PerPower weighted = {};   // of W_k q_k^i
    double absolute = 0;      // of |W_k|
    double centered = 0;      // of |W_k| q_k
    double least_offset = 0;  // the smallest q_k with a W_k, 0 if there is none
  };
  struct Step {
    double weight;
    double offset;
    double keep;

    bool operator==(const Step& other) const {
      return weight == other.weight && offset == other.offset && keep == other.keep;
    }
  };

  // Adds a step before those of the sums.
  //   kept  the part that decay has left at the end of the piece
  void Prepend(const Step& step, double kept, Sums* sums) const;
  Piece PieceOf(const Sums& sums, int64_t length, bool* is_exact) const;
  void Freeze(const Piece& piece);
  // Returns whether the appended step has changed only the count of frozen pieces, and a further
  // equal step would do the same.
  //   num_alike_before  num_alike_ before the step
  bool IsSteady(size_t num_alike_before) const;

  double nu_;
  PerPower shift_;  // factors by which the sums grow when the gradient is one step older
  int64_t reach_;
  int64_t max_length_;

  int64_t num_steps_ = 0;
  int64_t forgotten_ = 0;     // of these
  std::vector<Step> recent_;  // the last max_length_ steps, in a ring
  int64_t num_equal_ = 0;     // number of last steps that are equal to the last one
  // If true, a step equal to the last one needs no work: with a constant rate, a step costs
  // nanoseconds, and millions of steps can be replayed at once.
  bool is_steady_ = false;

  // With constant rates all frozen pieces are equal, and only one is kept.
  int64_t first_live_ = 0;
  std::vector<Piece> live_;
  std::vector<Piece> next_live_;
  std::vector<Piece> frozen_;
  size_t num_alike_ = 0;  // frozen pieces equal to the last one kept
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_
