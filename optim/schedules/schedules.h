// Learning-rate schedules as formulas of the epoch. Epochs are numbers from 0 on; fractions are allowed.
//
// A *weight* is the rate of an epoch over the first one: the closed form. A *change* is what the rate of the epoch
// before is multiplied by, whoever set that rate: the recurrence; 1 where nothing happens. Both are computed in double
// precision in the documented order. Where a formula divides by zero the result is not finite.
#pragma once

#include <cstdint>
#include <span>

namespace tessera::optim::schedules {

// Times gamma every `size` epochs.
double step_weight(double epoch, double size, double gamma);
double step_change(double epoch, double size, double gamma);
// Times gamma every epoch. The change is none in epoch 0.
double exponential_weight(double epoch, double gamma);
double exponential_change(double epoch, double gamma);
// `factor` before the epoch `total`, 1 from then on.
double constant_weight(double epoch, double factor, double total);
double constant_change(double epoch, double factor, double total);
// From `start` to `end` in `total` epochs.
double linear_weight(double epoch, double start, double end, double total);
double linear_change(double epoch, double start, double end, double total);
// (1 - epoch / total)^power, 0 from `total` on.
double polynomial_weight(double epoch, double total, double power);
double polynomial_change(double epoch, double total, double power);

// (1 + cos(pi epoch / period)) / 2, the share of the way from the lowest to the highest rate (Loshchilov and Hutter
// 2016).
double cosine_weight(double epoch, double period);
// The same as a recurrence: low + (rate - low) weight; or, where the rate was at its lowest and `rises` therefore, rate
// + (base - low) weight.
struct CosineChange {
  bool rises;
  double weight;
};
CosineChange cosine_change(double epoch, double period);

// Where an epoch lies among cycles of first, first factor, first factor^2 ... epochs; and the place one epoch after
// another.
struct Cycle {
  double position, length;
};
Cycle restart_cycle(double epoch, double first, double factor);
Cycle next_in_cycle(double position, double length, double factor);

// Smith's triangles (2015): the cycle that a step lies in, from 1 on, and the height there, which rises to 1 in the
// share `rise` of the cycle.
struct Triangle {
  int64_t cycle;
  double height;
};
Triangle triangle(double step, double length, double rise);
// Amplitudes of triangles: halved with each cycle.
double halved_amplitude(double cycle);

// The phase that a step lies in, given the last steps of the phases, and the share of that phase which has passed; past
// the last end the last phase goes on.
struct Phase {
  int64_t number;
  double passed;
};
Phase phase_of(double step, std::span<const double> ends);

// The share of the way from the first rate to the averaging rate after `step` of `total` steps; a cosine or a straight
// line.
double averaging_weight(double step, double total, bool cosine);

// Counting of epochs without improvement: more than `patience` of them make a reduction due, after which `cooldown`
// epochs do not count.
bool improves(double metric, double best, double threshold, bool larger, bool relative);
struct Plateau {
  int64_t bad, cooling;
  bool reduce;
};
Plateau next_plateau(bool better, int64_t bad, int64_t cooling, int64_t patience, int64_t cooldown);

}  // namespace tessera::optim::schedules
