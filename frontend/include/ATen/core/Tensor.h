// The tensor of the documented C++ API: Tessera's, under the names that the documents give. It has no members of its
// own, so a list of one kind is a list of the other.
#pragma once

#include <memory>

#include "ATen/core/Generator.h"
#include "ATen/core/List.h"
#include "ATen/core/TensorAccessor.h"
#include "ATen/core/interned_strings.h"
#include "ATen/ops_objects.h"
#include "autograd/autograd.h"
#include "autograd/hooks.h"
#include "autograd/variable.h"
#include "c10/core/Backend.h"
#include "c10/core/Scalar.h"
#include "c10/core/Storage.h"
#include "c10/core/TensorOptions.h"
#include "c10/util/intrusive_ptr.h"

namespace at {}
namespace torch {
using namespace at;  // NOLINT: torch has all of at's names, as documented
namespace autograd {
class NodePtr;
}
}  // namespace torch

namespace at {

class Tensor;
using namespace c10;  // NOLINT: at has all of c10's names, as documented
using TensorList = c10::ArrayRef<Tensor>;
using ITensorListRef = TensorList;
namespace op = tessera::op;
namespace indexing {
class TensorIndex;
}

// The name of a dimension.
class Dimname {
 public:
  Dimname() = default;
  explicit Dimname(std::string name) : name_(std::move(name)) {}
  static Dimname wildcard() { return Dimname("*"); }
  static Dimname fromSymbol(const c10::Symbol& name) { return Dimname(name.toUnqualString()); }
  bool isBasic() const { return !isWildcard(); }
  const std::string& symbol() const { return name_; }
  bool isWildcard() const { return name_ == "*"; }
  operator std::string_view() const { return name_; }
  friend bool operator==(const Dimname& a, const Dimname& b) { return a.name_ == b.name_; }
  friend std::ostream& operator<<(std::ostream& out, const Dimname& d) {
    return d.isWildcard() ? out << "None" : out << '\'' << d.name_ << '\'';
  }

 private:
  std::string name_ = "*";
};
using DimnameList = c10::ArrayRef<Dimname>;

// What Tensor::type() gives: the older name of dtype, layout and device together.
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(ScalarType type, Layout layout, DeviceType device)
      : type_(type), layout_(layout), device_(device) {}
  ScalarType scalarType() const { return type_; }
  caffe2::TypeMeta typeMeta() const { return type_; }
  Layout layout() const { return layout_; }
  DeviceType device_type() const { return device_; }
  bool is_cuda() const { return device_ == kCUDA; }
  bool is_sparse() const { return layout_ == kSparse; }
  bool is_sparse_csr() const { return layout_ == kSparseCsr; }
  TensorOptions options() const { return TensorOptions(type_).device(device_).layout(layout_); }
  operator TensorOptions() const { return options(); }
  operator ScalarType() const { return type_; }
  DeprecatedTypeProperties toScalarType(ScalarType t) const { return {t, layout_, device_}; }
  std::string toString() const {
    const char* kind = is_sparse() ? "Sparse" : is_sparse_csr() ? "SparseCsr" : "";
    return c10::str(kind, DeviceTypeName(device_), c10::toString(type_), "Type");
  }
  Backend backend() const { return c10::backend_of(device_, layout_); }
  friend bool operator==(const DeprecatedTypeProperties&, const DeprecatedTypeProperties&) = default;
  friend std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& t) { return out << t.toString(); }

 private:
  ScalarType type_;
  Layout layout_;
  DeviceType device_;
};

inline DeprecatedTypeProperties getDeprecatedTypeProperties(Backend b, ScalarType t) {
  return {t, c10::layout_from_backend(b), c10::backendToDeviceType(b)};
}
inline DeprecatedTypeProperties CPU(ScalarType t) { return getDeprecatedTypeProperties(Backend::CPU, t); }
inline DeprecatedTypeProperties CUDA(ScalarType t) { return getDeprecatedTypeProperties(Backend::CUDA, t); }

// How arguments get to the operators, and results back.
namespace fe {
inline const tessera::Tensor& in(const std::optional<Tensor>& t);
inline tessera::TensorList in(TensorList l);
inline std::optional<tessera::TensorList> in(const std::optional<TensorList>& l);
inline std::vector<tessera::Tensor> in(const c10::List<std::optional<Tensor>>& l);
inline const tessera::Generator& in(const std::optional<Generator>& g) {
  static const tessera::Generator none;
  return g ? static_cast<const tessera::Generator&>(*g) : none;
}
inline const tessera::Generator& in(const Generator& g) { return g; }
inline tessera::DType in(ScalarType t) { return to_dtype(t); }
inline tessera::Layout in(Layout l) { return to_layout(l); }
inline tessera::MemoryFormat in(MemoryFormat f) { return static_cast<tessera::MemoryFormat>(f); }
inline std::optional<tessera::DType> in(std::optional<ScalarType> t) {
  return t ? std::optional<tessera::DType>(to_dtype(*t)) : std::nullopt;
}
inline std::optional<tessera::Layout> in(std::optional<Layout> l) {
  return l ? std::optional<tessera::Layout>(to_layout(*l)) : std::nullopt;
}
inline std::optional<tessera::MemoryFormat> in(std::optional<MemoryFormat> f) {
  return f ? std::optional<tessera::MemoryFormat>(static_cast<tessera::MemoryFormat>(*f)) : std::nullopt;
}
inline tessera::IntList in(IntArrayRef l) { return {l.data(), l.size()}; }
inline std::optional<tessera::IntList> in(const OptionalIntArrayRef& l) {
  return l ? std::optional<tessera::IntList>(*l) : std::nullopt;
}
inline std::span<const double> in(ArrayRef<double> l) { return {l.data(), l.size()}; }
inline std::span<const bool> in(ArrayRef<bool> l) { return {l.data(), l.size()}; }
inline std::span<const tessera::Scalar> in(ArrayRef<Scalar> l) {
  return {static_cast<const tessera::Scalar*>(l.data()), l.size()};
}
template <class T>
auto in(const std::optional<ArrayRef<T>>& l) {
  using Result = decltype(in(*l));
  return l ? std::optional<Result>(in(*l)) : std::nullopt;
}
inline const tessera::Storage& in(const Storage& s) { return s.impl(); }
inline std::optional<tessera::Storage> in(const std::optional<Storage>& s) {
  return s ? std::optional<tessera::Storage>(s->impl()) : std::nullopt;
}
inline std::optional<std::string_view> in(const std::optional<Dimname>& d) {
  return d ? std::optional<std::string_view>(*d) : std::nullopt;
}

// What a tensor may be converted to.
inline const TensorOptions& plain(const TensorOptions& o) {
  TORCH_CHECK(!o.requires_grad(),
              "to() takes no options with requires_grad(true): call requires_grad_() of its result");
  return o;
}
inline std::optional<tessera::DType> dtype(const TensorOptions& o) {
  return o.has_dtype() ? std::optional<tessera::DType>(to_dtype(*o.scalar_type_opt())) : std::nullopt;
}
inline std::optional<tessera::Layout> layout(const TensorOptions& o) {
  return o.has_layout() ? std::optional<tessera::Layout>(to_layout(o.layout())) : std::nullopt;
}
inline std::optional<tessera::Device> device(const TensorOptions& o) {
  return o.has_device() ? std::optional<tessera::Device>(*o.device_opt()) : std::nullopt;
}
inline std::optional<bool> pin_memory(const TensorOptions& o) { return o.pinned_memory_opt(); }

inline std::vector<Tensor> out(std::vector<tessera::Tensor>&& l);
inline std::vector<int64_t> out(tessera::IntVector&& l) { return std::move(l); }
inline ScalarType out(tessera::DType t) { return to_scalar_type(t); }
inline Layout out(tessera::Layout l) { return from_layout(l); }
inline Storage out(tessera::Storage s) { return s; }
inline tessera::Tensor made(tessera::Tensor t, const TensorOptions& o) {
  if (o.requires_grad()) t.requires_grad_(true);
  return t;
}
}  // namespace fe

class Tensor : public tessera::Tensor {
 public:
  // Matrices transposed; mH and H conjugated as well.
  Tensor mT() const { return transpose(-2, -1); }
  Tensor mH() const { return transpose(-2, -1).conj(); }
  Tensor H() const { return mH(); }
  Tensor() = default;
  Tensor(const tessera::Tensor& t) : tessera::Tensor(t) {}
  Tensor(tessera::Tensor&& t) noexcept : tessera::Tensor(std::move(t)) {}
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  explicit Tensor(tessera::IntrusivePtr<tessera::TensorImpl> impl) : tessera::Tensor(std::move(impl)) {}
  Tensor& operator=(const Tensor&) & = default;
  Tensor& operator=(Tensor&&) & = default;
  // t[i] = x writes into t.
  Tensor& operator=(const Tensor& x) && { return copy_(x); }
  Tensor& operator=(Tensor&& x) && { return copy_(x); }
  Tensor& operator=(const Scalar& x) && { return fill_(x); }

  using tessera::Tensor::data_ptr;
  using tessera::Tensor::is_contiguous;
  tessera::TensorImpl* unsafeGetTensorImpl() const { return impl(); }
  size_t use_count() const { return defined() ? static_cast<size_t>(impl()->use_count()) : 0; }
  size_t weak_use_count() const { return defined() ? 1 : 0; }
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const { return impl_or_raise().sizes(); }
  IntArrayRef strides() const { return impl_or_raise().strides(); }
  SymIntArrayRef sym_sizes() const { return sizes(); }
  SymIntArrayRef sym_strides() const { return strides(); }
  SymInt sym_size(int64_t d) const { return size(d); }
  SymInt sym_stride(int64_t d) const { return stride(d); }
  SymInt sym_numel() const { return numel(); }
  SymInt sym_storage_offset() const { return storage_offset(); }
  size_t nbytes() const { return static_cast<size_t>(tessera::Tensor::nbytes()); }
  size_t itemsize() const { return static_cast<size_t>(item_size()); }
  int64_t element_size() const { return item_size(); }
  ScalarType scalar_type() const { return defined() ? to_scalar_type(impl()->dtype()) : ScalarType::Undefined; }
  caffe2::TypeMeta dtype() const { return scalar_type(); }
  Device device() const { return impl_or_raise().device(); }
  DeviceIndex get_device() const { return device().index(); }
  Layout layout() const { return from_layout(impl_or_raise().layout()); }
  TensorOptions options() const { return TensorOptions(scalar_type()).device(device()).layout(layout()); }
  DispatchKeySet key_set() const { return impl_or_raise().keys(); }
  bool is_contiguous(MemoryFormat f) const { return tessera::Tensor::is_contiguous(fe::in(f)); }
  MemoryFormat suggest_memory_format() const {
    return static_cast<MemoryFormat>(tessera::Tensor::suggest_memory_format());
  }
  bool is_signed() const { return c10::isSignedType(scalar_type()); }
  bool is_uniquely_owned() const { return use_count() == 1; }
  const c10::intrusive_ptr<tessera::TensorImpl>& getIntrusivePtr() const {
    return reinterpret_cast<const c10::intrusive_ptr<tessera::TensorImpl>&>(impl_ptr());
  }
  bool is_mps() const { return device().is_mps(); }
  bool is_xpu() const { return device().is_xpu(); }
  bool is_privateuseone() const { return device().is_privateuseone(); }
  bool is_sparse() const { return layout() == kSparse; }
  bool is_sparse_csr() const { return layout() == kSparseCsr; }
  bool is_mkldnn() const { return layout() == kMkldnn; }
  bool is_quantized() const { return isQIntType(scalar_type()); }
  bool is_nested() const { return layout() == kJagged; }
  bool has_names() const { return impl()->extra() && !impl()->extra()->names.empty(); }
  // Of dimensions; wildcards where there is none. They are set and read by ATen/NamedTensorUtils.h.
  std::vector<Dimname> names() const;
  Tensor refine_names(DimnameList names) const;
  Tensor rename(std::optional<DimnameList> names) const;
  Tensor& rename_(std::optional<DimnameList> names) const;
  bool has_storage() const { return static_cast<bool>(tessera::Tensor::storage()); }
  Storage storage() const { return tessera::Tensor::storage(); }
  bool is_alias_of(const tessera::Tensor& o) const { return tessera::Tensor::storage() == o.storage(); }
  // The same elements of the same memory.
  bool is_set_to(const Tensor& o) const {
    return is_alias_of(o) && storage_offset() == o.storage_offset() && sizes() == o.sizes() && strides() == o.strides();
  }
  bool is_same(const tessera::Tensor& o) const { return impl() == o.impl(); }
  bool is_same_size(const tessera::Tensor& o) const { return sizes() == IntArrayRef(o.sizes()); }
  DeprecatedTypeProperties type() const { return {scalar_type(), layout(), device().type()}; }
  std::string toString() const { return defined() ? type().toString() : "UndefinedType"; }
  void print() const;
  const Tensor& tensor_identity() const { return *this; }

  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  // The elements; Error if they are of another type.
  template <class T>
  T* data_ptr() const {
    check_type<T>();
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const std::remove_const_t<T>* const_data_ptr() const {
    check_type<T>();
    return static_cast<const std::remove_const_t<T>*>(data_ptr());
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_rank<N>();
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class Index = int64_t>
  GenericPackedTensorAccessor<T, N, PtrTraits, Index> generic_packed_accessor() const& {
    check_rank<N>();
    return {data_ptr<T>(), sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const& {
    TORCH_CHECK(numel() <= INT32_MAX,
                "numel needs to be smaller than int32_t max; otherwise, please use packed_accessor64");
    return generic_packed_accessor<T, N, PtrTraits, int32_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() && = delete;
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const& {
    return generic_packed_accessor<T, N, PtrTraits, int64_t>();
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() && = delete;
  template <class T>
  T item() const {
    return item().template to<T>();
  }

  Tensor operator~() const { return bitwise_not(); }
  Tensor operator-() const { return neg(); }
  Tensor operator!() const { return logical_not(); }
  // In place; also on what an expression gives.
#define TESSERA_COMPOUND(op, name)                               \
  Tensor& operator op(const Tensor& o) const { return name(o); } \
  Tensor& operator op(const Scalar& o) const { return name(o); }
  TESSERA_COMPOUND(+=, add_)
  TESSERA_COMPOUND(-=, sub_)
  TESSERA_COMPOUND(*=, mul_)
  TESSERA_COMPOUND(/=, div_)
  TESSERA_COMPOUND(&=, bitwise_and_)
  TESSERA_COMPOUND(|=, bitwise_or_)
  TESSERA_COMPOUND(^=, bitwise_xor_)
#undef TESSERA_COMPOUND
  Tensor operator[](int64_t i) const { return select(0, i); }
  Tensor operator[](const Scalar& i) const {
    TORCH_CHECK_INDEX(i.isIntegral(false), "Can only index tensors with integral scalars");
    return select(0, i.toLong());
  }
  Tensor operator[](const Tensor& i) const {
    TORCH_CHECK_INDEX(i.defined() && i.dim() == 0, "Can only index with tensors that are scalars (zero-dim)");
    return select(0, i.item<int64_t>());
  }
  // With slices, numbers, masks ...: ATen/TensorIndexing.h.
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const;

  Tensor slice(int64_t dim = 0, std::optional<int64_t> start = std::nullopt, std::optional<int64_t> end = std::nullopt,
               int64_t step = 1) const {
    return op::slice_Tensor.call(*this, dim, start, end, step);
  }
  Tensor where(const Tensor& condition, const Tensor& other) const {
    return op::where_self.call(condition, *this, other);
  }
  Tensor where(const Tensor& condition, const Scalar& other) const {
    return op::where_ScalarOther.call(condition, *this, other);
  }
  Tensor numpy_T() const { return op::numpy_T.call(*this); }
  Tensor matrix_H() const { return op::matrix_H.call(*this); }
  Tensor polygamma(int64_t n) const { return op::polygamma.call(n, *this); }
  // Places of what is not zero, a tensor for each dimension.
  std::vector<Tensor> nonzero_numpy() const { return (dim() ? *this : unsqueeze(0)).nonzero().unbind(1); }
  Tensor chalf(std::optional<MemoryFormat> f = std::nullopt) const { return to(kComplexHalf, false, false, f); }
  Tensor _is_all_true() const { return all(); }
  Tensor _is_any_true() const { return any(); }
  Tensor alias() const { return op::alias.call(*this); }
  Tensor to(Device d, caffe2::TypeMeta t, bool non_blocking = false, bool copy = false,
            std::optional<MemoryFormat> f = std::nullopt) const {
    return to(d, t.toScalarType(), non_blocking, copy, f);
  }
  // Over one dimension: 0 is no bool here.
#define TESSERA_OVER_ONE(name)                              \
  template <std::integral I>                                \
  requires(!std::is_same_v<I, bool>) Tensor name(I dim)     \
  const {                                                   \
    const int64_t d = static_cast<int64_t>(dim);            \
    return this->name(OptionalIntArrayRef(IntArrayRef(d))); \
  }
  TESSERA_OVER_ONE(var)
  TESSERA_OVER_ONE(std)
#undef TESSERA_OVER_ONE
  Tensor cpu() const { return to(TensorOptions(kCPU)); }
  Tensor cuda() const { return to(TensorOptions(kCUDA)); }
  Tensor toType(ScalarType t) const { return to(t); }
  Tensor toType(const DeprecatedTypeProperties& t) const { return to(t.options()); }
  Tensor toBackend(DeviceType d) const { return to(TensorOptions(d)); }
  c10::MaybeOwned<Tensor> expect_contiguous(MemoryFormat f = MemoryFormat::Contiguous) const& {
    return is_contiguous(f) ? c10::MaybeOwned<Tensor>::borrowed(*this) : c10::MaybeOwned<Tensor>::owned(contiguous(f));
  }

  const Tensor& requires_grad_(bool on = true) const {
    TORCH_CHECK(!on || isFloatingType(scalar_type()) || isComplexType(scalar_type()),
                "Only Tensors of floating point and complex dtype can require gradients");
    tessera::Tensor::requires_grad_(on);
    return *this;
  }
  const Tensor& set_requires_grad(bool on) const { return requires_grad_(on); }
  int64_t _version() const {
    TORCH_CHECK(!is_inference(), "Inference tensors do not track version counter.");
    return version();
  }
  void retain_grad() const { tessera::autograd::retain_grad(*this); }
  bool retains_grad() const { return tessera::autograd::retains_grad(*this); }
  const Tensor& grad() const {
    static const Tensor none;
    const auto* m = impl_or_raise().autograd_meta();
    return m ? reinterpret_cast<const Tensor&>(m->grad) : none;
  }
  Tensor& mutable_grad() const { return reinterpret_cast<Tensor&>(impl_or_raise().materialize_autograd_meta().grad); }
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                std::optional<TensorList> inputs = std::nullopt) const {
    TORCH_CHECK(!inputs || !inputs->empty(), "'inputs' argument to backward cannot be empty");
    tessera::autograd::backward({static_cast<const tessera::Tensor*>(this), 1},
                                gradient.defined()
                                    ? tessera::TensorList(static_cast<const tessera::Tensor*>(&gradient), 1)
                                    : tessera::TensorList(),
                                retain_graph, create_graph, inputs ? fe::in(*inputs) : tessera::TensorList());
  }
  // The data without history: with versions of their own (data, variable_data), or counting with this tensor's.
  Tensor data() const { return tessera::Tensor(impl_or_raise().shallow_copy(false)); }
  Tensor variable_data() const { return data(); }
  Tensor tensor_data() const { return tessera::Tensor(impl_or_raise().shallow_copy(true)); }
  void set_data(const Tensor& t) const { tessera::autograd::set_data(*this, t); }
  torch::autograd::NodePtr grad_fn() const;
  // f(grad) gives the gradient to go on with, or nothing.
  template <class F>
  unsigned register_hook(F&& f) const {
    return static_cast<unsigned>(tessera::autograd::register_hook(
        *this, [f = std::forward<F>(f)](const tessera::Tensor& grad) mutable -> tessera::Tensor {
          if constexpr (std::is_void_v<decltype(f(Tensor(grad)))>) {
            f(Tensor(grad));
            return {};
          } else {
            return f(Tensor(grad));
          }
        }));
  }
  void remove_hook(unsigned id) const { tessera::autograd::remove_hook(*this, id); }
  const std::string& name() const {
    static const std::string none;
    const auto* m = impl_or_raise().autograd_meta();
    return m ? m->name : none;
  }
  Tensor _base() const {
    TORCH_CHECK(is_view(), "Can't get base of non-view Variable");
    return view_base();
  }

#include "ATen/ops_methods.inc"

 private:
  tessera::TensorImpl& impl_or_raise() const {
    TORCH_CHECK(defined(), "tensor does not have a device: it is undefined");
    return *impl();
  }
  template <class T>
  void check_type() const {
    constexpr ScalarType wanted = CppTypeToScalarType<std::remove_const_t<T>>::value;
    TORCH_CHECK(scalar_type() == wanted, "expected scalar type ", wanted, " but found ", scalar_type());
  }
  template <size_t N>
  void check_rank() const {
    static_assert(N > 0, "an accessor has at least one dimension: use *t.data_ptr<T>()");
    TORCH_CHECK(dim() == static_cast<int64_t>(N), "TensorAccessor expected ", N, " dims but tensor has ", dim());
  }
};
static_assert(sizeof(Tensor) == sizeof(tessera::Tensor));

namespace fe {
inline const tessera::Tensor& in(const std::optional<Tensor>& t) {
  static const tessera::Tensor none;
  return t ? static_cast<const tessera::Tensor&>(*t) : none;
}
inline tessera::TensorList in(TensorList l) { return {static_cast<const tessera::Tensor*>(l.data()), l.size()}; }
inline std::optional<tessera::TensorList> in(const std::optional<TensorList>& l) {
  return l ? std::optional<tessera::TensorList>(in(*l)) : std::nullopt;
}
inline std::vector<tessera::Tensor> in(const c10::List<std::optional<Tensor>>& l) {
  std::vector<tessera::Tensor> r;
  for (const auto& t : l) r.push_back(in(t));
  return r;
}
inline std::vector<Tensor> out(std::vector<tessera::Tensor>&& l) {
  return {std::make_move_iterator(l.begin()), std::make_move_iterator(l.end())};
}
}  // namespace fe

inline Tensor Generator::get_state() const {
  const std::vector<uint8_t> bytes = get()->get_state();
  Tensor t = tessera::empty_kernel(std::array<int64_t, 1>{static_cast<int64_t>(bytes.size())}, tessera::DType::kUInt8);
  std::copy(bytes.begin(), bytes.end(), t.mutable_data_ptr<uint8_t>());
  return t;
}
inline void Generator::set_state(const Tensor& state) {
  TORCH_CHECK(state.scalar_type() == kByte, "expected a torch.ByteTensor, but got ", state.toString());
  const Tensor plain = state.contiguous();
  get()->set_state({plain.const_data_ptr<uint8_t>(), static_cast<size_t>(plain.numel())});
}

}  // namespace at

namespace at::fe {
// f(outs..., others...) of (others..., outs...), for the first of the numbers of outs with which f can be called.
template <size_t... I, size_t... J, class F, class T>
auto call_rotated(std::index_sequence<I...>, std::index_sequence<J...>, const F& f, T&& all)
    -> decltype(f(std::get<sizeof...(J) + I>(all)..., std::get<J>(all)...)) {
  return f(std::get<sizeof...(J) + I>(all)..., std::get<J>(all)...);
}
template <size_t n, size_t... more, class F, class... A>
decltype(auto) outs_first(const F& f, A&&... a) {
  using Others = std::make_index_sequence<sizeof...(A) - n>;
  if constexpr (sizeof...(more) == 0 ||
                requires { call_rotated(std::make_index_sequence<n>(), Others(), f, std::forward_as_tuple(a...)); })
    return call_rotated(std::make_index_sequence<n>(), Others(), f, std::forward_as_tuple(a...));
  else
    return outs_first<more...>(f, a...);
}
}  // namespace at::fe
#define TESSERA_OUTF(name, ...)                                                                                   \
  template <class... A>                                                                                           \
  decltype(auto) name##_outf(A&&... a) {                                                                          \
    return fe::outs_first<__VA_ARGS__>([](auto&... b) -> decltype(name##_out(b...)) { return name##_out(b...); }, \
                                       a...);                                                                     \
  }

#include "ATen/ops.h"
#undef TESSERA_OUTF

namespace at {

#define TESSERA_OPERATOR(op, name)                                                  \
  inline Tensor operator op(const Tensor& a, const Tensor& b) { return a.name(b); } \
  inline Tensor operator op(const Tensor& a, const Scalar& b) { return a.name(b); }
#define TESSERA_MIRRORED(op, name, mirrored) \
  TESSERA_OPERATOR(op, name)                 \
  inline Tensor operator op(const Scalar& a, const Tensor& b) { return b.mirrored(a); }
TESSERA_MIRRORED(+, add, add)
TESSERA_MIRRORED(*, mul, mul)
TESSERA_MIRRORED(<, lt, gt)
TESSERA_MIRRORED(<=, le, ge)
TESSERA_MIRRORED(>, gt, lt)
TESSERA_MIRRORED(>=, ge, le)
TESSERA_MIRRORED(==, eq, eq)
TESSERA_MIRRORED(!=, ne, ne)
TESSERA_MIRRORED(&, bitwise_and, bitwise_and)
TESSERA_MIRRORED(|, bitwise_or, bitwise_or)
TESSERA_MIRRORED(^, bitwise_xor, bitwise_xor)
TESSERA_OPERATOR(-, sub)
TESSERA_OPERATOR(/, div)
TESSERA_OPERATOR(%, remainder)
#undef TESSERA_MIRRORED
#undef TESSERA_OPERATOR
inline Tensor operator-(const Scalar& a, const Tensor& b) { return at::rsub(b, a); }
inline Tensor operator/(const Scalar& a, const Tensor& b) { return Tensor(tessera::wrapped_number(a)).div(b); }
inline Tensor operator%(const Scalar& a, const Tensor& b) { return at::remainder(a, b); }

}  // namespace at
