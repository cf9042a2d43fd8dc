// In which order the samples of a data set are read. For the same seed the order is Python's.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "tensor/core/generator/generator.h"

namespace tessera::data {

class Sampler {
 public:
  virtual ~Sampler() = default;
  virtual int64_t size() const = 0;
  // The indices of one pass.
  virtual std::vector<int64_t> indices() = 0;
};

class SequentialSampler final : public Sampler {
 public:
  explicit SequentialSampler(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices() override;

 private:
  int64_t size_;
};

// A random order; more samples than there are take several permutations. Without a generator each pass has one seeded
// from the default generator. ValueError for fewer than one sample.
class RandomSampler final : public Sampler {
 public:
  explicit RandomSampler(int64_t size, Generator generator = {}, std::optional<int64_t> num_samples = std::nullopt);
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() override;

 private:
  int64_t size_, num_samples_;
  Generator generator_;
};

// Each index drawn by itself: RandomSampler(replacement=True) of Python.
class ReplacementSampler final : public Sampler {
 public:
  explicit ReplacementSampler(int64_t size, Generator generator = {},
                              std::optional<int64_t> num_samples = std::nullopt);
  int64_t size() const override { return num_samples_; }
  std::vector<int64_t> indices() override;

 private:
  int64_t size_, num_samples_;
  Generator generator_;
};

// The given indices in random order.
class SubsetRandomSampler final : public Sampler {
 public:
  explicit SubsetRandomSampler(std::vector<int64_t> indices, Generator generator = {})
      : indices_(std::move(indices)), generator_(std::move(generator)) {}
  int64_t size() const override { return static_cast<int64_t>(indices_.size()); }
  std::vector<int64_t> indices() override;

 private:
  std::vector<int64_t> indices_;
  Generator generator_;
};

// One draw of 63 bits, as a loader takes for its workers' seeds.
int64_t draw_seed(const Generator& generator);

}  // namespace tessera::data
