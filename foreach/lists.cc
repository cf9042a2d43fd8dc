#include "foreach/lists.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "tensor/ops/plain.h"

namespace tessera::kernels {
namespace {

// Plain memory of one dtype on one device, nothing that a layer between this and the memory has to see.
bool is_plain(const Tensor& t, DType dtype, Device device) {
  return tessera::is_plain(t) && t.dtype() == dtype && t.device() == device && t.is_contiguous();
}
bool needs_history(const Tensor& t) { return grad_mode_enabled() && t.requires_grad(); }

// Fills the parts of a call that come from numbers; false if the engine does not take them.
bool take_numbers(const ListNumbers& numbers, size_t count, DType dtype, Device device, foreach::ListCall* call,
                  std::vector<double>* each) {
  if (numbers.tensor) {
    const Tensor& t = *numbers.tensor;
    if (!is_plain(t, dtype, device) || t.dim() != 0 || needs_history(t)) return false;
    call->number_on_device = t.data_ptr();
    return true;
  }
  if (!numbers.is_each) {
    call->number = numbers.one.is_complex() ? 0 : numbers.one.to_double();
    return !numbers.one.is_complex();
  }
  each->resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (numbers.each[i].is_complex()) return false;
    (*each)[i] = numbers.each[i].to_double();
  }
  call->numbers = each->data();
  return true;
}

bool is_listed_device(TensorList self) {
  if (self.empty() || !self[0].defined() || self[0].is_cpu() || self[0].is_meta() || thread_state.included)
    return false;
  return foreach::Engines::of(self[0].device().type).list_call != nullptr;
}

// Memory that is written.
class Written {
 public:
  Written(const std::vector<void*>& at, const std::vector<int64_t>& bytes) {
    for (size_t i = 0; i < at.size(); ++i)
      if (bytes[i])
        spans_.emplace_back(reinterpret_cast<uintptr_t>(at[i]),
                            reinterpret_cast<uintptr_t>(at[i]) + static_cast<uintptr_t>(bytes[i]));
    std::sort(spans_.begin(), spans_.end());
  }
  // Whether two tensors have memory in common.
  bool twice() const {
    for (size_t i = 1; i < spans_.size(); ++i)
      if (spans_[i].first < spans_[i - 1].second) return true;
    return false;
  }
  // For spans that are apart.
  bool touches(const void* at, int64_t bytes) const {
    const uintptr_t first = reinterpret_cast<uintptr_t>(at);
    const auto next = std::upper_bound(spans_.begin(), spans_.end(), std::pair(first, UINTPTR_MAX));
    return bytes && ((next != spans_.end() && next->first < first + static_cast<uintptr_t>(bytes)) ||
                     (next != spans_.begin() && std::prev(next)->second > first));
  }

 private:
  std::vector<std::pair<uintptr_t, uintptr_t>> spans_;
};

}  // namespace

void check_lists(std::initializer_list<TensorList> lists, const ListNumbers& numbers) {
  const TensorList self = *lists.begin();
  TESSERA_CHECK(!self.empty(), "Tensor list must have at least one tensor.");
  for (const TensorList& list : lists)
    TESSERA_CHECK(list.size() == self.size(), "Tensor lists must have the same number of tensors, got ", self.size(),
                  " and ", list.size());
  TESSERA_CHECK(!numbers.is_each || numbers.each.size() == self.size(),
                "Tensor list must have same number of elements as scalar list, got ", self.size(), " and ",
                numbers.each.size());
  TESSERA_CHECK(!numbers.tensor || (numbers.tensor->dim() == 0 && numbers.tensor->numel() == 1),
                "scalar tensor expected to be 0 dim but it has ", numbers.tensor ? numbers.tensor->dim() : 0,
                " dimensions and ", numbers.tensor ? numbers.tensor->numel() : 0, " elements.");
}

namespace {
// The function of a tensor and a number where the second operands are tensors of one element for larger ones; else op.
ListOp with_numbers(ListOp op, std::initializer_list<TensorList> lists, const ListNumbers& numbers) {
  if (lists.size() != 2) return op;
  // A product with another number would be rounded on its way to the sum.
  if (op == ListOp::kAdd && !numbers.one.equals(1) && !numbers.one.equals(-1)) return op;
  const TensorList self = *lists.begin(), other = *(lists.begin() + 1);
  for (size_t i = 0; i < self.size(); ++i)
    if (!other[i].defined() || other[i].dim() != 0 || self[i].dim() == 0) return op;
  return op == ListOp::kAdd   ? ListOp::kAddNumber
         : op == ListOp::kMul ? ListOp::kMulNumber
         : op == ListOp::kDiv ? ListOp::kDivNumber
                              : op;
}
}  // namespace

bool run_list(ListOp given, std::initializer_list<TensorList> lists, const ListNumbers& numbers,
              std::vector<Tensor>* results) {
  const TensorList self = *lists.begin();
  const ListOp op = with_numbers(given, lists, numbers);
  if (!is_listed_device(self)) return false;
  const DType t = self[0].dtype();
  const Device d = self[0].device();
  if (!is_reduced_float(t) && t != DType::kFloat32 && t != DType::kFloat64) return false;
  const size_t n = self.size();
  foreach ::ListCall call{.op = op, .dtype = t, .count = static_cast<int64_t>(n)};
  std::vector<double> each;
  if (!take_numbers(numbers, n, t, d, &call, &each)) return false;
  std::vector<int64_t> sizes(n);
  std::vector<void*> operands[3], out(n);
  size_t k = 0;
  std::vector<const void*> each_on_device;
  for (const TensorList& list : lists) {
    const bool are_numbers = op != given && k > 0;
    for (size_t i = 0; i < n; ++i) {
      if (!is_plain(list[i], t, d) || needs_history(list[i]) ||
          !(are_numbers || std::ranges::equal(list[i].sizes(), self[i].sizes())))
        return false;
      if (are_numbers)
        each_on_device.push_back(list[i].data_ptr());
      else
        operands[k].push_back(list[i].data_ptr());
    }
    k += !are_numbers;
  }
  if (!each_on_device.empty()) {
    call.numbers_on_device = each_on_device.data();
    if (given != ListOp::kAdd) call.number = 1;  // there it is what the other one is multiplied by
  }
  for (size_t i = 0; i < n; ++i) sizes[i] = self[i].numel();
  if (!results) {
    out = operands[0];
    std::vector<int64_t> bytes = sizes;
    for (int64_t& b : bytes) b *= item_size(t);
    const Written written(out, bytes);
    if (written.twice()) return false;  // then their order matters
    for (size_t j = 1; j < k; ++j)
      for (size_t i = 0; i < n; ++i)
        if (operands[j][i] != out[i] && written.touches(operands[j][i], bytes[i])) return false;
    if (call.number_on_device && written.touches(call.number_on_device, item_size(t))) return false;
    for (const void* at : each_on_device)
      if (written.touches(at, item_size(t))) return false;
    for (const Tensor& x : self)
      if (x.is_inference() && !thread_state.inference_mode) return false;
  } else {
    for (size_t i = 0; i < n; ++i) {
      results->push_back(empty_tensor(self[i].sizes(), {}, t, d));
      out[i] = results->back().data_ptr();
    }
  }
  call.sizes = sizes.data();
  call.out = out.data();
  for (size_t j = 0; j < k; ++j) call.operands[j] = operands[j].data();
  foreach ::Engines::of(internal::select_device(d, "list_call")).list_call(call);
  if (!results)
    for (const Tensor& x : self) x.impl()->bump_version();
  return true;
}

bool run_list_norms(TensorList self, const Scalar& ord, std::optional<DType> dtype, std::vector<Tensor>* results) {
  if (!is_listed_device(self) || ord.is_complex() || dtype) return false;
  const double p = ord.to_double();
  if (p != 1 && p != 2 && p != INFINITY) return false;
  const DType t = self[0].dtype();
  const Device d = self[0].device();
  if (!is_reduced_float(t) && t != DType::kFloat32 && t != DType::kFloat64) return false;
  foreach ::ListCall call{.op = p == 1   ? ListOp::kNorm1
                                : p == 2 ? ListOp::kNorm2
                                         : ListOp::kNormMax,
                          .dtype = t,
                          .count = static_cast<int64_t>(self.size())};
  std::vector<int64_t> sizes;
  std::vector<void*> in, out;
  for (const Tensor& x : self) {
    if (!is_plain(x, t, d) || needs_history(x) || x.numel() == 0) return false;
    sizes.push_back(x.numel());
    in.push_back(x.data_ptr());
  }
  for (size_t i = 0; i < self.size(); ++i) {
    results->push_back(empty_tensor({}, {}, t, d));
    out.push_back(results->back().data_ptr());
  }
  call.sizes = sizes.data();
  call.out = out.data();
  call.operands[0] = in.data();
  foreach ::Engines::of(internal::select_device(d, "list_call")).list_call(call);
  return true;
}

std::vector<Scalar> unpacked(const Tensor& scalars, size_t count) {
  TESSERA_CHECK(scalars.is_cpu(), "Expected scalars to be on CPU, got ", scalars.device().str(), " instead.");
  TESSERA_CHECK(scalars.is_contiguous(), "Expected scalars to be contiguous.");
  TESSERA_CHECK(scalars.dim() == 1, "Expected packed scalar Tensor to be of dimension 1. Got ", scalars.dim(),
                " instead.");
  TESSERA_CHECK(scalars.numel() == static_cast<int64_t>(count), "Expected length of scalars to match input of length ",
                count, " but got ", scalars.numel(), " instead.");
  std::vector<Scalar> r;
  for (int64_t i = 0; i < scalars.numel(); ++i) r.push_back(select(scalars, 0, i).item_scalar());
  return r;
}

std::vector<Scalar> negated(std::span<const Scalar> scalars) {
  std::vector<Scalar> r;
  for (const Scalar& s : scalars) r.push_back(-s);
  return r;
}
std::vector<Tensor> list_norms(TensorList self, const Scalar& ord, std::optional<DType> dtype) {
  check_lists({self}, {});
  std::vector<Tensor> results;
  if (run_list_norms(self, ord, dtype, &results)) return results;
  return list_each(self, [&](const Tensor& t) { return linalg_vector_norm(t, ord, std::nullopt, false, dtype); });
}
std::vector<Tensor> list_power_sums(TensorList self, const Scalar& ord, std::optional<DType> dtype) {
  return list_each(self, [&](const Tensor& t) { return sum(pow(abs(dtype ? to(t, *dtype) : t), ord)); });
}
std::vector<Tensor> list_products(TensorList self, TensorList mat2) {
  check_lists({self, mat2}, {});
  std::vector<Tensor> results;
  for (size_t i = 0; i < self.size(); ++i) results.push_back(mm(self[i], mat2[i]));
  return results;
}

}  // namespace tessera::kernels
