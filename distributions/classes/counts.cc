// The families of counts, and those whose parameter is a probability or its logits.
#include <limits>

#include "distributions/classes/family_functions.h"
#include "distributions/classes/univariate.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {
namespace {

Tensor checked(const char* distribution, const Probs& probs, bool validate) {
  if (validate) check_parameter(distribution, "probs", probs.value, kUnitInterval);
  return logits_of(probs.value);
}
Tensor floor_of_logs(const Tensor& u, const Tensor& probs) { return floor(log(u) / log1p(neg(probs))); }

constexpr Parameter kLogits[] = {{"logits", &kReal}};
constexpr Parameter kCountLogits[] = {{"total_count", &kWhole}, {"logits", &kReal}};
constexpr Parameter kFailuresLogits[] = {{"total_count", &kNonNegative}, {"logits", &kReal}};
constexpr Parameter kProbs[] = {{"probs", &kUnitInterval}};
constexpr Parameter kRate[] = {{"rate", &kNonNegative}};

const Family kBernoulli{.name = "Bernoulli",
                        .parameters = kLogits,
                        .support = &kBoolean,
                        .discrete = true,
                        .reparametrized = false,
                        .log_prob = of_value<_dist_bernoulli_log_prob>,
                        .draw = [](const Tensor* p, const Generator& g) { return bernoulli(sigmoid(p[0]), g); },
                        .mean = [](const Tensor* p) { return sigmoid(p[0]); },
                        .variance = [](const Tensor* p) { return sigmoid(p[0]) * sigmoid(neg(p[0])); },
                        .mode =
                            [](const Tensor* p) {
                              const Tensor ones = to(ge(p[0], 0), p[0].dtype());
                              return masked_fill(ones, eq(p[0], 0), std::numeric_limits<double>::quiet_NaN());
                            },
                        .entropy = of_parameters<_dist_bernoulli_entropy>,
                        .kl = of_pairs<_dist_bernoulli_kl>};
// Moments of continuous Bernoulli numbers: around probs = 1/2, where the formulas are 0 / 0, by their series.
Tensor near_half(const Tensor& probs) { return lt(abs(probs.detach() - 0.5), 0.001); }
Tensor continuous_mean(const Tensor* p) {
  const Tensor probs = sigmoid(p[0]), near = near_half(probs), x = probs - 0.5, safe = masked_fill(probs, near, 0.25);
  const Tensor far = safe / (safe * 2 - 1) + reciprocal(log1p(neg(safe)) - log(safe));
  return where(near, (square(x) * (16.0 / 45) + 1.0 / 3) * x + 0.5, far);
}
Tensor continuous_variance(const Tensor* p) {
  const Tensor probs = sigmoid(p[0]), near = near_half(probs), safe = masked_fill(probs, near, 0.25);
  const Tensor odds = log1p(neg(safe)) - log(safe), squared = square(probs - 0.5);
  const Tensor far = safe * (safe - 1) / square(1 - safe * 2) + reciprocal(square(odds));
  return where(near, 1.0 / 12 - (1.0 / 15 - squared * (128.0 / 945)) * squared, far);
}
Tensor continuous_entropy(const Tensor* p) {
  return continuous_bernoulli_log_normalizer(p[0]) - continuous_mean(p) * p[0];
}
const Family kContinuousBernoulli{
    .name = "ContinuousBernoulli",
    .parameters = kLogits,
    .support = &kUnitInterval,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_continuous_bernoulli_log_prob>,
    .draw = [](const Tensor* p,
               const Generator& g) { return _dist_continuous_bernoulli_icdf(uniform_like(p[0], g), p[0]); },
    .mean = continuous_mean,
    .variance = continuous_variance,
    .entropy = continuous_entropy,
    .cdf = of_value<_dist_continuous_bernoulli_cdf>,
    .icdf = of_value<_dist_continuous_bernoulli_icdf>};
const Family kBinomial{
    .name = "Binomial",
    .parameters = kCountLogits,
    .support = &kWhole,
    .discrete = true,
    .reparametrized = false,
    .log_prob = of_value<_dist_binomial_log_prob>,
    .draw = [](const Tensor* p,
               const Generator& g) { return binomial(contiguous(p[0]), contiguous(sigmoid(p[1])), g); },
    .mean = [](const Tensor* p) { return p[0] * sigmoid(p[1]); },
    .variance = [](const Tensor* p) { return p[0] * sigmoid(p[1]) * sigmoid(neg(p[1])); },
    .mode = [](const Tensor* p) { return minimum(floor((p[0] + 1) * sigmoid(p[1])), p[0]); },
    .kl =
        [](const Tensor* p, const Tensor* q) {
          TESSERA_CHECK_NOT_IMPLEMENTED(!any(lt(p[0], q[0])).item<bool>(),
                                        "KL between Binomials where q.total_count > p.total_count is not implemented");
          const Tensor divergence = p[0] * _dist_bernoulli_kl(p[1], q[1]);
          const Tensor more = gt(p[0], q[0]);
          return masked_fill(divergence, more, std::numeric_limits<double>::infinity());
        },
    .inside = [](const Tensor& x, const Tensor* p) { return le(x, p[0]); }};
const Family kNegativeBinomial{
    .name = "NegativeBinomial",
    .parameters = kFailuresLogits,
    .support = &kWhole,
    .discrete = true,
    .reparametrized = false,
    .log_prob = of_value<_dist_negative_binomial_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return poisson(gamma_numbers(p[0], exp(neg(p[1])), g), g); },
    .mean = [](const Tensor* p) { return p[0] * exp(p[1]); },
    .variance = [](const Tensor* p) { return p[0] * exp(p[1]) / sigmoid(neg(p[1])); },
    .mode = [](const Tensor* p) { return where(gt(p[0], 0), floor((p[0] - 1) * exp(p[1])), zeros_like(p[0])); }};
const Family kGeometric{
    .name = "Geometric",
    .parameters = kProbs,
    .support = &kWhole,
    .discrete = true,
    .reparametrized = false,
    .log_prob = of_value<_dist_geometric_log_prob>,
    .draw = [](const Tensor* p,
               const Generator& g) { return floor_of_logs(clamp_min(uniform_like(p[0], g), tiny_of(p[0])), p[0]); },
    .mean = [](const Tensor* p) { return 1 / p[0] - 1; },
    .variance = [](const Tensor* p) { return (1 / p[0] - 1) / p[0]; },
    .mode = [](const Tensor* p) { return zeros_like(p[0]); },
    .entropy = of_parameters<_dist_geometric_entropy>,
    .kl =
        [](const Tensor* p, const Tensor* q) {
          const Tensor odds = log1p(neg(q[0])) / p[0];
          return neg(_dist_geometric_entropy(p[0])) - odds - (log(q[0]) - log1p(neg(q[0])));
        }};
const Family kPoisson{.name = "Poisson",
                      .parameters = kRate,
                      .support = &kWhole,
                      .discrete = true,
                      .reparametrized = false,
                      .log_prob = of_value<_dist_poisson_log_prob>,
                      .draw = [](const Tensor* p, const Generator& g) { return poisson(p[0], g); },
                      .mean = [](const Tensor* p) { return p[0]; },
                      .variance = [](const Tensor* p) { return p[0]; },
                      .mode = [](const Tensor* p) { return floor(p[0]); },
                      .kl = of_pairs<_dist_poisson_kl>};

constexpr Parameter kRelaxedParameters[] = {{"temperature", &kPositive}, {"logits", &kReal}};
const Family kLogitRelaxedBernoulli{.name = "LogitRelaxedBernoulli",
                                    .parameters = kRelaxedParameters,
                                    .support = &kReal,
                                    .discrete = false,
                                    .reparametrized = true,
                                    .log_prob = of_value<_dist_logit_relaxed_bernoulli_log_prob>,
                                    .draw = [](const Tensor* p, const Generator& g) {
                                      const Tensor noise = logits_of(uniform_like(p[1], g));
                                      return (noise + logits_of(sigmoid(p[1]))) / p[0];
                                    }};

}  // namespace

LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Tensor& temperature, const Probs& probs, bool validate)
    : Univariate(kLogitRelaxedBernoulli, {temperature, checked("LogitRelaxedBernoulli", probs, validate)}, validate) {}
LogitRelaxedBernoulli::LogitRelaxedBernoulli(const Tensor& temperature, const Logits& logits, bool validate)
    : Univariate(kLogitRelaxedBernoulli, {temperature, logits.value}, validate) {}

Bernoulli::Bernoulli(const Probs& probs, bool validate)
    : Univariate(kBernoulli, {checked("Bernoulli", probs, validate)}, false) {
  validate_ = validate;
}
Bernoulli::Bernoulli(const Logits& logits, bool validate) : Univariate(kBernoulli, {logits.value}, validate) {}
Tensor Bernoulli::probs() const { return sigmoid(logits()); }
Tensor Bernoulli::enumerate_support(bool expand) const {
  IntVector shape{2};
  shape.insert(shape.end(), batch_shape_.size(), 1);
  const Tensor values = reshape(arange(2, logits().dtype(), std::nullopt, logits().device()), shape);
  std::copy(batch_shape_.begin(), batch_shape_.end(), shape.begin() + 1);
  return expand ? tessera::expand(values, shape) : values;
}

ContinuousBernoulli::ContinuousBernoulli(const Probs& probs, bool validate)
    : Univariate(kContinuousBernoulli, {checked("ContinuousBernoulli", probs, validate)}, false) {
  validate_ = validate;
}
ContinuousBernoulli::ContinuousBernoulli(const Logits& logits, bool validate)
    : Univariate(kContinuousBernoulli, {logits.value}, validate) {}

Binomial::Binomial(const Tensor& total_count, const Probs& probs, bool validate)
    : Univariate(kBinomial, {total_count, checked("Binomial", probs, validate)}, validate) {}
Binomial::Binomial(const Tensor& total_count, const Logits& logits, bool validate)
    : Univariate(kBinomial, {total_count, logits.value}, validate) {}

NegativeBinomial::NegativeBinomial(const Tensor& total_count, const Probs& probs, bool validate)
    : Univariate(kNegativeBinomial, {total_count, checked("NegativeBinomial", probs, validate)}, validate) {}
NegativeBinomial::NegativeBinomial(const Tensor& total_count, const Logits& logits, bool validate)
    : Univariate(kNegativeBinomial, {total_count, logits.value}, validate) {}

Geometric::Geometric(const Probs& probs, bool validate) : Univariate(kGeometric, {probs.value}, validate) {
  if (validate && !all(gt(probs.value, 0)).item<bool>())
    refuse_parameter("Geometric", "probs", probs.value, "GreaterThan(lower_bound=0.0)");
}
Poisson::Poisson(const Tensor& rate, bool validate) : Univariate(kPoisson, {rate}, validate) {}

}  // namespace tessera::distributions
