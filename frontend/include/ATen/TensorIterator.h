// Loops over the elements of several tensors that broadcast together: shapes, types, and a function for each run of
// elements with one stride.
#pragma once

#include <algorithm>
#include <functional>
#include <numeric>

#include "ATen/ATen.h"
#include "ATen/Parallel.h"
#include "c10/util/accumulate.h"

namespace at {

class TensorIteratorConfig;

class TensorIteratorBase {
 public:
  using loop2d_t = std::function<void(char** data, const int64_t* strides, int64_t size0, int64_t size1)>;

  int ndim() const { return static_cast<int>(shape_.size()); }
  IntArrayRef shape() const { return shape_; }  // the fastest dimension first
  int64_t numel() const { return c10::multiply_integers(shape_); }
  int ntensors() const { return static_cast<int>(operands_.size()); }
  int noutputs() const { return outputs_; }
  int ninputs() const { return ntensors() - outputs_; }
  const Tensor& tensor(int i) const { return operand(i).tensor; }
  const Tensor& output(int i = 0) const { return operand(i).result(); }
  const Tensor& input(int i = 0) const { return tensor(outputs_ + i); }
  ScalarType dtype(int i = 0) const { return tensor(i).scalar_type(); }
  ScalarType input_dtype(int i = 0) const { return dtype(outputs_ + i); }
  ScalarType common_dtype() const {
    TORCH_INTERNAL_ASSERT(common_ != ScalarType::Undefined, "the iterator has no common type");
    return common_;
  }
  Device device(int i = 0) const { return tensor(i).device(); }
  DeviceType device_type(int i = 0) const { return device(i).type(); }
  int64_t element_size(int i) const { return tensor(i).element_size(); }
  void* data_ptr(int i) const { return tensor(i).data_ptr(); }
  IntArrayRef strides(int i) const { return operand(i).strides; }  // in bytes, as shape()
  bool is_scalar(int i) const { return tensor(i).numel() == 1; }
  bool is_cpu_scalar(int i) const { return is_scalar(i) && device(i).is_cpu(); }
  bool is_trivial_1d() const { return ndim() <= 1; }
  bool is_contiguous() const {
    if (ndim() > 1) return false;
    for (int i = 0; i < ntensors(); ++i)
      if (numel() != 1 && strides(i)[0] != element_size(i)) return false;
    return true;
  }
  template <class T>
  T scalar_value(int i) const {
    return tensor(i).flatten()[0].item<T>();
  }

  // loop(pointers, byte strides, n), or with two sizes, where the strides of the outer one follow those of the inner.
  template <class F>
  void for_each(F&& loop, int64_t grain = internal::GRAIN_SIZE) const {
    const int64_t n = numel();
    if (n == 0) return;
    at::parallel_for(0, n, grain, [&](int64_t from, int64_t to) { serial_for_each(loop, {from, to}); });
  }
  struct Range {
    int64_t begin, end;
    int64_t size() const { return end - begin; }
  };
  template <class F>
  void serial_for_each(F&& loop, Range range) const {
    const size_t count = operands_.size(), dims = shape_.size();
    std::vector<char*> data(count);
    std::vector<int64_t> steps(2 * count, 0), at(std::max<size_t>(dims, 1));
    const int64_t row = dims ? shape_[0] : 1;
    for (size_t i = 0; i < count && dims; ++i) steps[i] = operands_[i].strides[0];
    for (int64_t done = range.begin; done < range.end;) {
      int64_t rest = done;
      for (size_t d = 0; d < dims; ++d) at[d] = rest % shape_[d], rest /= shape_[d];
      for (size_t i = 0; i < count; ++i) {
        data[i] = static_cast<char*>(operands_[i].tensor.data_ptr());
        for (size_t d = 0; d < dims; ++d) data[i] += at[d] * operands_[i].strides[d];
      }
      const int64_t n = std::min(row - at[0], range.end - done);
      if constexpr (std::is_invocable_v<F&, char**, const int64_t*, int64_t>)
        loop(data.data(), steps.data(), n);
      else
        loop(data.data(), steps.data(), n, int64_t{1});
      done += n;
    }
  }
  // What was computed in another type goes to where it belongs.
  void cast_outputs() {
    for (Operand& o : operands_)
      if (o.original.defined()) {
        o.original.copy_(o.tensor);
        o.tensor = std::exchange(o.original, {});
      }
  }

 protected:
  friend TensorIteratorConfig;
  struct Operand {
    Tensor tensor;
    Tensor original;  // of an output that is computed in another type
    std::vector<int64_t> strides;
    const Tensor& result() const { return original.defined() ? original : tensor; }
  };
  const Operand& operand(int i) const { return operands_.at(static_cast<size_t>(i)); }

  // Neighbouring dimensions that lie in each tensor like one become one, after the first tensor's largest strides went
  // to the end.
  void plan(IntArrayRef shape) {
    const size_t dims = shape.size();
    std::vector<std::vector<int64_t>> strides;
    for (const Operand& o : operands_) {
      const Tensor all = o.tensor.expand(shape);
      strides.emplace_back();
      for (int64_t s : all.strides()) strides.back().push_back(s * o.tensor.element_size());
    }
    std::vector<size_t> order(dims);
    for (size_t d = 0; d < dims; ++d) order[d] = dims - 1 - d;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      for (const auto& s : strides)
        if (s[a] != s[b] && s[a] && s[b]) return s[a] < s[b];
      return false;
    });
    shape_.clear();
    for (Operand& o : operands_) o.strides.clear();
    for (size_t d : order) {
      if (shape[d] == 1) continue;
      bool joins = !shape_.empty();
      for (size_t i = 0; joins && i < operands_.size(); ++i)
        joins = operands_[i].strides.back() * shape_.back() == strides[i][d];
      if (joins) {
        shape_.back() *= shape[d];
        continue;
      }
      shape_.push_back(shape[d]);
      for (size_t i = 0; i < operands_.size(); ++i) operands_[i].strides.push_back(strides[i][d]);
    }
    if (shape_.empty()) {
      shape_.push_back(1);
      for (Operand& o : operands_) o.strides.push_back(0);
    }
  }

  std::vector<Operand> operands_;
  std::vector<int64_t> shape_;
  int outputs_ = 0;
  ScalarType common_ = ScalarType::Undefined;
};

class TensorIterator;

class TensorIteratorConfig {
 public:
  using Self = TensorIteratorConfig&;
  // Outputs first; one that is not defined is made. Tensors are kept or borrowed: both may be given.
  Self add_output(const Tensor& t) {
    TORCH_INTERNAL_ASSERT(inputs_.empty(), "outputs are added before inputs");
    outputs_.push_back(t);
    return *this;
  }
  Self add_input(const Tensor& t) {
    inputs_.push_back(t);
    return *this;
  }
  Self add_owned_output(const Tensor& t) { return add_output(t); }
  Self add_borrowed_output(const Tensor& t) { return add_output(t); }
  Self add_owned_input(const Tensor& t) { return add_input(t); }
  Self add_borrowed_input(const Tensor& t) { return add_input(t); }
  Self add_const_input(const Tensor& t) { return add_input(t); }
  Self add_owned_const_input(const Tensor& t) { return add_input(t); }
  Self add_borrowed_const_input(const Tensor& t) { return add_input(t); }
#define TESSERA_SETTING(name, ...) \
  Self name(bool on) {             \
    name##_ = on;                  \
    __VA_ARGS__;                   \
    return *this;                  \
  }
  TESSERA_SETTING(set_check_mem_overlap)
  TESSERA_SETTING(check_all_same_dtype)
  TESSERA_SETTING(check_all_same_device)
  TESSERA_SETTING(enforce_safe_casting_to_output)
  TESSERA_SETTING(promote_inputs_to_common_dtype, if (on) check_all_same_dtype_ = false)
  TESSERA_SETTING(promote_integer_inputs_to_float)
  TESSERA_SETTING(cast_common_dtype_to_outputs, if (on) check_all_same_dtype_ = false)
  TESSERA_SETTING(resize_outputs)
  TESSERA_SETTING(allow_cpu_scalars)
#undef TESSERA_SETTING
  Self declare_static_dtype_and_device(ScalarType type, Device device) {
    declare_static_dtype(type);
    return declare_static_device(device);
  }
  Self declare_static_dtype(ScalarType type) {
    static_type_ = type;
    return *this;
  }
  Self declare_static_device(Device device) {
    static_device_ = device;
    return *this;
  }
  Self declare_static_shape(IntArrayRef shape) {
    static_shape_ = shape.vec();
    resize_outputs_ = false;
    return *this;
  }
  TensorIterator build();

 private:
  ScalarType common_type() const {
    std::vector<Tensor> given;
    for (const auto* list : {&inputs_, &outputs_})
      for (const Tensor& t : *list)
        if (t.defined() && (list == &inputs_ || inputs_.empty())) given.push_back(t);
    TORCH_CHECK(!given.empty() || static_type_, "a TensorIterator needs a tensor that is defined, or a declared type");
    if (static_type_) return *static_type_;
    ScalarType type = at::result_type(given);
    if (promote_integer_inputs_to_float_ && c10::isIntegralType(type, true))
      type = c10::get_default_dtype_as_scalartype();
    if (check_all_same_dtype_)
      for (const Tensor& t : given)
        TORCH_CHECK(t.scalar_type() == given[0].scalar_type(), "Found dtype ", t.scalar_type(), " but expected ",
                    given[0].scalar_type());
    return type;
  }
  std::vector<int64_t> common_shape() const {
    if (static_shape_) return *static_shape_;
    std::vector<int64_t> shape;
    const std::vector<Tensor>& decide = inputs_.empty() ? outputs_ : inputs_;
    for (const Tensor& t : decide)
      if (t.defined()) shape = at::infer_size(shape, t.sizes());
    return shape;
  }
  void place_output(TensorIteratorBase::Operand& o, ScalarType type, IntArrayRef shape, Device device) const;

  std::vector<Tensor> outputs_, inputs_;
  std::optional<ScalarType> static_type_;
  std::optional<Device> static_device_;
  std::optional<std::vector<int64_t>> static_shape_;
  bool set_check_mem_overlap_ = true, check_all_same_dtype_ = true, check_all_same_device_ = true,
       enforce_safe_casting_to_output_ = false, promote_inputs_to_common_dtype_ = false,
       promote_integer_inputs_to_float_ = false, cast_common_dtype_to_outputs_ = false, resize_outputs_ = true,
       allow_cpu_scalars_ = false;
};

class TensorIterator final : public TensorIteratorBase {
 public:
  static TensorIterator binary_op(Tensor& out, const Tensor& a, const Tensor& b) {
    return promoting().add_output(out).add_input(a).add_input(b).build();
  }
  static TensorIterator borrowing_binary_op(const Tensor& out, const Tensor& a, const Tensor& b) {
    return promoting().add_output(out).add_input(a).add_input(b).build();
  }
  static TensorIterator binary_float_op(Tensor& out, const Tensor& a, const Tensor& b) {
    return promoting().promote_integer_inputs_to_float(true).add_output(out).add_input(a).add_input(b).build();
  }
  static TensorIterator comparison_op(Tensor& out, const Tensor& a, const Tensor& b) {
    if (!out.defined()) out = at::empty({0}, a.options().dtype(kBool));
    return TensorIteratorConfig()
        .allow_cpu_scalars(true)
        .promote_inputs_to_common_dtype(true)
        .add_output(out)
        .add_input(a)
        .add_input(b)
        .build();
  }
  static TensorIterator unary_op(Tensor& out, const Tensor& a) {
    return TensorIteratorConfig().add_output(out).add_input(a).build();
  }
  static TensorIterator borrowing_nullary_op(const Tensor& out) {
    return TensorIteratorConfig().check_all_same_dtype(false).resize_outputs(false).add_output(out).build();
  }
  static TensorIterator nullary_op(Tensor& out) { return borrowing_nullary_op(out); }

 private:
  static TensorIteratorConfig promoting() {
    TensorIteratorConfig c;
    c.allow_cpu_scalars(true).promote_inputs_to_common_dtype(true).cast_common_dtype_to_outputs(true);
    c.enforce_safe_casting_to_output(true);
    return c;
  }
};

inline void TensorIteratorConfig::place_output(TensorIteratorBase::Operand& o, ScalarType type, IntArrayRef shape,
                                               Device device) const {
  Tensor& t = o.tensor;
  if (!t.defined()) {
    t = at::empty(shape, TensorOptions(type).device(device));
    return;
  }
  if (set_check_mem_overlap_) {
    for (int64_t d = 0; d < t.dim(); ++d)
      TORCH_CHECK(t.size(d) < 2 || t.stride(d) != 0,
                  "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                  "location. Please clone() the tensor before performing the operation.");
  }
  if (t.sizes() != shape) {
    bool is_input = false;
    for (const Tensor& in : inputs_) is_input = is_input || t.is_same(in);
    TORCH_CHECK(resize_outputs_ && !is_input, "output with shape ", t.sizes(), " doesn't match the broadcast shape ",
                shape);
    t.resize_(shape);
  }
  if (enforce_safe_casting_to_output_)
    TORCH_CHECK(at::can_cast(type, t.scalar_type()), "result type ", type, " can't be cast to the desired output type ",
                t.scalar_type());
  if (cast_common_dtype_to_outputs_ && t.scalar_type() != type) {
    o.original = t;
    t = at::empty(shape, t.options().dtype(type));
  }
}

inline TensorIterator TensorIteratorConfig::build() {
  TensorIterator it;
  it.outputs_ = static_cast<int>(outputs_.size());
  const bool types = check_all_same_dtype_ || promote_inputs_to_common_dtype_ || cast_common_dtype_to_outputs_ ||
                     static_type_ || std::ranges::any_of(outputs_, [](const Tensor& t) { return !t.defined(); });
  if (types) it.common_ = common_type();
  const std::vector<int64_t> shape = common_shape();
  Device device = static_device_.value_or(kCPU);
  for (const auto* list : {&outputs_, &inputs_})
    for (const Tensor& t : *list)
      if (!static_device_ && t.defined() && !(allow_cpu_scalars_ && t.dim() == 0 && t.is_cpu())) device = t.device();
  for (const Tensor& out : outputs_) {
    it.operands_.push_back({out, {}, {}});
    place_output(it.operands_.back(), it.common_, shape, device);
    if (check_all_same_dtype_)
      TORCH_CHECK(it.operands_.back().tensor.scalar_type() == it.common_, "Found dtype ", out.scalar_type(),
                  " but expected ", it.common_);
  }
  for (const Tensor& in : inputs_) {
    TORCH_CHECK(in.defined(), "an input of a TensorIterator is not defined");
    TORCH_CHECK(!check_all_same_device_ || in.device() == device || (allow_cpu_scalars_ && in.dim() == 0),
                "Expected all tensors to be on the same device, but found at least two devices, ", device, " and ",
                in.device(), "!");
    it.operands_.push_back({promote_inputs_to_common_dtype_ ? in.to(it.common_) : in, {}, {}});
  }
  it.plan(shape);
  return it;
}

}  // namespace at
