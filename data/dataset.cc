#include "data/dataset.h"

#include <algorithm>

#include "tensor/ops/index_ops.h"
#include "tensor/ops/view_ops.h"

namespace tessera::data {

TensorDataset::TensorDataset(Fields tensors) : tensors_(std::move(tensors)) {
  TESSERA_CHECK_VALUE(!tensors_.empty(), "TensorDataset needs at least one tensor");
  for (const Tensor& t : tensors_) {
    TESSERA_CHECK_VALUE(t.defined() && t.dim() > 0, "TensorDataset takes tensors of one dimension or more");
    TESSERA_CHECK_AS(AssertionError, t.size(0) == tensors_[0].size(0), "Size mismatch between tensors: ", t.size(0),
                     " and ", tensors_[0].size(0));
  }
}

Fields TensorDataset::get_batch(std::span<const int64_t> indices) const {
  const Tensor index = empty_kernel(IntVector{static_cast<int64_t>(indices.size())}, DType::kInt64);
  std::copy(indices.begin(), indices.end(), index.data<int64_t>());
  Fields batch;
  for (const Tensor& t : tensors_) batch.push_back(index_select(t, 0, index));
  return batch;
}

Fields MapDataset::get_batch(std::span<const int64_t> indices) const {
  std::vector<Fields> columns;
  for (size_t i = 0; i < indices.size(); ++i) {
    TESSERA_CHECK_INDEX(indices[i] >= 0 && indices[i] < size(), "index ", indices[i],
                        " is out of range for a data set of ", size(), " samples");
    Fields sample = get(indices[i]);
    if (i == 0) columns.resize(sample.size());
    TESSERA_CHECK(sample.size() == columns.size(), "each sample should have the same number of fields: expected ",
                  columns.size(), ", but got ", sample.size());
    for (size_t k = 0; k < sample.size(); ++k) columns[k].push_back(std::move(sample[k]));
  }
  Fields batch;
  for (const Fields& column : columns) batch.push_back(stack(column));
  return batch;
}

}  // namespace tessera::data
