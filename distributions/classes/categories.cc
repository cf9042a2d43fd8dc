#include "distributions/classes/categories.h"

#include <cmath>

#include "distributions/classes/family_functions.h"
#include "distributions/classes/vector_functions.h"

namespace tessera::distributions {
namespace {

Categorical checked(const char* distribution, const Probs& probs, bool validate) {
  if (validate) check_shares(distribution, with_dimensions(probs.value, 1, "probs"));
  return Categorical(probs, false);
}
Categorical checked(const char* distribution, const Logits& logits, bool validate) {
  if (validate) check_parameter(distribution, "logits", with_dimensions(logits.value, 1, "logits"), kReal);
  return Categorical(logits, false);
}
int64_t checked_count(int64_t total_count) {
  TESSERA_CHECK_VALUE(total_count >= 0, "total_count must be at least 0, but was ", total_count);
  return total_count;
}

}  // namespace

OverCategories::OverCategories(Categorical categories, bool validate)
    : Distribution(categories.batch_shape(), to_vector(categories.logits().sizes().last(1)), validate),
      categories_(std::move(categories)) {}
void OverCategories::expand_to(IntList batch_shape) {
  batch_shape_ = to_vector(batch_shape);
  categories_ = static_cast<const Categorical&>(*categories_.expand(batch_shape));
}

OneHotCategorical::OneHotCategorical(const Probs& probs, bool validate)
    : OverCategories(checked("OneHotCategorical", probs, validate), validate) {}
OneHotCategorical::OneHotCategorical(const Logits& logits, bool validate)
    : OverCategories(checked("OneHotCategorical", logits, validate), validate) {}
Tensor OneHotCategorical::one_hot(const Tensor& numbers) const {
  const Tensor all = arange(count(), DType::kInt64, std::nullopt, numbers.device());
  return to(eq(unsqueeze(numbers, -1), all), logits().dtype());
}
Tensor OneHotCategorical::mode() const { return one_hot(categories_.mode()); }
Tensor OneHotCategorical::variance() const { return probs() * (1 - probs()); }
Tensor OneHotCategorical::draw(const IntVector& sample_shape, const Generator& generator) const {
  return one_hot(categories_.sample(sample_shape, generator));
}
Tensor OneHotCategorical::log_prob_of(const Tensor& value) const {
  return _dist_categorical_log_prob(argmax(value, -1), logits());
}
void OneHotCategorical::check_value(const Tensor& value) const {
  check_shape(value);
  if (!kBoolean.check(value) || !all(eq(sum(value, IntVector{-1}), 1)).item<bool>())
    refuse_value(name(), value, "OneHot()");
}
Tensor OneHotCategorical::enumerate_support(bool expand) const {
  IntVector shape(batch_shape_.size() + 2, 1);
  shape.front() = shape.back() = count();
  const Tensor values = reshape(eye(count(), logits().dtype(), std::nullopt, logits().device()), shape);
  return expand ? tessera::expand(values, joined(IntVector{count()}, full_shape({}))) : values;
}
std::shared_ptr<Distribution> OneHotCategorical::expand(IntList batch_shape) const {
  auto copy = std::make_shared<OneHotCategorical>(*this);
  copy->expand_to(batch_shape);
  return copy;
}

Tensor OneHotCategoricalStraightThrough::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor p = probs();
  return OneHotCategorical::draw(sample_shape, generator) + (p - p.detach());
}
std::shared_ptr<Distribution> OneHotCategoricalStraightThrough::expand(IntList batch_shape) const {
  auto copy = std::make_shared<OneHotCategoricalStraightThrough>(*this);
  copy->expand_to(batch_shape);
  return copy;
}

Multinomial::Multinomial(int64_t total_count, const Probs& probs, bool validate)
    : OverCategories(checked("Multinomial", probs, validate), validate), total_count_(checked_count(total_count)) {}
Multinomial::Multinomial(int64_t total_count, const Logits& logits, bool validate)
    : OverCategories(checked("Multinomial", logits, validate), validate), total_count_(checked_count(total_count)) {}
Tensor Multinomial::mean() const { return probs() * static_cast<double>(total_count_); }
Tensor Multinomial::variance() const { return mean() * (1 - probs()); }
// n H(p) - log n! and, over the binomial distribution of each count, the mean of log count!.
Tensor Multinomial::entropy() const {
  const Tensor p = probs();
  const double n = static_cast<double>(total_count_);
  IntVector column(static_cast<size_t>(p.dim()) + 1, 1);
  column[0] = total_count_;
  const Tensor counts = reshape(arange(1, total_count_ + 1, p.dtype(), std::nullopt, p.device()), column);
  const Tensor weights = exp(_dist_binomial_log_prob(counts, full_like(p, n), log(p) - log1p(neg(p))));
  return categories_.entropy() * n - std::lgamma(n + 1) + sum(weights * lgamma(counts + 1), IntVector{0, -1});
}
Tensor Multinomial::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor numbers = movedim(categories_.sample(joined({total_count_}, sample_shape), generator), 0, -1);
  const Tensor ones = new_empty(logits().detach(), numbers.sizes()).fill_(1);
  return scatter_add(new_zeros(logits().detach(), full_shape(sample_shape)), -1, numbers, ones);
}
Tensor Multinomial::log_prob_of(const Tensor& value) const { return _dist_multinomial_log_prob(value, logits()); }
void Multinomial::check_value(const Tensor& value) const {
  check_shape(value);
  if (!kNonNegative.check(value) || !all(le(sum(value, IntVector{-1}), total_count_)).item<bool>())
    refuse_value(name(), value, "Multinomial()");
}
std::shared_ptr<Distribution> Multinomial::expand(IntList batch_shape) const {
  auto copy = std::make_shared<Multinomial>(*this);
  copy->expand_to(batch_shape);
  return copy;
}

ExpRelaxedCategorical::ExpRelaxedCategorical(const Tensor& temperature, const Probs& probs, bool validate)
    : OverCategories(checked("ExpRelaxedCategorical", probs, validate), validate), temperature_(temperature) {
  if (validate) check_parameter("ExpRelaxedCategorical", "temperature", temperature, kPositive);
}
ExpRelaxedCategorical::ExpRelaxedCategorical(const Tensor& temperature, const Logits& logits, bool validate)
    : OverCategories(checked("ExpRelaxedCategorical", logits, validate), validate), temperature_(temperature) {
  if (validate) check_parameter("ExpRelaxedCategorical", "temperature", temperature, kPositive);
}
Tensor ExpRelaxedCategorical::draw(const IntVector& sample_shape, const Generator& generator) const {
  const Tensor scores = tessera::expand(logits(), full_shape(sample_shape));
  const Tensor noise = clamp(uniform_like(scores, generator), epsilon_of(scores), 1 - epsilon_of(scores));
  return log_softmax((scores - log(neg(log(noise)))) / unsqueeze(temperature_, -1), -1);
}
Tensor ExpRelaxedCategorical::log_prob_of(const Tensor& value) const {
  const double n = static_cast<double>(count());
  const Tensor scores = log_softmax(logits() - value * unsqueeze(temperature_, -1), -1);
  return sum(scores, IntVector{-1}) + log(temperature_) * (n - 1) + std::lgamma(n);
}
void ExpRelaxedCategorical::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, kReal);
}
std::shared_ptr<Distribution> ExpRelaxedCategorical::expand(IntList batch_shape) const {
  auto copy = std::make_shared<ExpRelaxedCategorical>(*this);
  copy->expand_to(batch_shape);
  return copy;
}

RelaxedBernoulli::RelaxedBernoulli(const Tensor& temperature, const Probs& probs, bool validate)
    : TransformedDistribution(std::make_shared<LogitRelaxedBernoulli>(temperature, probs, validate),
                              {std::make_shared<SigmoidTransform>()}, validate) {}
RelaxedBernoulli::RelaxedBernoulli(const Tensor& temperature, const Logits& logits, bool validate)
    : TransformedDistribution(std::make_shared<LogitRelaxedBernoulli>(temperature, logits, validate),
                              {std::make_shared<SigmoidTransform>()}, validate) {}
void RelaxedBernoulli::check_value(const Tensor& value) const {
  check_shape(value);
  check_support(name(), value, kUnitInterval);
}
std::shared_ptr<Distribution> RelaxedBernoulli::expand(IntList batch_shape) const {
  const auto larger = [&](const Tensor& p) { return tessera::expand(p, batch_shape); };
  auto copy = std::make_shared<RelaxedBernoulli>(larger(temperature()), Logits{larger(logits())}, false);
  copy->validate_ = validate_;
  return copy;
}

RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Tensor& temperature, const Probs& probs, bool validate)
    : TransformedDistribution(std::make_shared<ExpRelaxedCategorical>(temperature, probs, validate),
                              {std::make_shared<ExpTransform>()}, validate) {}
RelaxedOneHotCategorical::RelaxedOneHotCategorical(const Tensor& temperature, const Logits& logits, bool validate)
    : TransformedDistribution(std::make_shared<ExpRelaxedCategorical>(temperature, logits, validate),
                              {std::make_shared<ExpTransform>()}, validate) {}
void RelaxedOneHotCategorical::check_value(const Tensor& value) const {
  check_shape(value);
  if (!kNonNegative.check(value) || !all(lt(abs(sum(value, IntVector{-1}) - 1), 1e-6)).item<bool>())
    refuse_value(name(), value, "Simplex()");
}
std::shared_ptr<Distribution> RelaxedOneHotCategorical::expand(IntList batch_shape) const {
  const Tensor larger = tessera::expand(logits(), joined(to_vector(batch_shape), event_shape_));
  auto copy = std::make_shared<RelaxedOneHotCategorical>(temperature(), Logits{larger}, false);
  copy->validate_ = validate_;
  return copy;
}

}  // namespace tessera::distributions
