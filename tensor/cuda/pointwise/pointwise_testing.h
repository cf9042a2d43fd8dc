// For tests of elementwise ops on a device against the CPU's: all compute dtypes with values at the edges.
#pragma once

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda::testing {

using cpu::Operand;

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// How far a result may be from the CPU's: the same bits, or some units in the last place of the compute dtype (of |z|
// for complex numbers). Functions whose value the CPU computes differently near zeros may also be off by `absolute`
// units.
struct Op {
  const char* name;
  const PointwiseOp* op;
  std::vector<double> params = {};
  double ulps = 0;
  double absolute = 0;
  bool unit = false;  // inputs in [0, 1]: elsewhere the CPU's results are not meant to be used
};

inline KernelParam param_of(double v, DType compute, bool real) {
  KernelParam p{};
  if (is_complex(compute) && !real)
    p.c[0] = v, p.c[1] = 0.5;
  else if (is_floating_point(compute) || is_complex(compute))
    p.f = v;
  else
    p.i = v == kInf ? INT64_MAX : v == -kInf ? INT64_MIN : static_cast<int64_t>(v);
  return p;
}
inline std::vector<KernelParam> params_of(const Op& o, DType compute) {
  std::vector<KernelParam> p;
  for (double v : o.params) p.push_back(param_of(v, compute, o.op == &pw::nan_to_num));
  return p;
}

// The numbers at which functions change their behaviour.
inline std::vector<double> edges(DType t, bool unit) {
  if (unit) return {0, 1, 0.5, 0.25, 1e-3, 0.999};
  if (t == DType::kBool) return {0, 1};
  if (is_integral(t, false))
    return {0, 1, 2, 3, 5, 7, 20, 100, is_signed(t) ? -1.0 : 4, is_signed(t) ? -2.0 : 6, is_signed(t) ? -7.0 : 8};
  const double huge = t == DType::kFloat64 || t == DType::kComplex128 ? 1e300
                      : is_reduced_float(t) || t == DType::kComplex32 ? 6e4
                                                                      : 1e37;
  return {0, -0.0, 1,     -1, 0.5, -0.5, 1.5,   2,      -2,  2.5,  3,     -3,   0.1,   -0.1,
          7, 20.5, -20.5, 90, -90, 1e-3, 1e-30, -1e-30, 1e4, huge, -huge, kInf, -kInf, kNan};
}

// n elements: pairs of edges first (input 0 changes fastest), then random numbers; integers with their extremes.
inline std::vector<uint8_t> samples(DType t, int64_t n, int input, bool unit, bool divisor) {
  std::vector<uint8_t> bytes =
      random_elements(t, n, 77 + static_cast<uint64_t>(input), unit ? 0.01 : -5, unit ? 0.99 : 5);
  const std::vector<double> e = edges(t, unit);
  const int64_t count = static_cast<int64_t>(e.size());
  int64_t step = 1;
  for (int k = 0; k < input; ++k) step *= count;
  for (int64_t i = 0; i < n / 2; ++i)
    bytes = i < count * count || input == 2
                ? with_value(std::move(bytes), t, i, e[static_cast<size_t>(i / step % count)])
                : std::move(bytes);
  if (is_integral(t, false)) {
    const int64_t size = item_size(t);
    const uint64_t low = is_signed(t) ? uint64_t{1} << (8 * size - 1) : 0, high = is_signed(t) ? low - 1 : ~uint64_t{0};
    for (int64_t i = 0; i < 4; ++i) {
      const uint64_t v = (i >> input & 1) != 0 ? high : low == 0 && divisor ? 1 : low;
      std::memcpy(bytes.data() + (n - 1 - i) * size, &v, static_cast<size_t>(size));
    }
    if (divisor) {
      for (int64_t i = 0; i < n; ++i) {
        if (element(t, bytes.data(), i) == 0.0) bytes = with_value(std::move(bytes), t, i, 3);
      }
    }
  }
  return bytes;
}

inline double unit_of(DType t) {
  if (t == DType::kFloat64 || t == DType::kComplex128) return 0x1p-52;
  return t == DType::kFloat16 || t == DType::kComplex32 ? 0x1p-10 : t == DType::kBFloat16 ? 0x1p-7 : 0x1p-23;
}

inline bool close_to(double want, double got, double scale, double bound, DType t) {
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got);
  if (want == got) return true;
  if (std::isinf(want) || std::isinf(got)) {  // on the edge of the range
    const double largest = is_reduced_float(t) && t != DType::kBFloat16      ? 65504
                           : t == DType::kFloat64 || t == DType::kComplex128 ? 1.79e308
                                                                             : 3.4e38;
    return std::fabs(std::isinf(want) ? got : want) > 0.999 * largest;
  }
  return std::fabs(want - got) <= bound * std::max(scale, 1e-37);
}

// The op on dense operands of dtype t, on both devices.
inline void compare(const Op& o, DType t) {
  const PointwiseOp& op = *o.op;
  const DType compute = kernel_dtype(op, t).value(), result = result_dtype(op, t);
  const bool divides = &op == &pw::div_trunc || &op == &pw::div_floor || &op == &pw::remainder || &op == &pw::fmod;
  const int64_t n = 2003;
  const std::string what = std::string(o.name) + " of " + name_of(t);
  std::vector<Mirror> inputs;
  std::vector<DType> dtypes;
  for (int k = 0; k < op.num_inputs; ++k) {
    dtypes.push_back(op.bool_inputs >> k & 1 ? DType::kBool : t);
    inputs.emplace_back(samples(dtypes.back(), n, k, o.unit, divides && k == 1));
  }
  Mirror out(std::vector<uint8_t>(static_cast<size_t>(n * item_size(result)), 0xEE));
  const std::vector<KernelParam> params = params_of(o, compute);
  const int64_t out_stride = item_size(result);
  std::vector<int64_t> strides;
  for (DType d : dtypes) strides.push_back(item_size(d));
  std::vector<Operand> host, device;
  for (int k = 0; k < op.num_inputs; ++k) {
    host.push_back({inputs[k].host(), dtypes[k], &strides[k]});
    device.push_back({inputs[k].device(), dtypes[k], &strides[k]});
  }
  const Operand host_out{out.host(), result, &out_stride}, device_out{out.device(), result, &out_stride};
  cpu::run_pointwise(op, compute, {&n, 1}, {&host_out, 1}, host, params.data());
  cuda::run_pointwise(op, compute, {&n, 1}, {&device_out, 1}, device, params.data());
  const std::vector<uint8_t> got = out.device_bytes();
  const double ulps = is_complex(t) ? std::max(o.ulps, 4.0) * 4 : o.ulps,
               absolute = is_complex(t) ? std::max(o.absolute, 1.0) : o.absolute;
  if (ulps == 0 || (!is_floating_point(result) && !is_complex(result)))
    return expect_same(result, out.host_bytes(), got, what);
  int shown = 0;
  for (int64_t i = 0; i < n && shown < 4; ++i) {
    const std::complex<double> want = element(result, out.host(), i), is = element(result, got.data(), i);
    double bound = std::max(ulps * unit_of(compute), unit_of(t) * (t == compute ? 0 : 1));
    if (&op == &pw::pow && is_complex(t)) {  // e^(b log a): as exact as b log a
      bound *= 1 + std::abs(element(t, inputs[1].host(), i) * std::log(element(t, inputs[0].host(), i)));
      if (!std::isfinite(bound)) continue;
    }
    const double size = std::hypot(want.real(), want.imag());
    const double scale = std::isfinite(size) ? std::max(size, absolute / ulps) : std::fabs(want.real());
    const double scale_im = std::isfinite(size) ? scale : std::fabs(want.imag());
    if (is_complex(result) && !std::isfinite(size) && !std::isfinite(std::abs(is)))
      continue;  // which infinity or nan is the CPU library's choice
    if (close_to(want.real(), is.real(), scale, bound, t) && close_to(want.imag(), is.imag(), scale_im, bound, t))
      continue;
    ++shown;
    std::string args;
    for (int k = 0; k < op.num_inputs; ++k) {
      const std::complex<double> x = element(dtypes[k], inputs[k].host(), i);
      args += " " + std::to_string(x.real()) + (is_complex(t) ? "+" + std::to_string(x.imag()) + "i" : "");
    }
    ADD_FAILURE() << what << " of" << args << ": expected " << want << ", got " << is;
  }
}

// Each op for every dtype that it has kernels for.
inline void compare_all(const std::vector<Op>& ops) {
  int compared = 0;
  for (const Op& o : ops) {
    for (int d = 0; d < kNumComputeDTypes; ++d) {
      const DType t = static_cast<DType>(d);
      if (kernel_dtype(*o.op, t)) compare(o, t), ++compared;
    }
  }
  EXPECT_GE(compared, static_cast<int>(ops.size()));
}

}  // namespace tessera::cuda::testing
