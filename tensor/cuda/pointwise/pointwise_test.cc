// Every elementwise op of the core on a device against the CPU's; all layouts of memory.
#include "tensor/cpu/pointwise/pointwise.h"

#include <algorithm>
#include <limits>

#include "tensor/core/error.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/pointwise/pointwise_testing.h"
#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using namespace testing;
using cpu::Operand;

#define OP(name) #name, &pw::name
std::vector<Op> all_ops() {
  return {
      {OP(add), {2}},
      {OP(sub), {2}},
      {OP(rsub), {2}},
      {OP(mul)},
      {OP(div)},
      {OP(div_trunc)},
      {OP(div_floor)},
      {OP(remainder)},
      {OP(fmod)},
      {OP(pow), {}, 8},
      {OP(atan2), {}, 8},
      {OP(copysign)},
      {OP(hypot), {}, 4},
      {OP(maximum)},
      {OP(minimum)},
      {OP(fmax)},
      {OP(fmin)},
      {OP(xlogy), {}, 8},
      {OP(xlog1py), {}, 8},
      {OP(nextafter)},
      {OP(heaviside)},
      {OP(logaddexp), {}, 8, 8},
      {OP(logaddexp2), {}, 8, 8},
      {OP(gcd)},
      {OP(lcm)},
      {OP(eq)},
      {OP(ne)},
      {OP(lt)},
      {OP(le)},
      {OP(gt)},
      {OP(ge)},
      {OP(logical_and)},
      {OP(logical_or)},
      {OP(logical_xor)},
      {OP(logical_not)},
      {OP(isnan)},
      {OP(isinf)},
      {OP(isfinite)},
      {OP(isposinf)},
      {OP(isneginf)},
      {OP(signbit)},
      {OP(bitwise_and)},
      {OP(bitwise_or)},
      {OP(bitwise_xor)},
      {OP(bitwise_not)},
      {OP(bitwise_left_shift)},
      {OP(bitwise_right_shift)},
      {OP(abs), {}, 2},
      {OP(neg)},
      {OP(sign)},
      {OP(sgn), {}, 4},
      {OP(square), {}, 2},
      {OP(reciprocal), {}, 2},
      {OP(sqrt), {}, 4},
      {OP(rsqrt), {}, 8},
      {OP(exp), {}, 8},
      {OP(exp2), {}, 8},
      {OP(expm1), {}, 8},
      {OP(log), {}, 8},
      {OP(log1p), {}, 8},
      {OP(log2), {}, 8},
      {OP(log10), {}, 8},
      {OP(sin), {}, 8, 2},
      {OP(cos), {}, 8, 2},
      {OP(tan), {}, 16, 2},
      {OP(asin), {}, 8},
      {OP(acos), {}, 8},
      {OP(atan), {}, 8},
      {OP(sinh), {}, 8},
      {OP(cosh), {}, 8},
      {OP(tanh), {}, 8},
      {OP(asinh), {}, 8},
      {OP(acosh), {}, 8},
      {OP(atanh), {}, 8},
      {OP(sigmoid), {}, 8},
      {OP(erf), {}, 8},
      {OP(erfc), {}, 64},
      {OP(erfinv), {}, 16},
      {OP(logit), {kNan}, 16, 16},
      {OP(logit), {0.25}, 16, 16},
      {OP(lgamma), {}, 64, 64},
      {OP(digamma), {}, 4096, 64},
      {OP(polygamma), {1}, 64},
      {OP(polygamma), {3}, 64},
      {OP(sinc), {}, 16, 4},
      {OP(entr), {}, 8},
      {OP(i0), {}, 64},
      {OP(i1), {}, 64},
      {OP(ceil)},
      {OP(floor)},
      {OP(round)},
      {OP(round_decimals), {2}},
      {OP(round_decimals), {-1}},
      {OP(trunc)},
      {OP(frac)},
      {OP(conj_physical)},
      {OP(angle), {}, 4},
      {OP(nan_to_num), {1, 2, 3}},
      {OP(clamp), {-1, 2}},
      {OP(clamp), {-kInf, kInf}},
      {OP(clamp_tensor)},
      {OP(clamp_min_tensor)},
      {OP(clamp_max_tensor)},
      {OP(lerp)},
      {OP(lerp_scalar), {0.25}},
      {OP(lerp_scalar), {0.75}},
      {OP(addcmul), {3}},
      {OP(addcdiv), {3}},
      {OP(where)},
      {OP(masked_fill), {3}},
      {OP(sigmoid_backward), {}, 8},
      {OP(tanh_backward), {}, 64},
      {OP(logit_backward), {kNan}, 16},
      {OP(logit_backward), {0.25}, 16},
  };
}
#undef OP

class Pointwise : public DeviceTest {};

TEST_F(Pointwise, EveryOpAndDtypeAsOnTheCpu) { compare_all(all_ops()); }

// A tensor of `shape` somewhere in a larger block of memory: dimensions in any order, with gaps, repeated, from any
// element on.
struct Layout {
  std::vector<int64_t> strides;  // bytes
  int64_t offset, elements;
};
Layout random_layout(const std::vector<int64_t>& shape, int64_t size, bool may_repeat, std::mt19937& rng) {
  Layout l{std::vector<int64_t>(shape.size()), size * static_cast<int64_t>(rng() % 3),
           static_cast<int64_t>(rng() % 3 + 2)};
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  if (rng() % 2 == 0) std::shuffle(order.begin(), order.end(), rng);
  int64_t step = 1;
  for (size_t d : order) {
    if (may_repeat && rng() % 4 == 0) continue;
    if (rng() % 5 == 0) step *= 2;
    l.strides[d] = step * size;
    step *= shape[d];
  }
  l.elements += step;
  return l;
}

// One call of op on operands of random dtypes and layouts, on both devices; all bytes of the output's memory are
// compared.
void compare_random(const PointwiseOp& op, const std::vector<int64_t>& shape, std::mt19937& rng,
                    const std::vector<DType>& choice, bool same_dtypes) {
  const DType first = choice[rng() % choice.size()];
  const auto next = [&] { return same_dtypes ? first : choice[rng() % choice.size()]; };
  std::vector<DType> dtypes;
  DType promoted = first;
  for (int k = 0; k < op.num_inputs; ++k) {
    dtypes.push_back(op.bool_inputs >> k & 1 ? DType::kBool : next());
    if (dtypes.back() != DType::kBool) promoted = promote_types(promoted, dtypes.back());
  }
  if (!kernel_dtype(op, promoted)) return;
  const DType compute = kernel_dtype(op, promoted).value(), out_dtype = same_dtypes ? result_dtype(op, promoted)
                                                                        : rng() % 2 ? result_dtype(op, promoted)
                                                                                    : next();
  std::string what = op.name;
  std::vector<Mirror> inputs;
  std::vector<Layout> layouts;
  std::vector<Operand> host, device;
  std::vector<int64_t> zeros(shape.size());
  const size_t number = static_cast<size_t>(op.num_inputs);
  for (size_t k = 0; k < number; ++k) {
    layouts.push_back(random_layout(shape, item_size(dtypes[k]), true, rng));
    inputs.emplace_back(random_elements(dtypes[k], layouts[k].elements, rng()));
  }
  for (size_t k = 0; k < number; ++k) {
    const bool number_of_host = rng() % 6 == 0;
    const int64_t* const strides = number_of_host ? zeros.data() : layouts[k].strides.data();
    host.push_back({static_cast<char*>(inputs[k].host()) + layouts[k].offset, dtypes[k], strides});
    device.push_back({static_cast<char*>(number_of_host ? inputs[k].host() : inputs[k].device()) + layouts[k].offset,
                      dtypes[k], strides, number_of_host});
    what += std::string(" ") + name_of(dtypes[k]) + (number_of_host ? " (host)" : "");
  }
  const Layout l = random_layout(shape, item_size(out_dtype), false, rng);
  Mirror out(std::vector<uint8_t>(static_cast<size_t>(l.elements * item_size(out_dtype)), 0));
  const Operand host_out{static_cast<char*>(out.host()) + l.offset, out_dtype, l.strides.data()};
  const Operand device_out{static_cast<char*>(out.device()) + l.offset, out_dtype, l.strides.data()};
  std::vector<KernelParam> params(4, param_of(2, compute, false));
  cpu::run_pointwise(op, compute, shape, {&host_out, 1}, host, params.data());
  cuda::run_pointwise(op, compute, shape, {&device_out, 1}, device, params.data());
  what += std::string(" -> ") + name_of(out_dtype) + ", shape";
  for (int64_t s : shape) what += " " + std::to_string(s);
  expect_same(out_dtype, out.host_bytes(), out.device_bytes(), what);
}

std::vector<int64_t> random_shape(std::mt19937& rng, int64_t most) {
  static constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 8, 12, 16, 33, 64, 100};
  std::vector<int64_t> shape(rng() % 6);
  int64_t n = 1;
  for (int64_t& s : shape) {
    s = kSizes[rng() % std::size(kSizes)];
    if (n * s > most) s = 1;
    n *= s;
  }
  return shape;
}

const PointwiseOp* const kExactOps[] = {&pw::mul,     &pw::sub, &pw::where,        &pw::lt,
                                        &pw::addcmul, &pw::neg, &pw::clamp_tensor, &pw::masked_fill};

TEST_F(Pointwise, AnyLayoutOfOneDtype) {
  const std::vector<DType> choice = {DType::kFloat32, DType::kFloat16, DType::kBFloat16, DType::kFloat64,
                                     DType::kInt64,   DType::kInt32,   DType::kUInt8};
  std::mt19937 rng(1);
  for (int i = 0; i < 400; ++i)
    compare_random(*kExactOps[i % std::size(kExactOps)], random_shape(rng, 4000), rng, choice, true);
}

TEST_F(Pointwise, AnyLayoutOfDifferentDtypes) {
  const std::vector<DType> choice = {DType::kBool,    DType::kUInt8,  DType::kInt8,    DType::kInt16,
                                     DType::kInt32,   DType::kInt64,  DType::kFloat16, DType::kBFloat16,
                                     DType::kFloat32, DType::kFloat64};
  std::mt19937 rng(2);
  for (int i = 0; i < 400; ++i)
    compare_random(*kExactOps[i % std::size(kExactOps)], random_shape(rng, 2000), rng, choice, false);
}

TEST_F(Pointwise, TransposedInputs) {
  const std::vector<DType> choice = {DType::kFloat32, DType::kBFloat16};
  std::mt19937 rng(3);
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{300, 250}, {7, 100, 120}, {64, 33, 9, 8}}) {
    for (int i = 0; i < 6; ++i) compare_random(*kExactOps[i % 3], shape, rng, choice, true);
  }
}

TEST_F(Pointwise, DenseOfAllLengthsAndAlignments) {
  for (const DType t : {DType::kFloat32, DType::kFloat16, DType::kInt8, DType::kFloat64}) {
    Mirror a(random_elements(t, 5000, 1)), b(random_elements(t, 5000, 2));
    const int64_t size = item_size(t);
    for (const int64_t n : {0, 1, 2, 3, 4, 7, 8, 15, 31, 255, 257, 1023, 1025, 4097}) {
      for (const int64_t shift : {0, 1, 4}) {
        Mirror out(std::vector<uint8_t>(static_cast<size_t>(5000 * size)));
        const Operand host[] = {{a.host(), t, &size}, {b.host_as<char>() + shift * size, t, &size}};
        const Operand device[] = {{a.device(), t, &size}, {b.device_as<char>() + shift * size, t, &size}};
        const Operand host_out{out.host(), t, &size}, device_out{out.device(), t, &size};
        const DType compute = kernel_dtype(pw::mul, t).value();
        cpu::run_pointwise(pw::mul, compute, {&n, 1}, {&host_out, 1}, host, nullptr);
        cuda::run_pointwise(pw::mul, compute, {&n, 1}, {&device_out, 1}, device, nullptr);
        expect_same(t, out.host_bytes(), out.device_bytes(),
                    "length " + std::to_string(n) + " at " + std::to_string(shift));
      }
    }
  }
}

TEST_F(Pointwise, InPlace) {
  const int64_t n = 1001, size = 4;
  Mirror a(random_elements(DType::kFloat32, n, 1)), b(random_elements(DType::kFloat32, n, 2));
  const KernelParam alpha = param_of(3, DType::kFloat32, false);
  const Operand host[] = {{a.host(), DType::kFloat32, &size}, {b.host(), DType::kFloat32, &size}};
  const Operand device[] = {{a.device(), DType::kFloat32, &size}, {b.device(), DType::kFloat32, &size}};
  cpu::run_pointwise(pw::add, DType::kFloat32, {&n, 1}, {host, 1}, host, &alpha);
  cuda::run_pointwise(pw::add, DType::kFloat32, {&n, 1}, {device, 1}, device, &alpha);
  expect_same(DType::kFloat32, a.host_bytes(), a.device_bytes());
}

TEST_F(Pointwise, OpsWithoutKernels) {
  const int64_t n = 4, size = 4;
  const DeviceBytes data(16);
  const Operand x{data.get(), DType::kFloat32, &size};
  const Operand both[] = {x, x};
  PointwiseOp unknown = pw::mul;
  unknown.name = "unknown";
  EXPECT_THROW(cuda::run_pointwise(unknown, DType::kFloat32, {&n, 1}, {&x, 1}, both, nullptr), NotImplementedError);
  EXPECT_THROW(cuda::run_pointwise(pw::gcd, DType::kFloat32, {&n, 1}, {&x, 1}, both, nullptr), NotImplementedError);
}

TEST_F(Pointwise, IntegerDivisors) {
  const std::vector<int64_t> shape = {3, 5}, strides = {20, 4}, repeated = {0, 0};
  std::vector<int32_t> numbers(15, 2);
  const Mirror fine = Mirror::of(numbers);
  cuda::check_integer_divisor(shape, {fine.device(), DType::kInt32, strides.data()});
  numbers[13] = 0;
  Mirror zero = Mirror::of(numbers);
  cuda::check_integer_divisor(shape, {zero.device(), DType::kInt32, repeated.data()});
  EXPECT_NO_THROW(synchronize_stream());
  cuda::check_integer_divisor(shape, {zero.device(), DType::kInt32, strides.data()});
  EXPECT_THROW(synchronize_stream(), Error);
  EXPECT_NO_THROW(synchronize_stream());
  EXPECT_THROW(cuda::check_integer_divisor(shape, {zero.host_as<int32_t>() + 13, DType::kInt32, repeated.data(), true}),
               Error);
  EXPECT_NO_THROW(cuda::check_integer_divisor(shape, {zero.host(), DType::kInt32, repeated.data(), true}));
  cuda::check_integer_divisor(shape, {zero.device(), DType::kFloat32, strides.data()});
  EXPECT_NO_THROW(synchronize_stream());
}

// Numbers of elements that do not fit in 32 bits: done in parts.
TEST_F(Pointwise, MoreThan4GigaElements) {
  if (properties().total_memory < size_t{24} << 30) GTEST_SKIP() << "a device with less than 24 GiB";
  const std::vector<int64_t> shape = {3, (int64_t{1} << 31) + 12345}, strides = {shape[1], 1}, row = {0, 1};
  const DeviceBytes x(static_cast<size_t>(shape[1]), 3), y(static_cast<size_t>(3 * shape[1]), 5);
  const Operand out{y.get(), DType::kUInt8, strides.data()};
  const Operand in[] = {{y.get(), DType::kUInt8, strides.data()}, {x.get(), DType::kUInt8, row.data()}};
  cuda::run_pointwise(pw::mul, DType::kUInt8, shape, {&out, 1}, in, nullptr);
  const std::vector<uint8_t> got = y.read();
  EXPECT_EQ(std::count(got.begin(), got.end(), 15), static_cast<int64_t>(got.size()));
}

}  // namespace
}  // namespace tessera::cuda
