// Batches of a data set, made by the calling thread or by workers ahead of it.
#pragma once

#include <torch/arg.h>
#include <torch/data/datasets.h>

#include <chrono>
#include <cstring>
#include <map>

namespace torch::data {

// What a worker threw, as the calling thread sees it.
struct WorkerException : std::exception {
  explicit WorkerException(std::exception_ptr original)
      : message("Caught exception in DataLoader worker thread."), original_exception(std::move(original)) {
    try {
      std::rethrow_exception(original_exception);
    } catch (std::exception& e) {
      message += " Original message: ";
      message += e.what();
    } catch (...) {}
  }
  const char* what() const noexcept override { return message.c_str(); }
  std::string message;
  std::exception_ptr original_exception;
};

struct DataLoaderOptions {
  DataLoaderOptions() = default;
  /* implicit */ DataLoaderOptions(size_t batch_size) : batch_size_(batch_size) {}
  TORCH_ARG(size_t, batch_size) = 1;
  TORCH_ARG(size_t, workers) = 0;
  TORCH_ARG(std::optional<size_t>, max_jobs);
  TORCH_ARG(std::optional<std::chrono::milliseconds>, timeout);
  TORCH_ARG(bool, enforce_ordering) = true;
  TORCH_ARG(bool, drop_last) = false;
};
struct FullDataLoaderOptions {
  explicit FullDataLoaderOptions(DataLoaderOptions o)
      : batch_size(o.batch_size()),
        workers(o.workers()),
        max_jobs(o.max_jobs().value_or(2 * workers)),
        timeout(o.timeout()),
        enforce_ordering(o.enforce_ordering()),
        drop_last(o.drop_last()) {}
  size_t batch_size, workers, max_jobs;
  std::optional<std::chrono::milliseconds> timeout;
  bool enforce_ordering, drop_last;
};

// An input iterator over the batches of one pass.
template <class Batch>
class Iterator {
 public:
  using difference_type = std::ptrdiff_t;
  using value_type = Batch;
  using pointer = Batch*;
  using reference = Batch&;
  using iterator_category = std::input_iterator_tag;
  Iterator() = default;  // the end
  explicit Iterator(std::function<std::optional<Batch>()> next) : pass_(std::make_shared<Pass>()) {
    pass_->next = std::move(next);
  }
  Iterator& operator++() {
    TORCH_CHECK(pass_, "Incrementing the DataLoader's past-the-end iterator is not allowed");
    load();
    pass_->batch = pass_->next();
    return *this;
  }
  Batch& operator*() const {
    TORCH_CHECK(pass_, "Dereferencing the DataLoader's past-the-end iterator is not allowed");
    load();
    TORCH_CHECK(pass_->batch, "Attempted to dereference iterator that was past the end");
    return *pass_->batch;
  }
  Batch* operator->() const { return &**this; }
  bool operator==(const Iterator& o) const { return at_end() ? o.at_end() : pass_ == o.pass_; }
  bool operator!=(const Iterator& o) const { return !(*this == o); }

 private:
  struct Pass {
    std::function<std::optional<Batch>()> next;
    std::optional<Batch> batch;
    bool begun = false;
  };
  // The first batch is made when it is first asked for.
  void load() const {
    if (!std::exchange(pass_->begun, true)) pass_->batch = pass_->next();
  }
  bool at_end() const {
    if (!pass_) return true;
    load();
    return !pass_->batch;
  }
  std::shared_ptr<Pass> pass_;
};

// The base of both kinds of loaders. A subclass gives the requests of a pass; each is worked on here.
template <class Dataset, class Batch, class BatchRequest>
class DataLoaderBase {
 public:
  using BatchType = Batch;
  using BatchRequestType = BatchRequest;
  DataLoaderBase(DataLoaderOptions options, std::unique_ptr<Dataset> main_thread_dataset = nullptr)
      : options_(std::move(options)), main_thread_dataset_(std::move(main_thread_dataset)) {}
  DataLoaderBase(const DataLoaderBase&) = delete;
  virtual ~DataLoaderBase() { join(); }

  // A new pass. Error while another one goes on.
  Iterator<Batch> begin() {
    TORCH_CHECK(in_flight_ == 0 && (!joined_ || workers_.empty()),
                "Attempted to get a new DataLoader iterator while another iterator is not yet exhausted");
    reset();
    return Iterator<Batch>([this] { return next(); });
  }
  Iterator<Batch> end() { return {}; }
  // Waits for the workers and ends them; the loader is of no use afterwards.
  void join() {
    if (std::exchange(joined_, true)) return;
    {
      const std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : workers_) t.join();
  }
  const FullDataLoaderOptions& options() const noexcept { return options_; }

 protected:
  struct Result {
    size_t number;
    std::optional<Batch> batch;
    std::exception_ptr failed;
  };
  virtual std::optional<BatchRequest> get_batch_request() = 0;
  // A batch for a request: nothing at the end of a stateful data set.
  static std::optional<Batch> make(Dataset& dataset, BatchRequest request) {
    return std::optional<Batch>(dataset.get_batch(std::move(request)));
  }
  template <class D>
  void start(D dataset_of_worker) {
    for (size_t i = 0; i < options_.workers; ++i)
      workers_.emplace_back([this, dataset = dataset_of_worker()]() mutable { work(*dataset); });
  }
  virtual void reset() {
    const std::lock_guard lock(mutex_);
    jobs_.clear();
    results_.clear();
    next_job_ = next_result_ = in_flight_ = 0;
    if (options_.workers) prefetch(options_.max_jobs);
  }
  // With the mutex held.
  void prefetch(size_t n) {
    for (; n > 0; --n) {
      std::optional<BatchRequest> request = get_batch_request();
      if (!request) break;
      jobs_.emplace_back(next_job_++, std::move(*request));
      ++in_flight_;
    }
    wake_.notify_all();
  }
  std::optional<Batch> next() {
    if (!options_.workers) {
      std::optional<BatchRequest> request = get_batch_request();
      if (!request) return std::nullopt;
      return make(*main_thread_dataset_, std::move(*request));
    }
    std::unique_lock lock(mutex_);
    while (in_flight_ > 0) {
      const auto ready = [&] {
        return options_.enforce_ordering ? results_.count(next_result_) > 0 : !results_.empty();
      };
      if (options_.timeout) {
        TORCH_CHECK(done_.wait_for(lock, *options_.timeout, ready),
                    "Timeout in DataLoader queue while waiting for next batch ", "(timeout was ",
                    options_.timeout->count(), " ms)");
      } else {
        done_.wait(lock, ready);
      }
      const auto it = results_.begin();
      Result result = std::move(it->second);
      results_.erase(it);
      ++next_result_;
      --in_flight_;
      if (result.failed) throw WorkerException(result.failed);
      if (!result.batch) continue;
      prefetch(1);
      return std::move(result.batch);
    }
    return std::nullopt;
  }

  const FullDataLoaderOptions options_;
  std::unique_ptr<Dataset> main_thread_dataset_;

 private:
  void work(Dataset& dataset) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return quit_ || !jobs_.empty(); });
      if (quit_) return;
      auto [number, request] = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      Result result{number, std::nullopt, nullptr};
      try {
        result.batch = make(dataset, std::move(request));
      } catch (...) { result.failed = std::current_exception(); }
      lock.lock();
      results_.emplace(number, std::move(result));
      done_.notify_all();
    }
  }
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::pair<size_t, BatchRequest>> jobs_;
  std::map<size_t, Result> results_;
  size_t next_job_ = 0, next_result_ = 0, in_flight_ = 0;
  bool quit_ = false, joined_ = false;
  std::vector<std::thread> workers_;
};

// For data sets that are asked for indices (or whatever the sampler says): each worker has a copy of the data set.
template <class Dataset, class Sampler>
class StatelessDataLoader
    : public DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType> {
  using super = DataLoaderBase<Dataset, typename Dataset::BatchType, typename Sampler::BatchRequestType>;

 public:
  using typename super::BatchRequestType;
  StatelessDataLoader(Dataset dataset, Sampler sampler, DataLoaderOptions options)
      : super(std::move(options)), sampler_(std::move(sampler)) {
    if (this->options_.workers)
      this->start([&] { return std::make_shared<Dataset>(dataset); });
    else
      this->main_thread_dataset_ = std::make_unique<Dataset>(std::move(dataset));
  }
  ~StatelessDataLoader() override { this->join(); }

 private:
  void reset() override {
    sampler_.reset(std::nullopt);
    super::reset();
  }
  std::optional<BatchRequestType> get_batch_request() override {
    auto indices = sampler_.next(this->options_.batch_size);
    TORCH_CHECK(!indices || indices->size() > 0, "a data loader needs a batch size of at least 1");
    if (!indices || (indices->size() < this->options_.batch_size && this->options_.drop_last)) return std::nullopt;
    return indices;
  }
  Sampler sampler_;
};

// For data sets that know where they are: all workers share the one.
template <class Dataset>
class StatefulDataLoader
    : public DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, typename Dataset::BatchRequestType> {
  using super = DataLoaderBase<Dataset, typename Dataset::BatchType::value_type, typename Dataset::BatchRequestType>;

 public:
  using typename super::BatchRequestType;
  StatefulDataLoader(Dataset dataset, DataLoaderOptions options)
      : super(std::move(options), std::make_unique<Dataset>(std::move(dataset))) {
    this->start([&] { return std::shared_ptr<Dataset>(this->main_thread_dataset_.get(), [](Dataset*) {}); });
  }
  ~StatefulDataLoader() override { this->join(); }

 private:
  void reset() override {
    this->main_thread_dataset_->reset();
    super::reset();
  }
  std::optional<BatchRequestType> get_batch_request() override { return this->options_.batch_size; }
};

// Without a sampler one is made for the size of the data set: by default a random one.
template <class D, class S>
std::enable_if_t<!D::is_stateful, std::unique_ptr<StatelessDataLoader<D, S>>> make_data_loader(
    D dataset, S sampler, DataLoaderOptions options) {
  return std::make_unique<StatelessDataLoader<D, S>>(std::move(dataset), std::move(sampler), std::move(options));
}
template <class S = samplers::RandomSampler, class D>
std::enable_if_t<!D::is_stateful && std::is_constructible_v<S, size_t>, std::unique_ptr<StatelessDataLoader<D, S>>>
make_data_loader(D dataset, DataLoaderOptions options = DataLoaderOptions()) {
  const std::optional<size_t> size = dataset.size();
  TORCH_CHECK(size.has_value(), "Expected the dataset to be sized in order to construct the Sampler");
  return make_data_loader(std::move(dataset), S(*size), std::move(options));
}
template <class D>
std::enable_if_t<D::is_stateful, std::unique_ptr<StatefulDataLoader<D>>> make_data_loader(
    D dataset, DataLoaderOptions options = DataLoaderOptions()) {
  return std::make_unique<StatefulDataLoader<D>>(std::move(dataset), std::move(options));
}

}  // namespace torch::data
