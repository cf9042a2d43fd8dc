#include "tensor/ops/dual.h"
#include "tensor/ops/pointwise_extra.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/core/transforms.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/api.h"
#include "tensor/ops/arithmetic_kernels.h"
#include "tensor/ops/comparison_kernels.h"
#include "tensor/ops/functions_kernels.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

bool all_integral(const Tensor& a, const Tensor& b) { return is_integral(result_type(a, b), true); }

void check_alpha(DType result, const Scalar& alpha) {
  TESSERA_CHECK(!alpha.is_bool() || result == DType::kBool, "Boolean alpha only supported for Boolean results.");
  TESSERA_CHECK(is_floating_point(result) || is_complex(result) || alpha.is_integral(true),
                "For integral input tensors, argument alpha must not be a floating point number.");
  TESSERA_CHECK(is_complex(result) || !alpha.is_complex(),
                "For non-complex input tensors, argument alpha must not be a complex number.");
}

constexpr const char* kNoComplexClamp = "clamp is not supported for complex types";

void forbid_complex(const Tensor& t, const char* message) { TESSERA_CHECK(!t.is_complex(), message); }

bool has_zero(const Tensor& divisor) {
  int64_t strides[64];
  const IntList shape = divisor.sizes();
  pointwise::broadcast_strides(divisor, shape, strides);
  TESSERA_ON(divisor.device(), check_integer_divisor)(shape, {divisor.data_ptr(), divisor.dtype(), strides});
  return false;
}

}  // namespace

double eps_or_nan(std::optional<double> eps) { return eps.value_or(std::nan("")); }

double largest_finite(DType t) {
  switch (is_complex(t) ? to_real(t) : t) {
    case DType::kFloat16:
      return 65504.0;
    case DType::kBFloat16:
      return 3.3895313892515355e38;
    case DType::kFloat64:
      return std::numeric_limits<double>::max();
    default:
      return std::numeric_limits<float>::max();
  }
}

Tensor number_tensor(const Scalar& s) {
  return scalar_to_tensor(s, s.is_floating_point() ? default_dtype()
                             : s.is_complex()      ? default_complex_dtype()
                                                   : s.raw_dtype());
}

// --- checks ---

void add_check(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  if (alpha.kind() == Scalar::Kind::kInt) return;
  check_alpha(result_type(self, other), alpha);
}

void sub_check(const Tensor& self, const Tensor& other, const Scalar& alpha) {
  const bool a = self.dtype() == DType::kBool, b = other.dtype() == DType::kBool;
  TESSERA_CHECK(!(a && b),
                "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
                "operator instead.");
  TESSERA_CHECK(!(a || b),
                "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
                "mask, use the `~` or `logical_not()` operator instead.");
  add_check(self, other, alpha);
}

void integer_division_check(const Tensor& self, const Tensor& other) {
  if (!values_unknown(other) && other.numel() && self.numel() && all_integral(self, other)) has_zero(other);
}

void pow_check(const Tensor& self, const Tensor& exponent) {
  if (!exponent.impl()->is_wrapped_number() || !is_integral(exponent.dtype(), true) || !is_integral(self.dtype(), true))
    return;
  TESSERA_CHECK(exponent.item<int64_t>() >= 0, "Integers to negative integer powers are not allowed.");
}

void neg_check(const Tensor& self) {
  TESSERA_CHECK(self.dtype() != DType::kBool,
                "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, "
                "use the `~` or `logical_not()` operator instead.");
}
void sign_check(const Tensor& self) {
  forbid_complex(self, "Unlike NumPy, torch.sign doesn't allow complex inputs; use torch.sgn instead.");
}
void signbit_check(const Tensor& self) { forbid_complex(self, "signbit is not implemented for complex tensors."); }
void isinf_check(const Tensor& self) { forbid_complex(self, "isposinf and isneginf do not support complex inputs."); }
void heaviside_check(const Tensor& self, const Tensor& values) {
  forbid_complex(self, "heaviside is not yet implemented for complex tensors.");
  forbid_complex(values, "heaviside is not yet implemented for complex tensors.");
  TESSERA_CHECK(self.dtype() == values.dtype(),
                "heaviside is not yet implemented for tensors with different dtypes: got ", name_of(self.dtype()),
                " and ", name_of(values.dtype()));
}
void extreme_check(const Tensor& self, const Tensor& other) {
  forbid_complex(self, "maximum and minimum are not implemented for complex tensors.");
  forbid_complex(other, "maximum and minimum are not implemented for complex tensors.");
}
void clamp_check(const Tensor& self, const Scalar&, const Scalar&) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex(), kNoComplexClamp);
}
void clamp_tensor_check(const Tensor& self, const Tensor& bound) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex() && !bound.is_complex(), kNoComplexClamp);
}
void lerp_check(const Tensor& self, const Tensor& end, const Tensor& weight) {
  TESSERA_CHECK(self.dtype() == end.dtype(), "expected dtype ", name_of(self.dtype()), " for `end` but got dtype ",
                name_of(end.dtype()));
  TESSERA_CHECK(self.dtype() == weight.dtype() || (weight.impl()->is_wrapped_number()), "expected dtype ",
                name_of(self.dtype()), " for `weight` but got dtype ", name_of(weight.dtype()));
}
void lerp_scalar_check(const Tensor& self, const Tensor& end, const Scalar&) {
  TESSERA_CHECK(self.dtype() == end.dtype(), "expected dtype ", name_of(self.dtype()), " for `end` but got dtype ",
                name_of(end.dtype()));
}
void addcdiv_check(const Tensor&, const Tensor& tensor1, const Tensor& tensor2, const Scalar&) {
  TESSERA_CHECK(!all_integral(tensor1, tensor2),
                "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
                "true division of tensor1 and tensor2. "
                "The historic addcdiv behavior can be implemented as (input + value * torch.trunc(tensor1 / "
                "tensor2)).to(input.dtype) for integer inputs and as "
                "(input + value * tensor1 / tensor2) for float inputs.");
}
void masked_fill_check(const Tensor& self, const Tensor& mask, const Scalar& value) {
  TESSERA_CHECK(mask.dtype() == DType::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
                name_of(mask.dtype()));
  alignas(16) char scratch[16];
  store_scalar(value, self.dtype(), scratch, !value.is_floating_point() || is_integral(self.dtype(), false));
}

// --- division with rounding ---

namespace {
enum class Rounding { kNone, kTrunc, kFloor };
Rounding rounding_of(std::optional<std::string_view> mode) {
  if (!mode) return Rounding::kNone;
  if (*mode == "trunc") return Rounding::kTrunc;
  TESSERA_CHECK(*mode == "floor", "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '",
                *mode, "'");
  return Rounding::kFloor;
}
}  // namespace

Tensor div_rounded(const Tensor& self, const Tensor& other, std::optional<std::string_view> mode) {
  switch (rounding_of(mode)) {
    case Rounding::kNone:
      return div(self, other);
    case Rounding::kTrunc:
      return _div_trunc(self, other);
    default:
      return floor_divide(self, other);
  }
}
const Tensor& div_rounded_(const Tensor& self, const Tensor& other, std::optional<std::string_view> mode) {
  switch (rounding_of(mode)) {
    case Rounding::kNone:
      return div_(self, other);
    case Rounding::kTrunc:
      return _div_trunc_(self, other);
    default:
      return floor_divide_(self, other);
  }
}
const Tensor& div_rounded_out(const Tensor& out, const Tensor& self, const Tensor& other,
                              std::optional<std::string_view> mode) {
  switch (rounding_of(mode)) {
    case Rounding::kNone:
      return div_out(out, self, other);
    case Rounding::kTrunc:
      return _div_trunc_out(out, self, other);
    default:
      return floor_divide_out(out, self, other);
  }
}

// --- powers ---

namespace {
// Exponents with an operator of their own: faster, and exact where pow rounds.
bool is_special_exponent(const Tensor& self, const Scalar& exponent, double value) {
  return (self.is_floating_point() || self.is_complex()) && !exponent.is_complex() && exponent.equals(value);
}
}  // namespace

Tensor pow_scalar(const Tensor& self, const Scalar& exponent) {
  if (is_special_exponent(self, exponent, 2.0)) return square(self);
  if (is_special_exponent(self, exponent, 0.5)) return sqrt(self);
  return pow(self, wrapped_number(exponent));
}
const Tensor& pow_scalar_(const Tensor& self, const Scalar& exponent) { return pow_(self, wrapped_number(exponent)); }
const Tensor& pow_scalar_out(const Tensor& out, const Tensor& self, const Scalar& exponent) {
  return pow_out(out, self, wrapped_number(exponent));
}

namespace {
DType wide(bool complex) { return complex ? DType::kComplex128 : DType::kFloat64; }
Tensor widened(const Tensor& t, DType d) { return t.dtype() == d ? t : to(t, d); }
Tensor wide_power(const Tensor& self, const Tensor& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return pow(widened(self, d), widened(exponent, d));
}
void check_float_power_inplace(const Tensor& self, bool complex) {
  TESSERA_CHECK(self.dtype() == wide(complex), "the base given to float_power_ has dtype ", name_of(self.dtype()),
                " but the operation's result requires dtype ", name_of(wide(complex)));
}
}  // namespace

Tensor float_power_impl(const Tensor& self, const Tensor& exponent) { return wide_power(self, exponent); }
Tensor float_power_impl(const Tensor& self, const Scalar& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return pow(widened(self, d), scalar_to_tensor(exponent, d));
}
Tensor float_power_impl(const Scalar& self, const Tensor& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return pow(scalar_to_tensor(self, d), widened(exponent, d));
}
const Tensor& float_power_impl_(const Tensor& self, const Tensor& exponent) {
  check_float_power_inplace(self, self.is_complex() || exponent.is_complex());
  return pow_(self, widened(exponent, self.dtype()));
}
const Tensor& float_power_impl_(const Tensor& self, const Scalar& exponent) {
  check_float_power_inplace(self, self.is_complex() || exponent.is_complex());
  return pow_(self, scalar_to_tensor(exponent, self.dtype()));
}
namespace {
const Tensor& power_into(const Tensor& out, const Tensor& a, const Tensor& b) {
  const DType d = a.dtype();
  TESSERA_CHECK(out.dtype() == d, "the output given to float_power has dtype ", name_of(out.dtype()),
                " but the operation's result requires dtype ", name_of(d));
  return pow_out(out, a, b);
}
}  // namespace
const Tensor& float_power_impl_out(const Tensor& out, const Tensor& self, const Tensor& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return power_into(out, widened(self, d), widened(exponent, d));
}
const Tensor& float_power_impl_out(const Tensor& out, const Tensor& self, const Scalar& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return power_into(out, widened(self, d), scalar_to_tensor(exponent, d));
}
const Tensor& float_power_impl_out(const Tensor& out, const Scalar& self, const Tensor& exponent) {
  const DType d = wide(self.is_complex() || exponent.is_complex());
  return power_into(out, scalar_to_tensor(self, d), widened(exponent, d));
}

Tensor positive_composite(const Tensor& self) {
  TESSERA_CHECK(self.dtype() != DType::kBool, "The `+` operator, on a bool tensor is not supported.");
  return self;
}

// --- limits ---

namespace {
// The tensor in the dtype of the result, and both bounds present.
struct Limits {
  Tensor self;
  Scalar min, max;
};
Limits limits(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  TESSERA_CHECK(min || max, "torch.clamp: At least one of 'min' or 'max' must not be None");
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex() && !(min && min->is_complex()) && !(max && max->is_complex()),
                                kNoComplexClamp);
  ResultType type;
  type.add(self);
  if (min) type.add(*min);
  if (max) type.add(*max);
  const DType d = type.get();
  const double inf = std::numeric_limits<double>::infinity();
  const bool integral = is_integral(d, true);
  return {self.dtype() == d ? self : to(self, d),
          min        ? *min
          : integral ? Scalar(std::numeric_limits<int64_t>::min())
                     : Scalar(-inf),
          max        ? *max
          : integral ? Scalar(std::numeric_limits<int64_t>::max())
                     : Scalar(inf)};
}
}  // namespace

Tensor clamp_composite(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  const Limits l = limits(self, min, max);
  return _clamp_scalar(l.self, l.min, l.max);
}
const Tensor& clamp_inplace(const Tensor& self, const std::optional<Scalar>& min, const std::optional<Scalar>& max) {
  const Limits l = limits(self, min, max);
  check_can_cast(l.self.dtype(), self.dtype());
  return _clamp_scalar_(self, l.min, l.max);
}
const Tensor& clamp_out_impl(const Tensor& out, const Tensor& self, const std::optional<Scalar>& min,
                             const std::optional<Scalar>& max) {
  const Limits l = limits(self, min, max);
  return _clamp_scalar_out(out, l.self, l.min, l.max);
}
Tensor clamp_tensor_composite(const Tensor& self, const Tensor& min, const Tensor& max) {
  TESSERA_CHECK(min.defined() || max.defined(), "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (!max.defined()) return clamp_min(self, min);
  if (!min.defined()) return clamp_max(self, max);
  clamp_tensor_check(self, min);
  return _clamp_tensor(self, min, max);
}
const Tensor& clamp_tensor_inplace(const Tensor& self, const Tensor& min, const Tensor& max) {
  TESSERA_CHECK(min.defined() || max.defined(), "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (!max.defined()) return clamp_min_(self, min);
  if (!min.defined()) return clamp_max_(self, max);
  clamp_tensor_check(self, min);
  return _clamp_tensor_(self, min, max);
}
const Tensor& clamp_tensor_out_impl(const Tensor& out, const Tensor& self, const Tensor& min, const Tensor& max) {
  TESSERA_CHECK(min.defined() || max.defined(), "torch.clamp: At least one of 'min' or 'max' must not be None");
  if (!max.defined()) return clamp_min_out(out, self, min);
  if (!min.defined()) return clamp_max_out(out, self, max);
  clamp_tensor_check(self, min);
  return _clamp_tensor_out(out, self, min, max);
}

// --- selection ---

namespace {
Tensor condition_of(const Tensor& condition) {
  if (condition.dtype() == DType::kUInt8) return ne(condition, 0);
  TESSERA_CHECK(condition.dtype() == DType::kBool,
                "where expected condition to be a boolean tensor, but got a tensor with dtype ",
                type_name_of(condition.dtype()));
  return condition;
}
}  // namespace

Tensor where_composite(const Tensor& condition, const Tensor& self, const Tensor& other) {
  return _where(condition_of(condition), self, other);
}
const Tensor& where_out_impl(const Tensor& out, const Tensor& condition, const Tensor& self, const Tensor& other) {
  TESSERA_CHECK(out.dtype() == result_type(self, other), "Expected out type to be ", name_of(result_type(self, other)),
                " but got ", name_of(out.dtype()));
  return _where_out(out, condition_of(condition), self, other);
}

std::vector<Tensor> nonzero_numpy(const Tensor& condition) {
  const Tensor t = condition.dim() == 0 ? unsqueeze(condition, 0) : condition;
  return unbind(nonzero(t), 1);
}

// Row-major results whatever self's layout, unlike other elementwise ones'.
Tensor masked_fill_composite(const Tensor& self, const Tensor& mask, const Scalar& value) {
  return contiguous(_masked_fill(self, mask, value));
}
const Tensor& masked_fill_inplace(const Tensor& self, const Tensor& mask, const Scalar& value) {
  return _masked_fill_(self, mask, value);
}
namespace {
void check_fill_value(const Tensor& value) {
  TESSERA_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
}
bool is_known(const Tensor& value) {
  return !value.requires_grad() && !any_dual(value) && value.is_cpu() && !values_unknown(value) && !is_observed();
}
Tensor fill_value_as(const Tensor& value, const Tensor& self) {
  TESSERA_CHECK(!value.is_complex() || self.is_complex(), "value cannot be converted to type ", name_of(self.dtype()),
                " without overflow");
  return value.dtype() == self.dtype() ? value : to(value, self.dtype());
}
}  // namespace
Tensor masked_fill_tensor_composite(const Tensor& self, const Tensor& mask, const Tensor& value) {
  check_fill_value(value);
  TESSERA_CHECK(mask.dtype() == DType::kBool, "masked_fill_ only supports boolean masks, but got mask with dtype ",
                name_of(mask.dtype()));
  if (is_known(value)) return contiguous(_masked_fill(self, mask, value.item_scalar()));
  return contiguous(where(mask, fill_value_as(value, self), self));
}
const Tensor& masked_fill_tensor_inplace(const Tensor& self, const Tensor& mask, const Tensor& value) {
  check_fill_value(value);
  if (is_known(value)) return _masked_fill_(self, mask, value.item_scalar());
  const IntVector shape = infer_broadcast(self.sizes(), mask.sizes());
  TESSERA_CHECK(std::ranges::equal(shape, self.sizes()), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(shape));
  return copy_(self, where(mask, fill_value_as(value, self), self));
}

Tensor polygamma_composite(int64_t n, const Tensor& self) {
  TESSERA_CHECK(n >= 0, "polygamma(n, x) does not support negative n, got ", n);
  return n == 0 ? digamma(self) : _polygamma(self, n);
}

}  // namespace tessera::kernels
