#include "optim/lbfgs/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "tensor/ops/api.h"

namespace tessera::optim::lbfgs {
namespace {

double number(const Tensor& t) { return t.item_scalar().to_double(); }
double product(const Tensor& a, const Tensor& b) { return number(dot(a, b)); }

class Search {
 public:
  Search(const std::function<std::pair<double, Tensor>(double)>& evaluate, const Tensor& along, const Trial& start,
         const Wolfe& conditions)
      : evaluate_(evaluate), along_(along), start_(start), conditions_(conditions) {}

  // Goes outwards until two neighbours have a good point between them.
  Found run(double first) {
    Trial before = start_;
    Trial now = look(first);
    for (; trials_ < conditions_.most_trials; ++trials_) {
      const bool rises = trials_ > 1 && now.value >= before.value;
      if (too_high(now) || rises) return narrow(before, now);
      if (flat(now)) return {now, evaluations_};
      if (now.slope >= 0) return narrow(before, now);
      const double next = cubic_minimum(before, now, now.at + 0.01 * (now.at - before.at), 10 * now.at);
      before = std::exchange(now, look(next));
    }
    return narrow(start_, now);
  }

 private:
  Trial look(double at) {
    auto [value, gradient] = evaluate_(at);
    ++evaluations_;
    return {at, value, product(gradient, along_), gradient.clone()};
  }
  bool too_high(const Trial& t) const { return t.value > start_.value + conditions_.decrease * t.at * start_.slope; }
  bool flat(const Trial& t) const { return std::abs(t.slope) <= -conditions_.flatness * start_.slope; }

  // A good point lies between the two: cuts until it is found, or nothing is left to cut.
  Found narrow(const Trial& a, const Trial& b) {
    Trial ends[] = {a, b};
    const double reach = number(along_.abs().max());
    auto lower = [&] { return ends[0].value <= ends[1].value ? 0 : 1; };
    int best = lower();
    for (; trials_ < conditions_.most_trials; ++trials_) {
      if (std::abs(ends[1].at - ends[0].at) * reach < conditions_.smallest_change) break;
      Trial now = look(inside(ends));
      if (too_high(now) || now.value >= ends[best].value) {
        ends[1 - best] = std::move(now);
        best = lower();
        continue;
      }
      const bool done = flat(now);
      if (!done && now.slope * (ends[1 - best].at - ends[best].at) >= 0) ends[1 - best] = ends[best];
      ends[best] = std::move(now);
      if (done) break;
    }
    return {ends[best], evaluations_};
  }

  // Where the cubic is least; a second point in a row that hugs an end is moved away from it, so that the bracket
  // shrinks.
  double inside(const Trial (&ends)[2]) {
    const auto [low, high] = std::minmax(ends[0].at, ends[1].at);
    const double at = cubic_minimum(ends[0], ends[1], low, high);
    const double margin = 0.1 * (high - low);
    const bool hugs = std::min(high - at, at - low) < margin;
    const bool move = hugs && (hugged_ || at <= low || at >= high);
    hugged_ = hugs && !move;
    if (!move) return at;
    return high - at < at - low ? high - margin : low + margin;
  }

  const std::function<std::pair<double, Tensor>(double)>& evaluate_;
  const Tensor& along_;
  const Trial& start_;
  const Wolfe& conditions_;
  int evaluations_ = 0;
  int trials_ = 0;
  bool hugged_ = false;
};

}  // namespace

Direction direction(const Tensor& gradient, const History& history, double scale) {
  const size_t n = history.steps.size();
  TESSERA_CHECK_VALUE(history.gradients.size() == n && history.weights.size() == n,
                      "direction: expected as many changes of the gradient (", history.gradients.size(),
                      ") and weights (", history.weights.size(), ") as steps (", n, ")");
  Direction out{gradient.neg(), std::vector<double>(n)};
  Tensor& v = out.vector;
  for (size_t i = n; i-- > 0;) {
    out.shares[i] = product(history.steps[i], v) * history.weights[i];
    v.add_(history.gradients[i], -out.shares[i]);
  }
  v.mul_(scale);
  for (size_t i = 0; i < n; ++i)
    v.add_(history.steps[i], out.shares[i] - product(history.gradients[i], v) * history.weights[i]);
  return out;
}

double cubic_minimum(const Trial& a, const Trial& b, double low, double high) {
  const Trial& left = a.at <= b.at ? a : b;
  const Trial& right = a.at <= b.at ? b : a;
  const double bend = a.slope + b.slope - 3 * (a.value - b.value) / (a.at - b.at);
  const double square = bend * bend - a.slope * b.slope;
  if (square < 0) return (low + high) / 2;
  const double root = std::sqrt(square);
  const double back = (right.slope + root - bend) / (right.slope - left.slope + 2 * root);
  return std::min(std::max(right.at - (right.at - left.at) * back, low), high);
}

Found strong_wolfe(const std::function<std::pair<double, Tensor>(double)>& evaluate, const Tensor& along,
                   const Trial& start, double first, const Wolfe& conditions) {
  return Search(evaluate, along, start, conditions).run(first);
}

}  // namespace tessera::optim::lbfgs
