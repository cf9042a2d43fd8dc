#include "data/sampler.h"

#include <numeric>

#include "tensor/ops/random_ops.h"

namespace tessera::data {
namespace {

Generator fresh_generator() { return make_cpu_generator(static_cast<uint64_t>(draw_seed({}))); }

void add_first(const Tensor& list, int64_t count, std::vector<int64_t>* out) {
  out->insert(out->end(), list.data<int64_t>(), list.data<int64_t>() + count);
}

int64_t checked_samples(int64_t size, std::optional<int64_t> num_samples) {
  const int64_t n = num_samples.value_or(size);
  TESSERA_CHECK_VALUE(n > 0, "num_samples should be a positive integer value, but got num_samples=", n);
  TESSERA_CHECK_VALUE(size > 0, "the data set is empty");
  return n;
}

}  // namespace

int64_t draw_seed(const Generator& generator) {
  return random_(empty_kernel(IntVector{}, DType::kInt64), generator).item<int64_t>();
}

std::vector<int64_t> SequentialSampler::indices() {
  std::vector<int64_t> result(size_);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

RandomSampler::RandomSampler(int64_t size, Generator generator, std::optional<int64_t> num_samples)
    : size_(size), num_samples_(checked_samples(size, num_samples)), generator_(std::move(generator)) {}

std::vector<int64_t> RandomSampler::indices() {
  const Generator generator = generator_ ? generator_ : fresh_generator();
  std::vector<int64_t> result;
  for (int64_t pass = 0; pass < num_samples_ / size_; ++pass) add_first(randperm(size_, generator), size_, &result);
  // Drawn even if nothing is needed of it, so that a given generator goes on as in Python.
  add_first(randperm(size_, generator), num_samples_ % size_, &result);
  return result;
}

ReplacementSampler::ReplacementSampler(int64_t size, Generator generator, std::optional<int64_t> num_samples)
    : size_(size), num_samples_(checked_samples(size, num_samples)), generator_(std::move(generator)) {}

std::vector<int64_t> ReplacementSampler::indices() {
  const Generator generator = generator_ ? generator_ : fresh_generator();
  std::vector<int64_t> result;
  for (int64_t left = num_samples_; left > 0; left -= 32) {
    const int64_t n = std::min<int64_t>(left, 32);
    add_first(randint(size_, IntList(&n, 1), generator), n, &result);
  }
  return result;
}

std::vector<int64_t> SubsetRandomSampler::indices() {
  const Tensor order = randperm(static_cast<int64_t>(indices_.size()), generator_);
  std::vector<int64_t> result;
  for (size_t i = 0; i < indices_.size(); ++i) result.push_back(indices_[order.data<int64_t>()[i]]);
  return result;
}

}  // namespace tessera::data
