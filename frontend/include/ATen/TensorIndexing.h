// Indexing as in Python: t.index({Slice(1, None), "...", mask}).
#pragma once

#include "ATen/core/Tensor.h"

namespace at::indexing {

inline constexpr int64_t INDEX_MIN = INT64_MIN, INDEX_MAX = INT64_MAX;
enum class TensorIndexType { None, Ellipsis, SymInt, Boolean, Slice, Tensor };
inline constexpr std::nullopt_t None = std::nullopt;
struct EllipsisIndexType final {};
inline constexpr EllipsisIndexType Ellipsis{};

struct Slice final {
  Slice(std::optional<SymInt> start = std::nullopt, std::optional<SymInt> stop = std::nullopt,
        std::optional<SymInt> step = std::nullopt)
      : step_(step.value_or(1)),
        start_(start.value_or(step_ < 0 ? INDEX_MAX : 0)),
        stop_(stop.value_or(step_ < 0 ? INDEX_MIN : INDEX_MAX)) {
    TORCH_CHECK_VALUE(step_ != 0, "slice step cannot be zero");
  }
  int64_t start() const { return start_; }
  int64_t stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  int64_t step_, start_, stop_;
};
inline std::ostream& operator<<(std::ostream& out, const Slice& s) {
  return out << s.start() << ':' << s.stop() << ':' << s.step();
}

class TensorIndex final {
 public:
  TensorIndex(std::nullopt_t) {}
  TensorIndex(EllipsisIndexType) : type_(TensorIndexType::Ellipsis) {}
  TensorIndex(const char* text) : type_(TensorIndexType::Ellipsis) {
    TORCH_CHECK_VALUE(std::string_view(text) == "...", "Expected \"...\" to represent an ellipsis index, but got \"",
                      text, "\"");
  }
  template <class T>
  requires std::is_integral_v<T> TensorIndex(T v)
      : number_(static_cast<int64_t>(v)),
        type_(std::is_same_v<T, bool> ? TensorIndexType::Boolean : TensorIndexType::SymInt) {}
  TensorIndex(SymInt v) : number_(v), type_(TensorIndexType::SymInt) {}
  TensorIndex(Slice s) : slice_(s), type_(TensorIndexType::Slice) {}
  TensorIndex(Tensor t) : tensor_(std::move(t)), type_(TensorIndexType::Tensor) {}

  bool is_none() const { return type_ == TensorIndexType::None; }
  bool is_ellipsis() const { return type_ == TensorIndexType::Ellipsis; }
  bool is_integer() const { return type_ == TensorIndexType::SymInt; }
  bool is_boolean() const { return type_ == TensorIndexType::Boolean; }
  bool is_slice() const { return type_ == TensorIndexType::Slice; }
  bool is_tensor() const { return type_ == TensorIndexType::Tensor; }
  int64_t integer() const { return number_; }
  bool boolean() const { return number_ != 0; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  int64_t number_ = 0;
  Slice slice_;
  Tensor tensor_;
  TensorIndexType type_ = TensorIndexType::None;
};
inline std::ostream& operator<<(std::ostream& out, const TensorIndex& i) {
  if (i.is_none()) return out << "None";
  if (i.is_ellipsis()) return out << "...";
  if (i.is_integer()) return out << i.integer();
  if (i.is_boolean()) return out << (i.boolean() ? "true" : "false");
  return i.is_slice() ? out << i.slice() : out << i.tensor().toString();
}
inline std::ostream& operator<<(std::ostream& out, const std::vector<TensorIndex>& l) {
  out << '(';
  for (size_t i = 0; i < l.size(); ++i) out << (i ? ", " : "") << l[i];
  return out << ')';
}

namespace impl {
// A slice goes by its own bounds; what is left to be gathered by index tensors stands in `gathered`, by dimension.
inline Tensor take_views(Tensor t, ArrayRef<TensorIndex> indices, std::vector<tessera::Tensor>* gathered) {
  int64_t named = 0;
  for (const TensorIndex& i : indices) {
    if (i.is_tensor())
      named += i.tensor().scalar_type() == kBool || i.tensor().scalar_type() == kByte ? i.tensor().dim() : 1;
    else
      named += i.is_integer() || i.is_slice();
  }
  TORCH_CHECK_INDEX(t.dim() > 0 || indices.empty() || !indices[0].is_integer(),
                    "invalid index of a 0-dim tensor. Use `tensor.item<T>()` to convert a 0-dim tensor to a number");
  const int64_t left = t.dim() - named;
  TORCH_CHECK_INDEX(left >= 0, "too many indices for tensor of dimension ", t.dim());
  int64_t d = 0, of_self = 0;  // the next dimension of the view, and of the tensor that is indexed
  auto select = [&](int64_t i) {
    const int64_t n = t.size(d);
    TORCH_CHECK_INDEX(i >= -n && i < n, "index ", i, " is out of bounds for dimension ", of_self, " with size ", n);
    t = t.select(d, i);
    ++of_self;
  };
  auto gather = [&](const Tensor& i) {
    gathered->resize(static_cast<size_t>(d));
    gathered->push_back(i);
    ++d;
  };
  auto by_truth = [&](bool v) {
    t = t.unsqueeze(d);
    gather(v ? at::zeros({1}, t.options().dtype(kLong)) : at::empty({0}, t.options().dtype(kLong)));
  };
  for (const TensorIndex& i : indices) {
    if (i.is_none()) {
      t = t.unsqueeze(d++);
    } else if (i.is_ellipsis()) {
      d += left;
      of_self += left;
    } else if (i.is_integer()) {
      select(i.integer());
    } else if (i.is_boolean()) {
      by_truth(i.boolean());
    } else if (i.is_slice()) {
      TORCH_CHECK_VALUE(i.slice().step() > 0, "step must be greater than zero");
      t = t.slice(d++, i.slice().start(), i.slice().stop(), i.slice().step());
      ++of_self;
    } else if (i.tensor().dim() == 0 && isIntegralType(i.tensor().scalar_type(), true)) {
      if (i.tensor().scalar_type() == kBool || i.tensor().scalar_type() == kByte)
        by_truth(i.tensor().item<bool>());
      else
        select(i.tensor().item<int64_t>());
    } else {
      const bool mask = i.tensor().scalar_type() == kBool || i.tensor().scalar_type() == kByte;
      gather(i.tensor());
      of_self += mask ? i.tensor().dim() : 1;
      if (mask) d += i.tensor().dim() - 1;
    }
  }
  return t;
}
}  // namespace impl

inline Tensor get_item(const Tensor& self, ArrayRef<TensorIndex> indices) {
  TORCH_CHECK_INDEX(!indices.empty(), "Passing an empty index list to Tensor::index() is not valid syntax");
  std::vector<tessera::Tensor> gathered;
  const Tensor view = impl::take_views(self, indices, &gathered);
  if (!gathered.empty()) return tessera::op::index_Tensor.call(view, gathered);
  return view.is_same(self) ? view.alias() : view;
}
inline void set_item(const Tensor& self, ArrayRef<TensorIndex> indices, const Tensor& values) {
  TORCH_CHECK_INDEX(!indices.empty(), "Passing an empty index list to Tensor::index_put_() is not valid syntax");
  std::vector<tessera::Tensor> gathered;
  const Tensor view = impl::take_views(self, indices, &gathered);
  Tensor from = values;
  while (from.dim() > view.dim() && from.size(0) == 1) from = from.squeeze(0);
  if (gathered.empty())
    view.copy_(from);
  else
    tessera::op::index_put_.call(view, gathered, from.to(view.scalar_type()), false);
}
inline void set_item(const Tensor& self, ArrayRef<TensorIndex> indices, const Scalar& value) {
  set_item(self, indices, at::scalar_tensor(value, self.options()));
}

}  // namespace at::indexing

namespace at {

inline Tensor Tensor::index(ArrayRef<indexing::TensorIndex> indices) const {
  return indexing::get_item(*this, indices);
}
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return indexing::get_item(*this, indices);
}
#define TESSERA_INDEX_PUT(List, Value)                                        \
  inline Tensor& Tensor::index_put_(List indices, const Value& value) const { \
    indexing::set_item(*this, indices, value);                                \
    return const_cast<Tensor&>(*this);                                        \
  }
TESSERA_INDEX_PUT(ArrayRef<indexing::TensorIndex>, Tensor)
TESSERA_INDEX_PUT(ArrayRef<indexing::TensorIndex>, Scalar)
TESSERA_INDEX_PUT(std::initializer_list<indexing::TensorIndex>, Tensor)
TESSERA_INDEX_PUT(std::initializer_list<indexing::TensorIndex>, Scalar)
#undef TESSERA_INDEX_PUT

}  // namespace at
namespace torch::indexing {
using namespace at::indexing;  // NOLINT
}
