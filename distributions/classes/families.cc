// The families of numbers: constraints of their parameters, formulas, samplers (which draw in the documented order).
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <type_traits>

#include "distributions/all_ops.h"
#include "distributions/classes/family_functions.h"
#include "distributions/classes/univariate.h"
#include "tensor/ops/api.h"

namespace tessera::distributions {
namespace {

constexpr double kEuler = 0.57721566490153286061, kPi = std::numbers::pi;

Tensor nans(const Tensor& p) { return full_like(p, std::numeric_limits<double>::quiet_NaN()); }
Tensor infs(const Tensor& p) { return full_like(p, std::numeric_limits<double>::infinity()); }
// values where `defined`, else nan.
Tensor known(const Tensor& defined, const Tensor& values) { return where(defined, values, nans(values)); }

constexpr Parameter kLocScale[] = {{"loc", &kReal}, {"scale", &kPositive}};
constexpr Parameter kScale[] = {{"scale", &kPositive}};
constexpr Parameter kRate[] = {{"rate", &kPositive}};
constexpr Parameter kConcentrationRate[] = {{"concentration", &kPositive}, {"rate", &kPositive}};
constexpr Parameter kConcentrations[] = {{"concentration1", &kPositive}, {"concentration0", &kPositive}};

template <size_t i>
Tensor parameter_itself(const Tensor* p) {
  return p[i];
}

const Family kNormal{.name = "Normal",
                     .parameters = kLocScale,
                     .support = &kReal,
                     .discrete = false,
                     .reparametrized = true,
                     .log_prob = of_value<_dist_normal_log_prob>,
                     .draw = [](const Tensor* p, const Generator& g) { return p[0] + normal_like(p[0], g) * p[1]; },
                     .mean = parameter_itself<0>,
                     .variance = [](const Tensor* p) { return square(p[1]); },
                     .mode = parameter_itself<0>,
                     .entropy = [](const Tensor* p) { return log(p[1]) + 1.4189385332046727; },
                     .cdf = of_value<_dist_normal_cdf>,
                     .icdf = of_value<_dist_normal_icdf>,
                     .kl = of_pairs<_dist_normal_kl>};
const Family kLogNormal{
    .name = "LogNormal",
    .parameters = kLocScale,
    .support = &kPositive,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_log_normal_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return exp(p[0] + normal_like(p[0], g) * p[1]); },
    .mean = [](const Tensor* p) { return exp(p[0] + square(p[1]) * 0.5); },
    .variance = [](const Tensor* p) { return expm1(square(p[1])) * exp(p[0] * 2 + square(p[1])); },
    .mode = [](const Tensor* p) { return exp(p[0] - square(p[1])); },
    .entropy = [](const Tensor* p) { return log(p[1]) + p[0] + 1.4189385332046727; },
    .cdf = [](const Tensor& x, const Tensor* p) { return _dist_normal_cdf(log(x), p[0], p[1]); },
    .icdf = [](const Tensor& x, const Tensor* p) { return exp(_dist_normal_icdf(x, p[0], p[1])); },
    .kl = of_pairs<_dist_normal_kl>};
const Family kLaplace{.name = "Laplace",
                      .parameters = kLocScale,
                      .support = &kReal,
                      .discrete = false,
                      .reparametrized = true,
                      .log_prob = of_value<_dist_laplace_log_prob>,
                      .draw =
                          [](const Tensor* p, const Generator& g) {
                            const Tensor u = empty_like(p[0].detach()).uniform_(epsilon_of(p[0]) - 1, 1, g);
                            return p[0] - p[1] * sign(u) * log1p(neg(abs(u)));
                          },
                      .mean = parameter_itself<0>,
                      .variance = [](const Tensor* p) { return square(p[1]) * 2; },
                      .mode = parameter_itself<0>,
                      .entropy = [](const Tensor* p) { return log(p[1] * 2) + 1; },
                      .cdf = of_value<_dist_laplace_cdf>,
                      .icdf = of_value<_dist_laplace_icdf>,
                      .kl = of_pairs<_dist_laplace_kl>};
const Family kCauchy{
    .name = "Cauchy",
    .parameters = kLocScale,
    .support = &kReal,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_cauchy_log_prob>,
    .draw = [](const Tensor* p,
               const Generator& g) { return p[0] + empty_like(p[0].detach()).cauchy_(0, 1, g) * p[1]; },
    .mean = [](const Tensor* p) { return nans(p[0]); },
    .variance = [](const Tensor* p) { return nans(p[0]); },
    .mode = parameter_itself<0>,
    .entropy = [](const Tensor* p) { return log(p[1] * (4 * kPi)); },
    .cdf = of_value<_dist_cauchy_cdf>,
    .icdf = of_value<_dist_cauchy_icdf>,
    .kl = of_pairs<_dist_cauchy_kl>};
const Family kGumbel{.name = "Gumbel",
                     .parameters = kLocScale,
                     .support = &kReal,
                     .discrete = false,
                     .reparametrized = true,
                     .log_prob = of_value<_dist_gumbel_log_prob>,
                     .draw =
                         [](const Tensor* p, const Generator& g) {
                           const double low = tiny_of(p[0]), high = 1 - epsilon_of(p[0]);
                           const Tensor u = uniform_like(p[0], g) * (high - low) + low;
                           return p[0] - p[1] * log(neg(log(u)));
                         },
                     .mean = [](const Tensor* p) { return p[0] + p[1] * kEuler; },
                     .variance = [](const Tensor* p) { return square(p[1]) * (kPi * kPi / 6); },
                     .mode = parameter_itself<0>,
                     .entropy = [](const Tensor* p) { return log(p[1]) + (1 + kEuler); },
                     .cdf = of_value<_dist_gumbel_cdf>,
                     .icdf = of_value<_dist_gumbel_icdf>};
const Family kHalfNormal{
    .name = "HalfNormal",
    .parameters = kScale,
    .support = &kNonNegative,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_half_normal_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return abs(normal_like(p[0], g) * p[0]); },
    .mean = [](const Tensor* p) { return p[0] * std::sqrt(2 / kPi); },
    .variance = [](const Tensor* p) { return square(p[0]) * (1 - 2 / kPi); },
    .mode = [](const Tensor* p) { return zeros_like(p[0]); },
    .entropy = [](const Tensor* p) { return log(p[0]) + 0.7257913526447274; },
    .kl = [](const Tensor* p,
             const Tensor* q) { return _dist_normal_kl(zeros_like(p[0]), p[0], zeros_like(q[0]), q[0]); }};
const Family kHalfCauchy{
    .name = "HalfCauchy",
    .parameters = kScale,
    .support = &kNonNegative,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_half_cauchy_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return abs(empty_like(p[0].detach()).cauchy_(0, 1, g) * p[0]); },
    .mean = [](const Tensor* p) { return infs(p[0]); },
    .variance = [](const Tensor* p) { return infs(p[0]); },
    .mode = [](const Tensor* p) { return zeros_like(p[0]); },
    .entropy = [](const Tensor* p) { return log(p[0] * (2 * kPi)); }};
const Family kExponential{.name = "Exponential",
                          .parameters = kRate,
                          .support = &kNonNegative,
                          .discrete = false,
                          .reparametrized = true,
                          .log_prob = of_value<_dist_exponential_log_prob>,
                          .draw = [](const Tensor* p, const Generator& g) { return exponential_like(p[0], g) / p[0]; },
                          .mean = [](const Tensor* p) { return reciprocal(p[0]); },
                          .variance = [](const Tensor* p) { return reciprocal(square(p[0])); },
                          .mode = [](const Tensor* p) { return zeros_like(p[0]); },
                          .entropy = [](const Tensor* p) { return 1 - log(p[0]); },
                          .cdf = of_value<_dist_exponential_cdf>,
                          .icdf = of_value<_dist_exponential_icdf>,
                          .kl = of_pairs<_dist_exponential_kl>};
const Family kGamma{.name = "Gamma",
                    .parameters = kConcentrationRate,
                    .support = &kNonNegative,
                    .discrete = false,
                    .reparametrized = true,
                    .log_prob = of_value<_dist_gamma_log_prob>,
                    .draw = [](const Tensor* p, const Generator& g) { return gamma_numbers(p[0], p[1], g); },
                    .mean = [](const Tensor* p) { return p[0] / p[1]; },
                    .variance = [](const Tensor* p) { return p[0] / square(p[1]); },
                    .mode = [](const Tensor* p) { return clamp_min((p[0] - 1) / p[1], 0); },
                    .entropy = of_parameters<_dist_gamma_entropy>,
                    .cdf = [](const Tensor& x, const Tensor* p) { return igamma(p[0], p[1] * x); },
                    .kl = of_pairs<_dist_gamma_kl>};
const Family kInverseGamma{
    .name = "InverseGamma",
    .parameters = kConcentrationRate,
    .support = &kPositive,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_inverse_gamma_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return reciprocal(gamma_numbers(p[0], p[1], g)); },
    .mean = [](const Tensor* p) { return where(gt(p[0], 1), p[1] / (p[0] - 1), infs(p[0])); },
    .variance = [](const Tensor* p) { return where(gt(p[0], 2), square(p[1] / (p[0] - 1)) / (p[0] - 2), infs(p[0])); },
    .mode = [](const Tensor* p) { return p[1] / (p[0] + 1); },
    .entropy = of_parameters<_dist_inverse_gamma_entropy>,
    .cdf = [](const Tensor& x, const Tensor* p) { return igammac(p[0], p[1] / x); },
    .kl = of_pairs<_dist_gamma_kl>};
const Family kBeta{.name = "Beta",
                   .parameters = kConcentrations,
                   .support = &kUnitInterval,
                   .discrete = false,
                   .reparametrized = true,
                   .log_prob = of_value<_dist_beta_log_prob>,
                   .draw =
                       [](const Tensor* p, const Generator& g) {
                         const std::array<Tensor, 2> both{p[0], p[1]};
                         return select(_sample_dirichlet(stack(both, -1), g), -1, 0);
                       },
                   .mean = [](const Tensor* p) { return p[0] / (p[0] + p[1]); },
                   .variance =
                       [](const Tensor* p) {
                         const Tensor sum = p[0] + p[1];
                         return p[0] * p[1] / (square(sum) * (sum + 1));
                       },
                   .mode =
                       [](const Tensor* p) {
                         const Tensor inside = logical_and(gt(p[0], 1), gt(p[1], 1));
                         return known(inside, (p[0] - 1) / (p[0] + p[1] - 2));
                       },
                   .entropy = of_parameters<_dist_beta_entropy>,
                   .kl = of_pairs<_dist_beta_kl>};
const Family kKumaraswamy{.name = "Kumaraswamy",
                          .parameters = kConcentrations,
                          .support = &kUnitInterval,
                          .discrete = false,
                          .reparametrized = true,
                          .log_prob = of_value<_dist_kumaraswamy_log_prob>,
                          .draw =
                              [](const Tensor* p, const Generator& g) {
                                const Tensor u = uniform_like(p[0], g);
                                return pow(1 - pow(u, reciprocal(p[1])), reciprocal(p[0]));
                              },
                          .mean =
                              [](const Tensor* p) {
                                const Tensor a = reciprocal(p[0]) + 1;
                                return exp(log(p[1]) + lgamma(a) + lgamma(p[1]) - lgamma(a + p[1]));
                              }};
constexpr Parameter kStudentParameters[] = {{"df", &kPositive}, {"loc", &kReal}, {"scale", &kPositive}};
const Family kStudentT{.name = "StudentT",
                       .parameters = kStudentParameters,
                       .support = &kReal,
                       .discrete = false,
                       .reparametrized = true,
                       .log_prob = of_value<_dist_student_t_log_prob>,
                       .draw =
                           [](const Tensor* p, const Generator& g) {
                             const Tensor x = normal_like(p[1], g);
                             const Tensor z = gamma_numbers(p[0] * 0.5, full_like(p[0], 0.5), g);
                             return p[1] + p[2] * x * rsqrt(z / p[0]);
                           },
                       .mean = [](const Tensor* p) { return known(gt(p[0], 1), p[1]); },
                       .variance =
                           [](const Tensor* p) {
                             const Tensor finite = square(p[2]) * p[0] / (p[0] - 2);
                             return known(gt(p[0], 1), where(gt(p[0], 2), finite, infs(finite)));
                           },
                       .mode = parameter_itself<1>,
                       .entropy = [](const Tensor* p) { return _dist_student_t_entropy(p[0], p[2]); }};
constexpr Parameter kFisherParameters[] = {{"df1", &kPositive}, {"df2", &kPositive}};
const Family kFisherSnedecor{
    .name = "FisherSnedecor",
    .parameters = kFisherParameters,
    .support = &kPositive,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_fisher_snedecor_log_prob>,
    .draw =
        [](const Tensor* p, const Generator& g) {
          const Tensor x1 = gamma_numbers(p[0] * 0.5, p[0], g), x2 = gamma_numbers(p[1] * 0.5, p[1], g);
          return clamp_min(x1 / x2, tiny_of(x1));
        },
    .mean = [](const Tensor* p) { return known(gt(p[1], 2), p[1] / (p[1] - 2)); },
    .variance =
        [](const Tensor* p) {
          const Tensor less = p[1] - 2;
          return known(gt(p[1], 4), square(p[1]) * 2 * (p[0] + less) / (p[0] * square(less) * (p[1] - 4)));
        },
    .mode = [](const Tensor* p) { return known(gt(p[0], 2), (p[0] - 2) / p[0] * p[1] / (p[1] + 2)); }};
constexpr Parameter kUniformParameters[] = {{"low", &kReal}, {"high", &kReal}};
const Family kUniform{
    .name = "Uniform",
    .parameters = kUniformParameters,
    .support = &kReal,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_uniform_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return p[0] + uniform_like(p[0], g) * (p[1] - p[0]); },
    .mean = [](const Tensor* p) { return (p[0] + p[1]) / 2; },
    .variance = [](const Tensor* p) { return square(p[1] - p[0]) / 12; },
    .mode = [](const Tensor* p) { return nans(p[0]); },
    .entropy = [](const Tensor* p) { return log(p[1] - p[0]); },
    .cdf = [](const Tensor& x, const Tensor* p) { return clamp((x - p[0]) / (p[1] - p[0]), 0, 1); },
    .icdf = [](const Tensor& x, const Tensor* p) { return x * (p[1] - p[0]) + p[0]; },
    .inside = [](const Tensor& x, const Tensor* p) { return logical_and(ge(x, p[0]), le(x, p[1])); }};
constexpr Parameter kParetoParameters[] = {{"scale", &kPositive}, {"alpha", &kPositive}};
const Family kPareto{
    .name = "Pareto",
    .parameters = kParetoParameters,
    .support = &kPositive,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_pareto_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return p[0] * exp(exponential_like(p[1], g) / p[1]); },
    .mean = [](const Tensor* p) { return where(gt(p[1], 1), p[1] * p[0] / (p[1] - 1), infs(p[1])); },
    .variance =
        [](const Tensor* p) {
          return where(gt(p[1], 2), square(p[0]) * p[1] / (square(p[1] - 1) * (p[1] - 2)), infs(p[1]));
        },
    .mode = parameter_itself<0>,
    .entropy = [](const Tensor* p) { return log(p[0] / p[1]) + reciprocal(p[1]) + 1; },
    .inside = [](const Tensor& x, const Tensor* p) { return ge(x, p[0]); }};
constexpr Parameter kWeibullParameters[] = {{"scale", &kPositive}, {"concentration", &kPositive}};
const Family kWeibull{
    .name = "Weibull",
    .parameters = kWeibullParameters,
    .support = &kPositive,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_weibull_log_prob>,
    .draw = [](const Tensor* p, const Generator& g) { return p[0] * pow(exponential_like(p[0], g), reciprocal(p[1])); },
    .mean = [](const Tensor* p) { return p[0] * exp(lgamma(reciprocal(p[1]) + 1)); },
    .variance =
        [](const Tensor* p) {
          const Tensor inverse = reciprocal(p[1]);
          return square(p[0]) * (exp(lgamma(inverse * 2 + 1)) - exp(lgamma(inverse + 1) * 2));
        },
    .mode = [](const Tensor* p) { return p[0] * pow(clamp_min(p[1] - 1, 0) / p[1], reciprocal(p[1])); },
    .entropy = [](const Tensor* p) { return (1 - reciprocal(p[1])) * kEuler + log(p[0] / p[1]) + 1; },
    .cdf = of_value<_dist_weibull_cdf>,
    .icdf = of_value<_dist_weibull_icdf>};

// The parameter r of the wrapped Cauchy distribution from which von Mises angles are proposed (Best and Fisher, 1979).
Tensor envelope_of(const Tensor& k) {
  const Tensor tau = sqrt(square(k) * 4 + 1) + 1, rho = (tau - sqrt(tau * 2)) / (k * 2);
  return where(lt(k, 1e-5), reciprocal(k) + k, (square(rho) + 1) / (rho * 2));
}
// Angles around 0: rounds of proposals for all elements until each had one accepted; it keeps its last one.
Tensor accepted_angles(const Tensor& k, const Generator& g) {
  const Tensor r = envelope_of(k);
  IntVector three{3};
  three.insert(three.end(), k.sizes().begin(), k.sizes().end());
  Tensor angles = zeros_like(k), done = lt(angles, 0);
  while (!all(done).item<bool>()) {
    const std::vector<Tensor> u = unbind(new_empty(k, three).uniform_(0, 1, g), 0);
    const Tensor turn = cos(u[0] * kPi), cosine = (r * turn + 1) / (r + turn), c = k * (r - cosine);
    const Tensor accepted = logical_or(gt(c * (2 - c) - u[1], 0), ge(log(c / u[1]) + 1 - c, 0));
    angles = where(accepted, sign(u[2] - 0.5) * acos(cosine), angles);
    done = logical_or(done, accepted);
  }
  return angles;
}
constexpr Parameter kVonMisesParameters[] = {{"loc", &kReal}, {"concentration", &kPositive}};
const Family kVonMises{.name = "VonMises",
                       .parameters = kVonMisesParameters,
                       .support = &kReal,
                       .discrete = false,
                       .reparametrized = false,
                       .log_prob = of_value<_dist_von_mises_log_prob>,
                       .draw =
                           [](const Tensor* p, const Generator& g) {
                             const Tensor loc = to(p[0], DType::kFloat64), k = contiguous(to(p[1], DType::kFloat64));
                             return to(remainder(accepted_angles(k, g) + kPi + loc, 2 * kPi) - kPi, p[0].dtype());
                           },
                       .mean = parameter_itself<0>,
                       .variance = [](const Tensor* p) { return 1 - special_i1e(p[1]) / special_i0e(p[1]); },
                       .mode = parameter_itself<0>};
constexpr Parameter kGeneralizedParetoParameters[] = {
    {"loc", &kReal}, {"scale", &kPositive}, {"concentration", &kReal}};
const Family kGeneralizedPareto{
    .name = "GeneralizedPareto",
    .parameters = kGeneralizedParetoParameters,
    .support = &kReal,
    .discrete = false,
    .reparametrized = true,
    .log_prob = of_value<_dist_generalized_pareto_log_prob>,
    .draw = [](const Tensor* p,
               const Generator& g) { return _dist_generalized_pareto_icdf(uniform_like(p[0], g), p[0], p[1], p[2]); },
    .mean = [](const Tensor* p) { return where(ge(p[2], 1), infs(p[2]), p[0] + p[1] / (1 - p[2])); },
    .variance =
        [](const Tensor* p) {
          const Tensor finite = square(p[1]) / (square(1 - p[2]) * (1 - p[2] * 2));
          return where(ge(p[2], 0.5), infs(p[2]), finite);
        },
    .mode = parameter_itself<0>,
    .entropy = [](const Tensor* p) { return log(p[1]) + p[2] + 1; },
    .cdf = of_value<_dist_generalized_pareto_cdf>,
    .icdf = of_value<_dist_generalized_pareto_icdf>,
    .inside =
        [](const Tensor& x, const Tensor* p) {
          const Tensor end = where(lt(p[2], 0), p[0] - p[1] / p[2], infs(p[2]));
          return logical_and(ge(x, p[0]), le(x, end));
        }};

}  // namespace

#define TESSERA_TWO_PARAMETERS(Name)                                   \
  Name::Name(const Tensor& first, const Tensor& second, bool validate) \
      : Univariate(k##Name, {first, second}, validate) {}
#define TESSERA_ONE_PARAMETER(Name) \
  Name::Name(const Tensor& first, bool validate) : Univariate(k##Name, {first}, validate) {}
TESSERA_TWO_PARAMETERS(Normal)
TESSERA_TWO_PARAMETERS(LogNormal)
TESSERA_TWO_PARAMETERS(Laplace)
TESSERA_TWO_PARAMETERS(Cauchy)
TESSERA_TWO_PARAMETERS(Gumbel)
TESSERA_ONE_PARAMETER(HalfNormal)
TESSERA_ONE_PARAMETER(HalfCauchy)
TESSERA_ONE_PARAMETER(Exponential)
TESSERA_TWO_PARAMETERS(Gamma)
TESSERA_TWO_PARAMETERS(InverseGamma)
TESSERA_TWO_PARAMETERS(Beta)
TESSERA_TWO_PARAMETERS(Kumaraswamy)
TESSERA_TWO_PARAMETERS(FisherSnedecor)
TESSERA_TWO_PARAMETERS(Pareto)
TESSERA_TWO_PARAMETERS(Weibull)
TESSERA_TWO_PARAMETERS(VonMises)

Chi2::Chi2(const Tensor& df, bool validate) : Gamma(df * 0.5, full_like(df, 0.5), false) {
  if (validate) check_parameter("Chi2", "df", df, kPositive);
}
Tensor Chi2::df() const { return concentration() * 2; }

StudentT::StudentT(const Tensor& df, const Tensor& loc, const Tensor& scale, bool validate)
    : Univariate(kStudentT, {df, loc, scale}, validate) {}

GeneralizedPareto::GeneralizedPareto(const Tensor& loc, const Tensor& scale, const Tensor& concentration, bool validate)
    : Univariate(kGeneralizedPareto, {loc, scale, concentration}, validate) {}

Uniform::Uniform(const Tensor& low, const Tensor& high, bool validate) : Univariate(kUniform, {low, high}, validate) {
  TESSERA_CHECK_VALUE(!validate || all(lt(low, high)).item<bool>(), "Uniform is not defined when low>= high");
}

}  // namespace tessera::distributions
