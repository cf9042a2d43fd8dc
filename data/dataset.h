// Data sets that are read by index.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::data {

// One sample or one batch: a tensor for each field (images, labels ...).
using Fields = std::vector<Tensor>;

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // The samples of some indices, each field with a new first dimension. IndexError for an index outside [0, size()).
  virtual Fields get_batch(std::span<const int64_t> indices) const = 0;
};

// Sample i is row i of every tensor. AssertionError if their first dimensions differ.
class TensorDataset final : public Dataset {
 public:
  explicit TensorDataset(Fields tensors);
  int64_t size() const override { return tensors_[0].size(0); }
  Fields get_batch(std::span<const int64_t> indices) const override;
  const Fields& tensors() const { return tensors_; }

 private:
  Fields tensors_;
};

// The base of data sets that make samples one by one.
class MapDataset : public Dataset {
 public:
  virtual Fields get(int64_t index) const = 0;
  Fields get_batch(
      std::span<const int64_t> indices) const override;  // stacks; Error if samples differ in number or shape of fields
};

}  // namespace tessera::data
