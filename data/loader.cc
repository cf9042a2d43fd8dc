#include "data/loader.h"

#include <algorithm>

namespace tessera::data {

DataLoader::DataLoader(const Dataset& dataset, LoaderOptions options)
    : dataset_(dataset), options_(std::move(options)) {
  TESSERA_CHECK_VALUE(options_.batch_size > 0,
                      "batch_size should be a positive integer value, but got batch_size=", options_.batch_size);
  TESSERA_CHECK_VALUE(!options_.sampler || !options_.shuffle, "sampler option is mutually exclusive with shuffle");
  if (options_.sampler) return;
  if (options_.shuffle)
    options_.sampler = std::make_shared<RandomSampler>(dataset.size(), options_.generator);
  else
    options_.sampler = std::make_shared<SequentialSampler>(dataset.size());
}

int64_t DataLoader::size() const {
  const int64_t n = options_.sampler->size(), b = options_.batch_size;
  return options_.drop_last ? n / b : n / b + (n % b != 0);
}

size_t DataLoader::end_position() const {
  return static_cast<size_t>(size()) * static_cast<size_t>(options_.batch_size);
}

DataLoader::Iterator DataLoader::begin() const {
  draw_seed(options_.generator);  // the seed of workers, which there are none of here: the stream goes on as in Python
  Iterator it(this, options_.sampler->indices(), 0);
  it.fetch();
  return it;
}

DataLoader::Iterator DataLoader::end() const { return Iterator(this, {}, end_position()); }

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  begin_ += static_cast<size_t>(loader_->options_.batch_size);
  fetch();
  return *this;
}

void DataLoader::Iterator::fetch() {
  if (begin_ >= loader_->end_position()) return;
  const size_t n = std::min<size_t>(static_cast<size_t>(loader_->options_.batch_size), order_.size() - begin_);
  batch_ = loader_->dataset_.get_batch(std::span<const int64_t>(order_).subspan(begin_, n));
}

}  // namespace tessera::data
