// The moves that a row makes in steps without a gradient, many at once.
#ifndef KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_
#define KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "ops/core/base/host_device.h"

namespace keras_sparse {

// Without a gradient, an optimizer of the Adam kind goes on so in step k:
//
//     momentum *= mu,  scale *= nu
//     row       = keep_k * row - weight_k * momentum / (scale + offset_k)
//
// (scale is Adam's sqrt(velocity), offset its epsilon). After the steps a+1 to b the row has moved,
// beside its decay, by momentum_a * f(scale_a) with
//
//     f(scale) = sum over k of  W_k / (scale + q_k),    q_k = offset_k * nu^(a-k),
//                               W_k = weight_k * (mu / nu)^(k-a) * keep_(k+1) * ... * keep_b
//
// The q_k lie close together where W_k counts, since nu is close to one. Around their weighted mean
// c the sum is a short series, good for any scale from zero to infinity: with u = c / (scale + c),
// which is between 0 and 1, and the moments N_i = sum over k of W_k (q_k / c - 1)^i,
//
//     f(scale) = (N_0 + N_2 u^2 - N_3 u^3 + N_4 u^4 - N_5 u^5 + ...) / (scale + c)
//
// The moments depend on the steps alone, so that a row costs as much for a thousand missed steps as
// for one. They are kept for each a, and renewed with each step as long as they still change. Where
// the series is not good enough (the q_k spread too far, rates of both signs), a run of steps is
// cut into pieces; a piece of one step is exact by itself.
//
// Without `nu` (1) the move is momentum_a * N_0: no scale, or one that stays.
//
// Thread safety: const methods may overlap; Append needs the object alone.
class DeferredUpdates {
 public:
  // A run of steps as one move.
  struct Piece {
    int64_t length = 0;     // steps
    float center = 1;       // c, in the unit of the offsets
    float total = 0;        // N_0
    float moments[4] = {};  // N_2 .. N_5

    bool operator==(const Piece& other) const {
      return length == other.length && center == other.center && total == other.total &&
             std::equal(moments, moments + 4, other.moments);
    }
    // Decays what has been moved so far.
    KERAS_SPARSE_HOST_DEVICE void Keep(float factor) {
      total *= factor;
      for (float& moment : moments) moment *= factor;
    }
    // f at a scale. `epsilon` is the unit of the offsets.
    KERAS_SPARSE_HOST_DEVICE float Over(float scale, float epsilon) const {
      const float c = center * epsilon;
      const float inverse = 1 / (scale + c);
      const float u = c * inverse;
      const float tail = moments[0] - u * (moments[1] - u * (moments[2] - u * moments[3]));
      return inverse * (total + u * u * tail);
    }
  };

  // Pieces as a loop or a kernel reads them. Those of a DeferredUpdates are valid until it changes.
  struct View {
    // Of the gradient's step: pieces that still grow are live, from the youngest to the oldest; the
    // others, in order, are frozen. What follows the last frozen one kept is like it.
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

  // epsilon  the unit of the offsets: how far rows move on is judged by it
  // REQUIRES: 0 <= mu <= 1, 0 < nu <= 1; with a nu of 1 all offsets are 1
  DeferredUpdates(double mu, double nu, double epsilon);

  // One step more. `offset` is in units of epsilon, and 1 unless the step says otherwise.
  void Append(double weight, double offset, double keep);

  // Moves that come more than `reach` steps after the last gradient do not show in a float.
  int64_t reach() const { return reach_; }

  // The piece that begins after the first `from` steps. It ends at the last step, or earlier: then
  // the rest follows as the piece that begins there, unless it is out of reach.
  // REQUIRES: steps forgotten <= from < steps appended; reach() > 0
  const Piece& From(int64_t from) const { return view().From(from); }

  // Numbers the steps from here on.
  // REQUIRES: no step has been added
  void StartAt(int64_t step) {
    num_steps_ = step;
    Forget();
  }

  // Forgets the steps so far; they keep their numbers.
  void Forget();
  int64_t bytes() const;

 private:
  static constexpr int kTerms = 7;
  using PerPower = std::array<double, kTerms>;  // of exponents 0 to 6; the last tells the error
  // Over the steps of a piece.
  struct Sums {
    PerPower weighted = {};   // of W_k q_k^i
    double absolute = 0;      // of |W_k|
    double centered = 0;      // of |W_k| q_k
    double least_offset = 0;  // the least q_k with a W_k, 0 without any
  };
  struct Step {
    double weight;
    double offset;
    double keep;

    bool operator==(const Step& other) const {
      return weight == other.weight && offset == other.offset && keep == other.keep;
    }
  };

  // Puts a step before those of the sums.
  //   kept  what decay has left at the end of the piece
  void Prepend(const Step& step, double kept, Sums* sums) const;
  Piece PieceOf(const Sums& sums, int64_t length, bool* is_exact) const;
  void Freeze(const Piece& piece);
  // Returns whether the step that is appended has changed nothing but the count of frozen pieces,
  // and a further step like it would do the same.
  //   num_alike_before  num_alike_ before it
  bool IsSteady(size_t num_alike_before) const;

  double nu_;
  PerPower shift_;  // by what the sums grow when the gradient lies a step further back
  int64_t reach_;
  int64_t max_length_;

  int64_t num_steps_ = 0;
  int64_t forgotten_ = 0;     // of these
  std::vector<Step> recent_;  // the last max_length_ steps, in a ring
  int64_t num_equal_ = 0;     // steps, up to the last one, that are like it
  // Then a step like the last one need not be looked at: at a rate that stays the same, a step
  // costs nanoseconds, and millions of them can be taken again at once.
  bool is_steady_ = false;

  // While rates stay the same all frozen ones are equal, of which one is kept.
  int64_t first_live_ = 0;
  std::vector<Piece> live_;
  std::vector<Piece> next_live_;
  std::vector<Piece> frozen_;
  size_t num_alike_ = 0;  // frozen after the last one kept
};

}  // namespace keras_sparse

#endif  // KERAS_SPARSE_OPS_CORE_OPTIMIZER_DEFERRED_UPDATES_H_
