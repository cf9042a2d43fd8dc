// Elements by index, for loops of one's own: tensor.accessor<float, 2>()[i][j].
#pragma once

#include <algorithm>

#include "c10/util/ArrayRef.h"

namespace at {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
using RestrictPtrTraits = DefaultPtrTraits<T>;

// What accessors share. Sizes and strides belong to the tensor, which must stay.
template <class T, size_t N, class Index>
class TensorAccessorBase {
 public:
  using PtrType = T*;
  TensorAccessorBase(T* data, const Index* sizes, const Index* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  c10::ArrayRef<Index> sizes() const { return {sizes_, N}; }
  c10::ArrayRef<Index> strides() const { return {strides_, N}; }
  Index size(Index i) const { return sizes_[i]; }
  Index stride(Index i) const { return strides_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }

 protected:
  T* data_;
  const Index* sizes_;
  const Index* strides_;
};

template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
class TensorAccessor : public TensorAccessorBase<T, N, Index> {
 public:
  using TensorAccessorBase<T, N, Index>::TensorAccessorBase;
  TensorAccessor<T, N - 1, PtrTraits, Index> operator[](Index i) const {
    return {this->data_ + this->strides_[0] * i, this->sizes_ + 1, this->strides_ + 1};
  }
};
template <class T, template <class> class PtrTraits, class Index>
class TensorAccessor<T, 1, PtrTraits, Index> : public TensorAccessorBase<T, 1, Index> {
 public:
  using TensorAccessorBase<T, 1, Index>::TensorAccessorBase;
  T& operator[](Index i) const { return this->data_[this->strides_[0] * i]; }
};

// With sizes and strides of its own: it can be handed on by value.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
class GenericPackedTensorAccessor {
 public:
  using PtrType = T*;
  template <class From>
  GenericPackedTensorAccessor(T* data, const From* sizes, const From* strides) : data_(data) {
    for (size_t i = 0; i < N; ++i) {
      sizes_[i] = static_cast<Index>(sizes[i]);
      strides_[i] = static_cast<Index>(strides[i]);
    }
  }
  Index size(Index i) const { return sizes_[i]; }
  Index stride(Index i) const { return strides_[i]; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  decltype(auto) operator[](Index i) const {
    if constexpr (N == 1)
      return (data_[strides_[0] * i]);
    else
      return TensorAccessor<T, N - 1, PtrTraits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
  }
  GenericPackedTensorAccessor transpose(Index a, Index b) const {
    TORCH_CHECK_INDEX(0 <= a && a < static_cast<Index>(N) && 0 <= b && b < static_cast<Index>(N),
                      "transpose: dimensions ", a, " and ", b, " of an accessor with ", N);
    GenericPackedTensorAccessor r = *this;
    std::swap(r.sizes_[a], r.sizes_[b]);
    std::swap(r.strides_[a], r.strides_[b]);
    return r;
  }

 private:
  T* data_;
  Index sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, PtrTraits, int64_t>;

}  // namespace at
