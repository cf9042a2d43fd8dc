// Between different families of numbers, KL(p | q) = -H(p) - E_p[log q(x)], where log q is a sum of few functions of x:
// kKinds has their expectations by p's family, and log q written with them.
#include "distributions/classes/divergences.h"

#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>

#include "distributions/classes/categories.h"
#include "distributions/classes/composed.h"
#include "distributions/classes/family_functions.h"
#include "distributions/classes/matrices.h"
#include "distributions/classes/vector_functions.h"
#include "tensor/ops/promotion.h"

namespace tessera::distributions {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity(), kPi = std::numbers::pi;
constexpr double kEuler = 0.57721566490153286061;

// Where a family has its numbers: everywhere, above 0, above its scale, between 0 and 1, between its parameters.
enum class Reach { kLine, kHalfLine, kAboveScale, kUnit, kBetween };

struct Kind;
using Parameters = const Tensor*;
struct Kind {
  std::string_view name;
  Reach reach;
  // E_p[log q(x)] for x in q's support; undefined where an expectation is not known.
  Tensor (*expected_log)(const Univariate& p, const Kind& known, Parameters q);
  // Expectations over this family of log(x), log(1 - x), exp(t x), |x - center|.
  Tensor (*log)(Parameters p) = nullptr;
  Tensor (*log_rest)(Parameters p) = nullptr;
  Tensor (*exp)(Parameters p, const Tensor& t) = nullptr;
  Tensor (*around)(Parameters p, const Tensor& center) = nullptr;
};

Parameters of(const Univariate& p) { return p.parameters().data(); }

Tensor of_normal(const Univariate& p, const Kind&, Parameters q) {
  const Tensor squares = square(p.mean() - q[0]) + p.variance();
  return squares / square(q[1]) * -0.5 - log(q[1]) - 0.5 * std::log(2 * kPi);
}
Tensor of_laplace(const Univariate& p, const Kind& known, Parameters q) {
  if (!known.around) return {};
  return neg(known.around(of(p), q[0])) / q[1] - log(q[1] * 2);
}
Tensor of_gumbel(const Univariate& p, const Kind& known, Parameters q) {
  if (!known.exp) return {};
  const Tensor rate = reciprocal(q[1]);
  return (q[0] - p.mean()) * rate - exp(q[0] * rate) * known.exp(of(p), neg(rate)) - log(q[1]);
}
Tensor of_exponential(const Univariate& p, const Kind&, Parameters q) { return log(q[0]) - q[0] * p.mean(); }
Tensor of_gamma(const Univariate& p, const Kind& known, Parameters q) {
  if (!known.log) return {};
  return q[0] * log(q[1]) - lgamma(q[0]) + (q[0] - 1) * known.log(of(p)) - q[1] * p.mean();
}
Tensor of_pareto(const Univariate& p, const Kind& known, Parameters q) {
  if (!known.log) return {};
  return log(q[1]) + q[1] * log(q[0]) - (q[1] + 1) * known.log(of(p));
}
Tensor of_beta(const Univariate& p, const Kind& known, Parameters q) {
  if (!known.log || !known.log_rest) return {};
  const Tensor powers = (q[0] - 1) * known.log(of(p)) + (q[1] - 1) * known.log_rest(of(p));
  return powers + lgamma(q[0] + q[1]) - lgamma(q[0]) - lgamma(q[1]);
}
Tensor of_continuous_bernoulli(const Univariate& p, const Kind&, Parameters q) {
  return p.mean() * q[0] - continuous_bernoulli_log_normalizer(q[0]);
}
Tensor of_uniform(const Univariate&, const Kind&, Parameters q) { return neg(log(q[1] - q[0])); }

// E[log x] of numbers that are uniform over [low, high] and not negative.
Tensor uniform_log(const Tensor& low, const Tensor& high) {
  return (xlogy(high, high) - xlogy(low, low)) / (high - low) - 1;
}
Tensor normal_around(Parameters p, const Tensor& center) {
  const Tensor apart = (p[0] - center) / p[1];
  return p[1] * (exp(square(apart) * -0.5) * std::sqrt(2 / kPi) + apart * erf(apart / std::numbers::sqrt2));
}

const Kind kKinds[] = {
    {.name = "Normal",
     .reach = Reach::kLine,
     .expected_log = of_normal,
     .exp = [](Parameters p, const Tensor& t) { return exp(p[0] * t + square(p[1] * t) * 0.5); },
     .around = normal_around},
    {.name = "Laplace", .reach = Reach::kLine, .expected_log = of_laplace},
    {.name = "Gumbel",
     .reach = Reach::kLine,
     .expected_log = of_gumbel,
     .exp = [](Parameters p, const Tensor& t) { return exp(p[0] * t + lgamma(1 - p[1] * t)); }},
    {.name = "Exponential",
     .reach = Reach::kHalfLine,
     .expected_log = of_exponential,
     .log = [](Parameters p) { return -kEuler - log(p[0]); },
     .exp = [](Parameters p, const Tensor& t) { return p[0] / (p[0] - t); }},
    {.name = "Gamma",
     .reach = Reach::kHalfLine,
     .expected_log = of_gamma,
     .log = [](Parameters p) { return digamma(p[0]) - log(p[1]); },
     .exp = [](Parameters p, const Tensor& t) { return exp(neg(p[0]) * log1p(neg(t) / p[1])); }},
    {.name = "Pareto",
     .reach = Reach::kAboveScale,
     .expected_log = of_pareto,
     .log = [](Parameters p) { return log(p[0]) + reciprocal(p[1]); }},
    {.name = "Beta",
     .reach = Reach::kUnit,
     .expected_log = of_beta,
     .log = [](Parameters p) { return digamma(p[0]) - digamma(p[0] + p[1]); },
     .log_rest = [](Parameters p) { return digamma(p[1]) - digamma(p[0] + p[1]); }},
    {.name = "ContinuousBernoulli", .reach = Reach::kUnit, .expected_log = of_continuous_bernoulli},
    {.name = "Uniform",
     .reach = Reach::kBetween,
     .expected_log = of_uniform,
     .log = [](Parameters p) { return uniform_log(p[0], p[1]); },
     .log_rest = [](Parameters p) { return uniform_log(1 - p[1], 1 - p[0]); },
     .exp = [](Parameters p, const Tensor& t) { return (exp(p[1] * t) - exp(p[0] * t)) / (t * (p[1] - p[0])); }}};

const Kind* kind_of(const Univariate& d) {
  for (const Kind& kind : kKinds)
    if (kind.name == d.family().name) return &kind;
  return nullptr;
}
// The ends of the support, of batch_shape.
std::array<Tensor, 2> ends_of(const Univariate& d, Reach reach) {
  const Tensor p = d.parameters()[0].detach();
  const auto all = [&](double x) { return full_like(p, x); };
  switch (reach) {
    case Reach::kLine:
      return {all(-kInf), all(kInf)};
    case Reach::kHalfLine:
      return {all(0), all(kInf)};
    case Reach::kAboveScale:
      return {p, all(kInf)};
    case Reach::kUnit:
      return {all(0), all(1)};
    case Reach::kBetween:
      break;
  }
  return {p, d.parameters()[1].detach()};
}
// Whether some of p's support is outside of q's, whatever their parameters are.
bool never_within(Reach p, Reach q) {
  switch (q) {
    case Reach::kLine:
      return false;
    case Reach::kHalfLine:
      return p == Reach::kLine;
    case Reach::kAboveScale:
      return p == Reach::kLine || p == Reach::kHalfLine || p == Reach::kUnit;
    case Reach::kUnit:
    case Reach::kBetween:
      return p == Reach::kLine || p == Reach::kHalfLine || p == Reach::kAboveScale;
  }
  return false;
}
Tensor infinite(const Univariate& p, const Univariate& q) {
  const Tensor &one = p.parameters()[0], &other = q.parameters()[0];
  return new_empty(one.detach(), broadcast_shapes({&one, &other})).fill_(kInf);
}

// Each of the following gives an undefined tensor where it is not about p and q.
Tensor between_numbers(const Univariate& p, const Univariate& q) {
  const Kind *known = kind_of(p), *other = kind_of(q);
  if (!known || !other) return {};
  if (never_within(known->reach, other->reach)) return infinite(p, q);
  const Tensor expected = other->expected_log(p, *known, of(q));
  if (!expected.defined()) return {};
  const Tensor result = neg(p.entropy()) - expected;
  const auto own = ends_of(p, known->reach), ends = ends_of(q, other->reach);
  return masked_fill(result, logical_or(lt(own[0], ends[0]), gt(own[1], ends[1])), kInf);
}
Tensor between_counts(const Univariate& p, const Univariate& q) {
  const std::string_view one = p.family().name, other = q.family().name;
  if (one == "Bernoulli" && other == "Poisson") {
    const Tensor& rate = q.parameters()[0];
    return rate - p.entropy() - xlogy(p.mean(), rate);
  }
  if (one == "Poisson" && (other == "Bernoulli" || other == "Binomial")) return infinite(p, q);
  return {};
}
Tensor univariate_kl(const Distribution& p, const Distribution& q) {
  const auto *a = dynamic_cast<const Univariate*>(&p), *b = dynamic_cast<const Univariate*>(&q);
  if (!a || !b) return {};
  if (&a->family() == &b->family() && a->family().kl) return a->family().kl(of(*a), of(*b));
  const Tensor counts = between_counts(*a, *b);
  return counts.defined() ? counts : between_numbers(*a, *b);
}

template <class Family, class Formula>
Tensor same_kind(const Distribution& p, const Distribution& q, const Formula& formula) {
  const auto *a = dynamic_cast<const Family*>(&p), *b = dynamic_cast<const Family*>(&q);
  return a && b ? formula(*a, *b) : Tensor{};
}
Tensor categories_kl(const Distribution& p, const Distribution& q) {
  const auto formula = [](const auto& a, const auto& b) { return _dist_categorical_kl(a.logits(), b.logits()); };
  const Tensor result = same_kind<Categorical>(p, q, formula);
  return result.defined() ? result : same_kind<OneHotCategorical>(p, q, formula);
}
Tensor dirichlet_kl(const Distribution& p, const Distribution& q) {
  return same_kind<Dirichlet>(p, q, [](const Dirichlet& a, const Dirichlet& b) {
    return _dist_dirichlet_kl(a.concentration(), b.concentration());
  });
}
Tensor wishart_kl(const Distribution& p, const Distribution& q) {
  return same_kind<Wishart>(
      p, q, [](const Wishart& a, const Wishart& b) { return neg(a.entropy()) - b.expected_log_prob(a); });
}

// What the two kinds of normal vectors have in common: R with covariance R R^T; the logarithm of the covariance's
// determinant; the trace of C^T covariance^-1 C.
struct NormalVector {
  const MultivariateNormal* full;
  const LowRankMultivariateNormal* low_rank;

  explicit NormalVector(const Distribution& d)
      : full(dynamic_cast<const MultivariateNormal*>(&d)),
        low_rank(dynamic_cast<const LowRankMultivariateNormal*>(&d)) {}
  bool there() const { return full || low_rank; }
  const Tensor& loc() const { return full ? full->loc() : low_rank->loc(); }
  Tensor root() const { return full ? full->scale_tril() : low_rank->root(); }
  Tensor log_det() const { return full ? half_log_det(full->scale_tril()) * 2 : low_rank->log_det(); }
  Tensor squares(const Tensor& columns) const {
    return full ? sum(square(solve_lower(full->scale_tril(), columns)), IntVector{-2, -1}) : low_rank->squares(columns);
  }
};
Tensor normal_vectors_kl(const Distribution& p, const Distribution& q) {
  const NormalVector a(p), b(q);
  if (!a.there() || !b.there()) return {};
  const int64_t n = p.event_shape()[0];
  TESSERA_CHECK_VALUE(n == q.event_shape()[0],
                      "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be "
                      "computed: vectors of ",
                      n, " and of ", q.event_shape()[0], " numbers");
  if (a.full && b.full)
    return _dist_multivariate_normal_kl(a.loc(), a.full->scale_tril(), b.loc(), b.full->scale_tril());
  const Tensor moved = unsqueeze(b.loc() - a.loc(), -1);
  return (b.log_det() - a.log_det() + b.squares(a.root()) + b.squares(moved) - n) * 0.5;
}

Tensor composed_kl(const Distribution& p, const Distribution& q) {
  if (const auto* a = dynamic_cast<const Independent*>(&p)) {
    const auto* b = dynamic_cast<const Independent*>(&q);
    if (!b || a->reinterpreted_batch_ndims() != b->reinterpreted_batch_ndims()) return {};
    return a->summed(kl_divergence(a->base(), b->base()));
  }
  const auto *a = dynamic_cast<const TransformedDistribution*>(&p),
             *b = dynamic_cast<const TransformedDistribution*>(&q);
  return a && b && a->same_transforms(*b) ? kl_divergence(a->base(), b->base()) : Tensor{};
}

}  // namespace

Tensor kl_divergence(const Distribution& p, const Distribution& q) {
  for (const auto formula : {univariate_kl, categories_kl, dirichlet_kl, wishart_kl, normal_vectors_kl, composed_kl}) {
    const Tensor result = formula(p, q);
    if (result.defined()) return result;
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(false, "No KL(p || q) is implemented for p type ", p.name(), " and q type ", q.name());
  __builtin_unreachable();
}

}  // namespace tessera::distributions
