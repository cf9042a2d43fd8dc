// In which order the examples of a data set are asked for.
#pragma once

#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace torch::data::samplers {

// A request that is no list of indices.
struct CustomBatchRequest {
  CustomBatchRequest() = default;
  CustomBatchRequest(const CustomBatchRequest&) = default;
  CustomBatchRequest(CustomBatchRequest&&) noexcept = default;
  CustomBatchRequest& operator=(const CustomBatchRequest&) = default;
  CustomBatchRequest& operator=(CustomBatchRequest&&) noexcept = default;
  virtual ~CustomBatchRequest() = default;
  virtual size_t size() const = 0;
};
struct BatchSize : CustomBatchRequest {
  explicit BatchSize(size_t size) : size_(size) {}
  size_t size() const noexcept override { return size_; }
  operator size_t() const noexcept { return size_; }
  size_t size_;
};

template <class BatchRequest = std::vector<size_t>>
class Sampler {
 public:
  using BatchRequestType = BatchRequest;
  virtual ~Sampler() = default;
  // For a new pass, over another number of examples where one is given.
  virtual void reset(std::optional<size_t> new_size) = 0;
  // What the next batch is made of; nothing at the end of the pass.
  virtual std::optional<BatchRequest> next(size_t batch_size) = 0;
  virtual void save(serialize::OutputArchive& archive) const = 0;
  virtual void load(serialize::InputArchive& archive) = 0;
};
template <class B>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Sampler<B>& sampler) {
  sampler.save(archive);
  return archive;
}
template <class B>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Sampler<B>& sampler) {
  sampler.load(archive);
  return archive;
}

namespace detail {
inline Tensor number(size_t n) { return tessera::scalar_to_tensor(int64_t(n), tessera::DType::kInt64); }
inline size_t number(serialize::InputArchive& archive, const std::string& name) {
  Tensor n;
  archive.read(name, n, true);
  return size_t(n.item<int64_t>());
}
// Walks through a list of indices.
class Walk : public Sampler<> {
 public:
  std::optional<std::vector<size_t>> next(size_t batch_size) override {
    if (index_ == indices_.size()) return std::nullopt;
    const size_t n = std::min(batch_size, indices_.size() - index_);
    const auto from = indices_.begin() + std::ptrdiff_t(index_);
    index_ += n;
    return std::vector<size_t>(from, from + std::ptrdiff_t(n));
  }
  size_t index() const noexcept { return index_; }

 protected:
  std::vector<size_t> indices_;
  size_t index_ = 0;
};
}  // namespace detail

// 0, 1, 2 ...
class SequentialSampler : public detail::Walk {
 public:
  explicit SequentialSampler(size_t size) { reset(size); }
  void reset(std::optional<size_t> new_size = std::nullopt) override {
    if (new_size) {
      indices_.resize(*new_size);
      std::iota(indices_.begin(), indices_.end(), size_t{0});
    }
    index_ = 0;
  }
  void save(serialize::OutputArchive& archive) const override { archive.write("index", detail::number(index_), true); }
  void load(serialize::InputArchive& archive) override { index_ = detail::number(archive, "index"); }
};

// A permutation, another one at each reset.
class RandomSampler : public detail::Walk {
 public:
  explicit RandomSampler(int64_t size, ScalarType index_dtype = kInt64) : dtype_(index_dtype) { reset(size_t(size)); }
  void reset(std::optional<size_t> new_size = std::nullopt) override {
    const size_t n = new_size.value_or(indices_.size());
    const Tensor order = at::randperm(int64_t(n), dtype_).to(kLong);
    indices_.assign(order.data_ptr<int64_t>(), order.data_ptr<int64_t>() + n);
    index_ = 0;
  }
  void save(serialize::OutputArchive& archive) const override {
    archive.write("index", detail::number(index_), true);
    const Tensor order = at::empty({int64_t(indices_.size())}, kLong);
    std::copy(indices_.begin(), indices_.end(), order.data_ptr<int64_t>());
    archive.write("indices", order, true);
  }
  void load(serialize::InputArchive& archive) override {
    Tensor order;
    const size_t index = detail::number(archive, "index");
    archive.read("indices", order, true);
    const Tensor wide = order.to(kLong).contiguous();
    indices_.assign(wide.data_ptr<int64_t>(), wide.data_ptr<int64_t>() + wide.numel());
    index_ = index;
  }

 private:
  ScalarType dtype_;
};

// Sizes of batches, for data sets that are streams.
class StreamSampler : public Sampler<BatchSize> {
 public:
  explicit StreamSampler(size_t epoch_size) : epoch_size_(epoch_size) {}
  void reset(std::optional<size_t> new_size = std::nullopt) override {
    retrieved_ = 0;
    epoch_size_ = new_size.value_or(epoch_size_);
  }
  std::optional<BatchSize> next(size_t batch_size) override {
    const size_t n = std::min(batch_size, epoch_size_ - retrieved_);
    if (n == 0) return std::nullopt;
    retrieved_ += n;
    return BatchSize(n);
  }
  void save(serialize::OutputArchive& archive) const override {
    archive.write("examples_retrieved_so_far", detail::number(retrieved_), true);
  }
  void load(serialize::InputArchive& archive) override {
    retrieved_ = detail::number(archive, "examples_retrieved_so_far");
  }

 private:
  size_t retrieved_ = 0, epoch_size_;
};

// The part of the examples that is one process's. With allow_duplicates the first ones fill up the last processes'
// parts; without, the last examples are left out, so that all parts are of one length.
template <class BatchRequest = std::vector<size_t>>
class DistributedSampler : public Sampler<BatchRequest> {
 public:
  DistributedSampler(size_t size, size_t num_replicas = 1, size_t rank = 0, bool allow_duplicates = true)
      : size_(size), num_replicas_(num_replicas), rank_(rank), allow_duplicates_(allow_duplicates) {
    TORCH_CHECK(num_replicas > 0 && rank < num_replicas, "rank ", rank, " is not below the number of replicas, ",
                num_replicas);
  }
  // Part of the seed of a random order: set it to the same for all processes before each epoch.
  void set_epoch(size_t epoch) { epoch_ = epoch; }
  size_t epoch() const { return epoch_; }

 protected:
  size_t local_sample_count() {
    return allow_duplicates_ ? (size_ + num_replicas_ - 1) / num_replicas_ : size_ / num_replicas_;
  }
  size_t size_, num_replicas_, rank_, epoch_ = 0;
  bool allow_duplicates_;
};
namespace detail {
class DistributedWalk : public DistributedSampler<> {
 public:
  using DistributedSampler::DistributedSampler;
  std::optional<std::vector<size_t>> next(size_t batch_size) override {
    if (at_ == end_) return std::nullopt;
    std::vector<size_t> batch(std::min(batch_size, end_ - at_));
    for (size_t& index : batch) index = all_[at_++];
    return batch;
  }
  size_t index() const noexcept { return at_; }
  void save(serialize::OutputArchive& archive) const override {
    archive.write("sample_index_", number(at_), true);
    archive.write("epoch_", number(epoch_), true);
  }
  void load(serialize::InputArchive& archive) override {
    const size_t epoch = number(archive, "epoch_"), at = number(archive, "sample_index_");
    set_epoch(epoch);
    arrange();
    at_ = at;
  }

 protected:
  void begin(std::optional<size_t> new_size) {
    size_ = new_size.value_or(size_);
    arrange();
    at_ = begin_;
  }
  // All positions, beginning again where there are not enough; this process has a run of them.
  virtual void arrange() {
    const size_t count = local_sample_count();
    all_.resize(num_replicas_ == 1 ? size_ : count * num_replicas_);
    for (size_t i = 0; i < all_.size(); ++i) all_[i] = i % size_;
    begin_ = rank_ * count;
    end_ = begin_ + count;
  }
  std::vector<size_t> all_;
  size_t begin_ = 0, end_ = 0, at_ = 0;
};
}  // namespace detail
class DistributedRandomSampler : public detail::DistributedWalk {
 public:
  DistributedRandomSampler(size_t size, size_t num_replicas = 1, size_t rank = 0, bool allow_duplicates = true)
      : DistributedWalk(size, num_replicas, rank, allow_duplicates) {
    begin({});
  }
  void reset(std::optional<size_t> new_size = std::nullopt) override { begin(new_size); }

 private:
  void arrange() override {
    DistributedWalk::arrange();
    std::mt19937 random(static_cast<uint32_t>(epoch_));
    std::shuffle(all_.begin(), all_.end(), random);
  }
};
class DistributedSequentialSampler : public detail::DistributedWalk {
 public:
  DistributedSequentialSampler(size_t size, size_t num_replicas = 1, size_t rank = 0, bool allow_duplicates = true)
      : DistributedWalk(size, num_replicas, rank, allow_duplicates) {
    begin({});
  }
  void reset(std::optional<size_t> new_size = std::nullopt) override { begin(new_size); }
};

}  // namespace torch::data::samplers
namespace torch::data {
using samplers::Sampler;
}
