// The two halves of an L-BFGS step (Nocedal and Wright, Numerical Optimization): the direction from the last changes of
// the gradient (algorithm 7.4), and how far to go along it (algorithms 3.5 and 3.6). Parameters are one vector.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::optim::lbfgs {

// For each of the last steps, oldest first: how the gradient changed (y), how the parameters did (s), and 1 / (y s).
struct History {
  std::span<const Tensor> gradients;
  std::span<const Tensor> steps;
  std::span<const double> weights;
};
struct Direction {
  Tensor vector;
  std::vector<double> shares;  // of each step, oldest first
};
// -H gradient, where H approximates the inverse of the Hessian and begins as `scale` times the identity. ValueError for
// lists of different lengths.
Direction direction(const Tensor& gradient, const History& history, double scale);

// A function along a line: value and slope at a distance, and the whole gradient there.
struct Trial {
  double at = 0;
  double value = 0;
  double slope = 0;
  Tensor gradient;
};
// Where the cubic that has the values and slopes of two points is least, kept within [low, high]; the middle where it
// has no minimum (eq. 3.59).
double cubic_minimum(const Trial& a, const Trial& b, double low, double high);

struct Wolfe {
  double decrease = 1e-4;         // value <= start + decrease * distance * slope
  double flatness = 0.9;          // |slope| <= flatness * |slope at the start|
  double smallest_change = 1e-9;  // of a parameter, below which a bracket is not cut further
  int most_trials = 25;           // after the first
};
struct Found {
  Trial trial;
  int evaluations;
};
// A distance along `along` that meets the strong Wolfe conditions, or the best of those that were tried. `evaluate`
// gives the value and the gradient at a distance; the gradient may be in memory that the next call uses again.
// `start`: distance 0; `first`: where to look first.
Found strong_wolfe(const std::function<std::pair<double, Tensor>(double)>& evaluate, const Tensor& along,
                   const Trial& start, double first, const Wolfe& conditions = {});

}  // namespace tessera::optim::lbfgs
