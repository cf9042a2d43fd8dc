#include "distributions/classes/distribution.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <limits>

#include "distributions/all_ops.h"
#include "tensor/core/dispatch_key.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::distributions {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
std::atomic<bool> g_validate{true};

std::string text_of(IntList shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + (shape.size() == 1 ? ",)" : ")");
}
// The first numbers.
std::string numbers_of(const Tensor& value) {
  constexpr int64_t kMost = 20;
  const Tensor flat = reshape(value.detach(), IntVector{-1});
  std::string text = "[";
  for (int64_t i = 0; i < std::min(flat.numel(), kMost); ++i) {
    char number[32];
    std::snprintf(number, sizeof number, "%s%g", i ? ", " : "", select(flat, 0, i).item<double>());
    text += number;
  }
  return text + (flat.numel() > kMost ? ", ...]" : "]");
}

}  // namespace

const Constraint kReal{"Real()", -kInf, kInf, 0}, kPositive{"GreaterThan(lower_bound=0.0)", 0, kInf, 1},
    kNonNegative{"GreaterThanEq(lower_bound=0.0)", 0, kInf, 0},
    kUnitInterval{"Interval(lower_bound=0.0, upper_bound=1.0)", 0, 1, 0}, kBoolean{"Boolean()", 0, 1, 4},
    kWhole{"IntegerGreaterThan(lower_bound=0)", 0, kInf, 4};

bool Constraint::check(const Tensor& value) const { return _dist_all_within(value, low, high, kind); }

void refuse_parameter(const char* distribution, const char* parameter, const Tensor& value, const char* constraint) {
  TESSERA_CHECK_VALUE(false, "Expected parameter ", parameter, " (Tensor of shape ", text_of(value.sizes()),
                      ") of distribution ", distribution, " to satisfy the constraint ", constraint,
                      ", but found invalid values:\n", numbers_of(value));
  __builtin_unreachable();
}
void check_parameter(const char* distribution, const char* parameter, const Tensor& value,
                     const Constraint& constraint) {
  if (!constraint.check(value)) refuse_parameter(distribution, parameter, value, constraint.text);
}
void check_support(const std::string& distribution, const Tensor& value, const Constraint& support) {
  if (!support.check(value)) refuse_value(distribution, value, support.text);
}
void refuse_value(const std::string& distribution, const Tensor& value, const char* support) {
  TESSERA_CHECK_VALUE(false, "Expected value argument (Tensor of shape ", text_of(value.sizes()),
                      ") to be within the support (", support, ") of the distribution ", distribution,
                      ", but found invalid values:\n", numbers_of(value));
  __builtin_unreachable();
}

void Distribution::set_default_validate_args(bool validate) { g_validate = validate; }
bool Distribution::default_validate_args() { return g_validate; }

void Distribution::not_there(const char* what) const {
  TESSERA_CHECK_NOT_IMPLEMENTED(false, name(), ": ", what, " is not there for this distribution");
  __builtin_unreachable();
}

Tensor Distribution::sample(IntList sample_shape, const Generator& generator) const {
  const NoGradGuard no_grad;
  return draw(to_vector(sample_shape), generator);
}
Tensor Distribution::rsample(IntList sample_shape, const Generator& generator) const {
  if (!has_rsample()) not_there("rsample");
  return draw(to_vector(sample_shape), generator);
}
Tensor Distribution::log_prob(const Tensor& value) const {
  if (validate_) check_value(value);
  return log_prob_of(value);
}
Tensor Distribution::cdf(const Tensor& value) const {
  if (validate_) check_value(value);
  return cdf_of(value);
}
Tensor Distribution::icdf(const Tensor& probability) const { return icdf_of(probability); }

Tensor Distribution::cdf_of(const Tensor&) const { not_there("cdf"); }
Tensor Distribution::icdf_of(const Tensor&) const { not_there("icdf"); }
Tensor Distribution::entropy() const { not_there("entropy"); }
Tensor Distribution::mean() const { not_there("mean"); }
Tensor Distribution::variance() const { not_there("variance"); }
Tensor Distribution::mode() const { not_there("mode"); }
Tensor Distribution::enumerate_support(bool) const { not_there("enumerate_support"); }
Tensor Distribution::stddev() const { return sqrt(variance()); }
Tensor Distribution::perplexity() const { return exp(entropy()); }

IntVector Distribution::full_shape(const IntVector& sample_shape) const {
  IntVector shape = sample_shape;
  shape.insert(shape.end(), batch_shape_.begin(), batch_shape_.end());
  shape.insert(shape.end(), event_shape_.begin(), event_shape_.end());
  return shape;
}
void Distribution::check_shape(const Tensor& value) const {
  const IntVector wanted = full_shape({});
  const IntList sizes = value.sizes();
  const size_t event = event_shape_.size();
  bool fits = sizes.size() >= event;
  for (size_t i = 1; fits && i <= std::min(sizes.size(), wanted.size()); ++i) {
    const int64_t have = sizes[sizes.size() - i], want = wanted[wanted.size() - i];
    fits = have == want || (i > event && (have == 1 || want == 1));
  }
  TESSERA_CHECK_VALUE(fits, "Value is not broadcastable with batch_shape+event_shape: ", text_of(sizes), " vs ",
                      text_of(wanted), ".");
}

}  // namespace tessera::distributions
