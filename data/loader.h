// Batches of a data set:
//
//   data::TensorDataset train({images, labels});
//   data::DataLoader loader(train, {.batch_size = 32, .shuffle = true});
//   for (const data::Fields& batch : loader) step(batch[0], batch[1]);
#pragma once

#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/sampler.h"

namespace tessera::data {

struct LoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false, drop_last = false;
  Generator generator;               // of the order; default: seeded from the default generator for each pass
  std::shared_ptr<Sampler> sampler;  // instead of shuffle
};

// Draws from the generators as Python's loader does, so that a program in either language sees the same batches.
// ValueError for a batch_size below 1, and for a sampler with shuffle.
class DataLoader {
 public:
  class Iterator {
   public:
    const Fields& operator*() const { return batch_; }
    Iterator& operator++();
    bool operator!=(const Iterator& end) const { return begin_ != end.begin_; }

   private:
    friend class DataLoader;
    Iterator(const DataLoader* loader, std::vector<int64_t> order, size_t begin)
        : loader_(loader), order_(std::move(order)), begin_(begin) {}
    void fetch();
    const DataLoader* loader_;
    std::vector<int64_t> order_;
    size_t begin_;
    Fields batch_;
  };

  // The data set must outlive its loader.
  explicit DataLoader(const Dataset& dataset, LoaderOptions options = {});
  int64_t size() const;  // number of batches
  Iterator begin() const;
  Iterator end() const;

 private:
  size_t end_position() const;  // behind the last sample that belongs to a batch, in whole batches
  const Dataset& dataset_;
  LoaderOptions options_;
};

}  // namespace tessera::data
