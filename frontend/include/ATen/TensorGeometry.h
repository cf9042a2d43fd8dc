// Sizes and strides of a tensor without its memory.
#pragma once

#include "ATen/WrapDimUtils.h"

namespace at {

inline bool geometry_is_contiguous(IntArrayRef sizes, IntArrayRef strides) {
  int64_t step = 1;
  bool contiguous = true;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 0) return true;
    if (sizes[d] != 1) contiguous = contiguous && strides[d] == step;
    step *= sizes[d];
  }
  return contiguous;
}

struct TensorGeometry {
  TensorGeometry() = default;
  explicit TensorGeometry(IntArrayRef sizes) : sizes_(sizes.vec()), strides_(sizes.size()) {
    for (size_t d = sizes.size(); d-- > 0;) {
      strides_[d] = numel_;
      numel_ *= sizes[d];
    }
  }
  explicit TensorGeometry(const Tensor& t)
      : sizes_(t.sizes().vec()), strides_(t.strides().vec()), offset_(t.storage_offset()), numel_(t.numel()) {}

  int64_t dim() const { return static_cast<int64_t>(sizes_.size()); }
  IntArrayRef sizes() const { return sizes_; }
  IntArrayRef strides() const { return strides_; }
  int64_t size(int64_t d) const { return sizes_.at(static_cast<size_t>(maybe_wrap_dim(d, dim()))); }
  int64_t stride(int64_t d) const { return strides_.at(static_cast<size_t>(maybe_wrap_dim(d, dim()))); }
  int64_t storage_offset() const { return offset_; }
  int64_t numel() const { return numel_; }
  bool is_contiguous() const { return geometry_is_contiguous(sizes_, strides_); }
  TensorGeometry transpose(int64_t a, int64_t b) const {
    TensorGeometry t = *this;
    const auto i = static_cast<size_t>(maybe_wrap_dim(a, dim()));
    const auto j = static_cast<size_t>(maybe_wrap_dim(b, dim()));
    std::swap(t.sizes_.at(i), t.sizes_.at(j));
    std::swap(t.strides_.at(i), t.strides_.at(j));
    return t;
  }

 private:
  std::vector<int64_t> sizes_, strides_;
  int64_t offset_ = 0, numel_ = 1;
};

}  // namespace at
