#include "optim/schedules/schedules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace tessera::optim::schedules {
namespace {
constexpr double kPi = std::numbers::pi;
}  // namespace

double step_weight(double epoch, double size, double gamma) { return std::pow(gamma, std::floor(epoch / size)); }
double step_change(double epoch, double size, double gamma) {
  if (size == 0 && epoch != 0) return std::numeric_limits<double>::infinity();
  return epoch != 0 && std::fmod(epoch, size) == 0 ? gamma : 1;
}

double exponential_weight(double epoch, double gamma) { return std::pow(gamma, epoch); }
double exponential_change(double epoch, double gamma) { return epoch == 0 ? 1 : gamma; }

double constant_weight(double epoch, double factor, double total) { return factor + (epoch >= total ? 1 - factor : 0); }
double constant_change(double epoch, double factor, double total) {
  return epoch == 0 ? factor : epoch == total ? 1 / factor : 1;
}

double linear_weight(double epoch, double start, double end, double total) {
  return start + (end - start) * (std::min(total, epoch) / total);
}
double linear_change(double epoch, double start, double end, double total) {
  if (epoch == 0) return start;
  return epoch > total ? 1 : 1 + (end - start) / (total * start + (epoch - 1) * (end - start));
}

double polynomial_weight(double epoch, double total, double power) {
  return std::pow(1 - std::min(total, epoch) / total, power);
}
double polynomial_change(double epoch, double total, double power) {
  return epoch == 0 || epoch > total ? 1 : std::pow((1 - epoch / total) / (1 - (epoch - 1) / total), power);
}

double cosine_weight(double epoch, double period) { return (1 + std::cos(kPi * epoch / period)) / 2; }
CosineChange cosine_change(double epoch, double period) {
  if (std::fmod(epoch - 1 - period, 2 * period) == 0) return {true, (1 - std::cos(kPi / period)) / 2};
  return {false, (1 + std::cos(kPi * epoch / period)) / (1 + std::cos(kPi * (epoch - 1) / period))};
}

Cycle restart_cycle(double epoch, double first, double factor) {
  if (epoch < first) return {epoch, first};
  if (factor == 1) return {std::fmod(epoch, first), first};
  // n cycles of first factor^i epochs take first (factor^n - 1) / (factor - 1)
  const double n = std::floor(std::log(epoch / first * (factor - 1) + 1) / std::log(factor));
  const double grown = std::pow(factor, n);
  return {epoch - first * (grown - 1) / (factor - 1), first * grown};
}
Cycle next_in_cycle(double position, double length, double factor) {
  if (position + 1 < length) return {position + 1, length};
  return {std::fmod(position + 1, length), length * factor};
}

Triangle triangle(double step, double length, double rise) {
  const double cycle = std::floor(1 + step / length), x = 1 + step / length - cycle;
  return {static_cast<int64_t>(cycle), x <= rise ? x / rise : (x - 1) / (rise - 1)};
}
double halved_amplitude(double cycle) { return 1 / std::pow(2, cycle - 1); }

Phase phase_of(double step, std::span<const double> ends) {
  const auto end = std::lower_bound(ends.begin(), ends.end() - 1, step);
  const double begin = end == ends.begin() ? 0 : end[-1];
  return {end - ends.begin(), (step - begin) / (*end - begin)};
}

double averaging_weight(double step, double total, bool cosine) {
  const double t = std::clamp(step / std::max(1.0, total), 0.0, 1.0);
  return cosine ? (1 - std::cos(kPi * t)) / 2 : t;
}

bool improves(double metric, double best, double threshold, bool larger, bool relative) {
  if (larger) return metric > (relative ? best * (threshold + 1) : best + threshold);
  return metric < (relative ? best * (1 - threshold) : best - threshold);
}
Plateau next_plateau(bool better, int64_t bad, int64_t cooling, int64_t patience, int64_t cooldown) {
  bad = better || cooling > 0 ? 0 : bad + 1;
  cooling = std::max<int64_t>(cooling - 1, 0);
  return bad > patience ? Plateau{0, cooldown, true} : Plateau{bad, cooling, false};
}

}  // namespace tessera::optim::schedules
