// Data sets: what gives batches for requests.
#pragma once

#include <torch/arg.h>
#include <torch/data/example.h>
#include <torch/data/samplers.h>

#include <condition_variable>
#include <deque>
#include <exception>
#include <fstream>
#include <functional>
#include <mutex>
#include <thread>

namespace torch::data::datasets {

template <class S, class T>
class MapDataset;
template <class D, class T>
MapDataset<D, T> map(D dataset, T transform);

namespace detail {
template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
}  // namespace detail

template <class Self, class Batch, class BatchRequest = ArrayRef<size_t>>
class BatchDataset {
 public:
  using SelfType = Self;
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  // Whether the data set itself says when it ends.
  static constexpr bool is_stateful = detail::IsOptional<BatchType>::value;
  virtual ~BatchDataset() = default;
  virtual Batch get_batch(BatchRequest request) = 0;
  virtual std::optional<size_t> size() const = 0;
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) & {
    return datasets::map(static_cast<Self&>(*this), std::move(transform));
  }
  template <class TransformType>
  MapDataset<Self, TransformType> map(TransformType transform) && {
    return datasets::map(std::move(static_cast<Self&>(*this)), std::move(transform));
  }
};

// A data set of examples with numbers.
template <class Self, class SingleExample = Example<>>
class Dataset : public BatchDataset<Self, std::vector<SingleExample>> {
 public:
  using ExampleType = SingleExample;
  virtual ExampleType get(size_t index) = 0;
  std::vector<ExampleType> get_batch(ArrayRef<size_t> indices) override {
    std::vector<ExampleType> batch;
    batch.reserve(indices.size());
    for (const size_t i : indices) batch.push_back(get(i));
    return batch;
  }
};

// A data set that is asked for a number of examples.
template <class Self, class Batch = std::vector<Example<>>>
using StreamDataset = BatchDataset<Self, Batch, size_t>;

// A data set that knows where it is, and gives nothing at its end.
template <class Self, class Batch = std::vector<Example<>>, class BatchRequest = size_t>
class StatefulDataset : public BatchDataset<Self, std::optional<Batch>, BatchRequest> {
 public:
  virtual void reset() = 0;
  virtual void save(serialize::OutputArchive&) const {}
  virtual void load(serialize::InputArchive&) {}
};
// One whose batches come from a C++ range or generator: a subclass gives the next example, or nothing.
template <class Self, class SingleExample = Example<>>
class IterableDataset : public StatefulDataset<Self, std::vector<SingleExample>, size_t> {
 public:
  using ExampleType = SingleExample;
  virtual std::optional<ExampleType> next() = 0;
  std::optional<std::vector<ExampleType>> get_batch(size_t n) override {
    std::vector<ExampleType> batch;
    while (batch.size() < n) {
      std::optional<ExampleType> one = next();
      if (!one) break;
      batch.push_back(std::move(*one));
    }
    if (batch.empty()) return std::nullopt;
    return batch;
  }
  std::optional<size_t> size() const override { return std::nullopt; }
};
template <class S, class B, class R>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const StatefulDataset<S, B, R>& dataset) {
  dataset.save(archive);
  return archive;
}
template <class S, class B, class R>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, StatefulDataset<S, B, R>& dataset) {
  dataset.load(archive);
  return archive;
}

namespace detail {
template <bool kStateful, class Output>
struct Wrapped {
  using type = Output;
};
template <class Output>
struct Wrapped<true, Output> {
  using type = std::optional<Output>;
};
template <class S, class T>
using MappedBatch = typename Wrapped<S::is_stateful, typename T::OutputBatchType>::type;
}  // namespace detail

// A data set with a transform behind it.
template <class SourceDataset, class AppliedTransform>
class MapDataset : public BatchDataset<MapDataset<SourceDataset, AppliedTransform>,
                                       detail::MappedBatch<SourceDataset, AppliedTransform>,
                                       typename SourceDataset::BatchRequestType> {
 public:
  using DatasetType = SourceDataset;
  using TransformType = AppliedTransform;
  using BatchRequestType = typename SourceDataset::BatchRequestType;
  using OutputBatchType = detail::MappedBatch<SourceDataset, AppliedTransform>;
  MapDataset(DatasetType dataset, TransformType transform)
      : dataset_(std::move(dataset)), transform_(std::move(transform)) {}
  OutputBatchType get_batch(BatchRequestType request) override {
    auto batch = dataset_.get_batch(std::move(request));
    if constexpr (SourceDataset::is_stateful) {
      if (!batch) return std::nullopt;
      return transform_.apply_batch(std::move(*batch));
    } else {
      return transform_.apply_batch(std::move(batch));
    }
  }
  std::optional<size_t> size() const noexcept override { return dataset_.size(); }
  void reset() { dataset_.reset(); }
  const SourceDataset& dataset() noexcept { return dataset_; }
  const AppliedTransform& transform() noexcept { return transform_; }

 private:
  SourceDataset dataset_;
  AppliedTransform transform_;
};
template <class D, class T>
MapDataset<D, T> map(D dataset, T transform) {
  static_assert(std::is_convertible_v<typename std::conditional_t<D::is_stateful, typename D::BatchType,
                                                                  std::optional<typename D::BatchType>>::value_type,
                                      typename T::InputBatchType>,
                "BatchType type of dataset does not match input type of transform");
  return {std::move(dataset), std::move(transform)};
}

// One data set for several owners.
template <class UnderlyingDataset>
class SharedBatchDataset
    : public BatchDataset<SharedBatchDataset<UnderlyingDataset>, typename UnderlyingDataset::BatchType,
                          typename UnderlyingDataset::BatchRequestType> {
 public:
  using BatchType = typename UnderlyingDataset::BatchType;
  using BatchRequestType = typename UnderlyingDataset::BatchRequestType;
  /* implicit */ SharedBatchDataset(std::shared_ptr<UnderlyingDataset> dataset) : dataset_(std::move(dataset)) {}
  BatchType get_batch(BatchRequestType request) override { return dataset_->get_batch(std::move(request)); }
  std::optional<size_t> size() const override { return dataset_->size(); }
  UnderlyingDataset& operator*() { return *dataset_; }
  const UnderlyingDataset& operator*() const { return *dataset_; }
  UnderlyingDataset* operator->() { return dataset_.get(); }
  const UnderlyingDataset* operator->() const { return dataset_.get(); }
  void reset() { dataset_->reset(); }

 private:
  std::shared_ptr<UnderlyingDataset> dataset_;
};
template <class UnderlyingDataset, class... Args>
SharedBatchDataset<UnderlyingDataset> make_shared_dataset(Args&&... args) {
  return std::make_shared<UnderlyingDataset>(std::forward<Args>(args)...);
}

// Example i is row i of a tensor.
struct TensorDataset : Dataset<TensorDataset, TensorExample> {
  explicit TensorDataset(const std::vector<Tensor>& tensors) : TensorDataset(at::stack(tensors)) {}
  explicit TensorDataset(Tensor t) : tensor(std::move(t)) {}
  TensorExample get(size_t index) override { return tensor.select(0, int64_t(index)); }
  std::optional<size_t> size() const override { return size_t(tensor.size(0)); }
  Tensor tensor;
};

// The handwritten digits of the MNIST collection, from its idx files in the folder `root`: images of float32 in [0, 1]
// with one channel, numbers as int64. Error for a file that cannot be read or has other contents.
class MNIST : public Dataset<MNIST> {
 public:
  enum class Mode { kTrain, kTest };
  explicit MNIST(const std::string& root, Mode mode = Mode::kTrain) {
    const bool train = mode == Mode::kTrain;
    const std::string prefix = root + (root.empty() || root.back() == '/' ? "" : "/") + (train ? "train" : "t10k");
    const int64_t n = train ? 60000 : 10000;
    images_ = read(prefix + "-images-idx3-ubyte", 2051, {n, 28, 28}, {n, 1, 28, 28}).to(kFloat).div(255);
    targets_ = read(prefix + "-labels-idx1-ubyte", 2049, {n}, {n}).to(kLong);
  }
  Example<> get(size_t index) override {
    return {images_.select(0, int64_t(index)), targets_.select(0, int64_t(index))};
  }
  std::optional<size_t> size() const override { return size_t(images_.size(0)); }
  bool is_train() const noexcept { return images_.size(0) == 60000; }
  const Tensor& images() const { return images_; }
  const Tensor& targets() const { return targets_; }

 private:
  static Tensor read(const std::string& path, uint32_t magic, std::vector<int64_t> header, std::vector<int64_t> shape) {
    std::ifstream file(path, std::ios::binary);
    TORCH_CHECK(file, "Error opening ", header.size() == 1 ? "targets" : "images", " file at ", path);
    const auto expect = [&](uint32_t expected) {
      unsigned char b[4] = {};
      TORCH_CHECK(file.read(reinterpret_cast<char*>(b), 4), path, " ends too early");
      const uint32_t value = uint32_t{b[0]} << 24 | b[1] << 16 | b[2] << 8 | b[3];
      TORCH_CHECK(value == expected, "Expected to read number ", expected, " but found ", value, " instead");
    };
    expect(magic);
    for (const int64_t n : header) expect(uint32_t(n));
    const Tensor t = at::empty(shape, kByte);
    TORCH_CHECK(file.read(reinterpret_cast<char*>(t.data_ptr<uint8_t>()), t.numel()), path, " ends too early");
    return t;
  }
  Tensor images_, targets_;
};

// Reads a data set that is too large for memory in chunks.
template <class ExampleType_, class ChunkType_ = std::vector<ExampleType_>>
class ChunkDataReader {
 public:
  using ChunkType = ChunkType_;
  using ExampleType = ExampleType_;
  using BatchType = ChunkType;
  virtual ~ChunkDataReader() = default;
  virtual ChunkType read_chunk(size_t chunk_index) = 0;
  virtual size_t chunk_count() = 0;
  virtual void reset() = 0;
};

// preloader_count: threads that read; cache_size: examples in memory beyond which they wait; cross_chunk_shuffle_count:
// chunks that are mixed together.
struct ChunkDatasetOptions {
  ChunkDatasetOptions() = delete;
  ChunkDatasetOptions(size_t preloader_count, size_t batch_size, size_t cache_size = 2048,
                      size_t cross_chunk_shuffle_count = 1)
      : preloader_count_(preloader_count),
        batch_size_(batch_size),
        cache_size_(cache_size),
        cross_chunk_shuffle_count_(cross_chunk_shuffle_count) {
    TORCH_CHECK(preloader_count > 0, "Preloader count is 0. At least one preloader needs to be specified.");
    TORCH_CHECK(batch_size > 0, "Batch size is 0. A positive batch size needs to be specified.");
    TORCH_CHECK(cache_size > 0, "Cache size is 0. A positive cache size needs to be specified.");
    TORCH_CHECK(cache_size >= batch_size,
                "Cache size is less than batch size. Cache needs to be large enough to "
                "hold at least one batch.");
    TORCH_CHECK(cross_chunk_shuffle_count > 0, "cross_chunk_shuffle_count needs to be greater than 0.");
  }
  TORCH_ARG(size_t, preloader_count);
  TORCH_ARG(size_t, batch_size);
  TORCH_ARG(size_t, cache_size) = 2048;
  TORCH_ARG(size_t, cross_chunk_shuffle_count) = 1;
};

template <class ChunkReader, class ChunkSampler = samplers::RandomSampler,
          class ExampleSampler = samplers::RandomSampler>
class ChunkDataset final : public StatefulDataset<ChunkDataset<ChunkReader, ChunkSampler, ExampleSampler>,
                                                  typename ChunkReader::BatchType, size_t> {
 public:
  using BatchType = std::optional<typename ChunkReader::BatchType>;
  using UnwrappedBatchType = typename ChunkReader::BatchType;
  using BatchRequestType = size_t;
  using ChunkSamplerType = ChunkSampler;
  using ExampleSamplerType = ExampleSampler;

  ChunkDataset(ChunkReader reader, ChunkSampler chunk_sampler, ExampleSampler example_sampler,
               ChunkDatasetOptions options, std::function<void(UnwrappedBatchType&)> preprocessing_policy = {})
      : reader_(std::move(reader)),
        chunk_sampler_(std::move(chunk_sampler)),
        example_sampler_(std::move(example_sampler)),
        options_(options),
        preprocess_(std::move(preprocessing_policy)) {}
  ~ChunkDataset() override { stop(); }

  BatchType get_batch(size_t batch_size) override {
    TORCH_CHECK(started_, "Dataset needs to call reset() before calling get_batch().");
    TORCH_CHECK(
        batch_size == options_.batch_size(),
        "The requested batch size does not match with the initialized batch size.\n The requested batch size is ",
        batch_size, ", while the dataset is created with batch size equal to ", options_.batch_size());
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return held() >= batch_size || done_readers_ == readers_.size(); });
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
    if (ready_.empty()) return std::nullopt;
    UnwrappedBatchType batch;
    while (batch.size() < batch_size && !ready_.empty()) {
      UnwrappedBatchType& front = ready_.front();
      const auto n = std::ptrdiff_t(std::min(batch_size - batch.size(), front.size() - used_));
      const auto from = front.begin() + std::ptrdiff_t(used_);
      batch.insert(batch.end(), std::make_move_iterator(from), std::make_move_iterator(from + n));
      used_ += size_t(n);
      held_ -= size_t(n);
      if (used_ == front.size()) ready_.pop_front(), used_ = 0;
    }
    wake_.notify_all();
    return batch;
  }
  BatchType get_batch() { return get_batch(options_.batch_size()); }

  // Begins a pass.
  void reset() override {
    stop();
    reader_.reset();
    if (!loaded_) chunk_sampler_.reset(reader_.chunk_count());
    loaded_ = false;
    started_ = true;
    ready_.clear();
    used_ = held_ = done_readers_ = next_ticket_ = next_place_ = 0;
    quit_ = false;
    failed_ = nullptr;
    readers_.resize(options_.preloader_count());
    for (std::thread& t : readers_) t = std::thread([this] { read_chunks(); });
  }
  std::optional<size_t> size() const override { return std::nullopt; }
  ChunkSamplerType& chunk_sampler() { return chunk_sampler_; }
  void save(serialize::OutputArchive& archive) const override {
    const std::lock_guard lock(sampler_mutex_);
    chunk_sampler_.save(archive);
  }
  void load(serialize::InputArchive& archive) override {
    const std::lock_guard lock(sampler_mutex_);
    chunk_sampler_.load(archive);
    loaded_ = true;
  }

 private:
  size_t held() const { return held_; }
  // What a thread does: the next chunks, shuffled together, in the order in which they were taken.
  void read_chunks() {
    try {
      while (true) {
        std::optional<std::vector<size_t>> numbers;
        size_t ticket = 0;
        {
          const std::lock_guard lock(sampler_mutex_);
          numbers = chunk_sampler_.next(options_.cross_chunk_shuffle_count());
          ticket = next_ticket_++;
        }
        UnwrappedBatchType examples;
        if (numbers) {
          for (const size_t i : *numbers) {
            UnwrappedBatchType chunk = reader_.read_chunk(i);
            std::move(chunk.begin(), chunk.end(), std::back_inserter(examples));
          }
          if (preprocess_) preprocess_(examples);
        }
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [&] { return quit_ || next_place_ == ticket; });
        if (numbers && !examples.empty() && !quit_) {
          example_sampler_.reset(examples.size());
          UnwrappedBatchType mixed;
          const std::optional<std::vector<size_t>> order = example_sampler_.next(examples.size());
          for (const size_t i : *order) mixed.push_back(std::move(examples[i]));
          wake_.wait(lock, [&] { return quit_ || held_ < options_.cache_size(); });
          held_ += mixed.size();
          ready_.push_back(std::move(mixed));
        }
        ++next_place_;
        wake_.notify_all();
        if (!numbers || quit_) break;
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failed_ = std::current_exception();
      quit_ = true;
    }
    const std::lock_guard lock(mutex_);
    ++done_readers_;
    wake_.notify_all();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : readers_)
      if (t.joinable()) t.join();
    readers_.clear();
  }

  ChunkReader reader_;
  ChunkSampler chunk_sampler_;
  ExampleSampler example_sampler_;
  const ChunkDatasetOptions options_;
  std::function<void(UnwrappedBatchType&)> preprocess_;
  mutable std::mutex sampler_mutex_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::thread> readers_;
  std::deque<UnwrappedBatchType> ready_;
  std::exception_ptr failed_;
  size_t used_ = 0, held_ = 0, done_readers_ = 0, next_ticket_ = 0, next_place_ = 0;
  bool quit_ = false, started_ = false, loaded_ = false;
};

}  // namespace torch::data::datasets
namespace torch::data {
using datasets::BatchDataset;
using datasets::Dataset;
}  // namespace torch::data
