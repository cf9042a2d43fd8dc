// Lists of tensors against loops on the host.
#include "foreach/cuda/foreach.h"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tensor/cuda/support/testing.h"

namespace tessera::cuda {
namespace {

using testing::Mirror;

class Foreach : public testing::DeviceTest {};

using Reference = std::function<double(double x, double y, double z, double s)>;
double value(DType t, const Mirror& m, int64_t i) { return testing::element(t, m.host_bytes().data(), i).real(); }

// Tensors of many sizes: empty, of one element, of several pieces, more than fit in a launch.
struct Lists {
  std::vector<int64_t> sizes;
  std::vector<std::unique_ptr<Mirror>> operands[3];
  std::vector<void*> addresses[3];
  Lists(DType t, double low, double high) {
    for (int i = 0; i < 75; ++i) sizes.push_back(i == 3 ? 0 : i == 4 ? 10000 : i == 5 ? 4096 : 1 + (i * 37) % 300);
    for (int k = 0; k < 3; ++k)
      for (size_t i = 0; i < sizes.size(); ++i) {
        operands[k].push_back(std::make_unique<Mirror>(testing::random_elements(t, sizes[i], 100 * k + i, low, high)));
        addresses[k].push_back(operands[k].back()->device());
      }
  }
};

void check(ListOp op, DType t, const Reference& f, double low = -3, double high = 3, bool in_place = false,
           int number = 0) {
  Lists lists(t, low, high);
  std::vector<std::unique_ptr<testing::DeviceBytes>> results;
  std::vector<void*> out;
  std::vector<double> numbers;
  for (size_t i = 0; i < lists.sizes.size(); ++i) {
    results.push_back(std::make_unique<testing::DeviceBytes>(static_cast<size_t>(lists.sizes[i] * item_size(t))));
    out.push_back(in_place ? lists.addresses[0][i] : results.back()->get());
    numbers.push_back(0.25 * static_cast<double>(i % 5) + 0.25);
  }
  ListCall call{.op = op,
                .dtype = t,
                .count = static_cast<int64_t>(lists.sizes.size()),
                .sizes = lists.sizes.data(),
                .out = out.data()};
  for (int k = 0; k < 3; ++k) call.operands[k] = lists.addresses[k].data();
  call.number = 0.5;
  if (number == 1) call.numbers = numbers.data();
  const Mirror on_device(testing::with_value(std::vector<uint8_t>(static_cast<size_t>(item_size(t))), t, 0, 1.5));
  if (number == 2) call.number_on_device = on_device.device();
  list_call(call);
  for (size_t i = 0; i < lists.sizes.size(); ++i) {
    const double s = number == 1 ? numbers[i] : number == 2 ? 1.5 : 0.5;
    std::vector<uint8_t> want(static_cast<size_t>(lists.sizes[i] * item_size(t)));
    for (int64_t j = 0; j < lists.sizes[i]; ++j)
      want = testing::with_value(std::move(want), t, j,
                                 f(value(t, *lists.operands[0][i], j), value(t, *lists.operands[1][i], j),
                                   value(t, *lists.operands[2][i], j), s));
    const std::vector<uint8_t> got = in_place ? lists.operands[0][i]->device_bytes() : results[i]->read();
    testing::expect_close(t, want, got, t == DType::kFloat64 ? 1e-12 : -1, t == DType::kFloat64 ? 1e-12 : -1,
                          "function " + std::to_string(static_cast<int>(op)) + " tensor " + std::to_string(i));
    if (::testing::Test::HasFailure()) return;
  }
}

TEST_F(Foreach, Arithmetic) {
  for (const DType t : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
    for (const bool in_place : {false, true})
      for (const int number : {0, 1, 2}) {
        check(
            ListOp::kAdd, t, [](double x, double y, double, double s) { return x + s * y; }, -3, 3, in_place, number);
        check(
            ListOp::kAddNumber, t, [](double x, double, double, double s) { return x + s; }, -3, 3, in_place, number);
        check(
            ListOp::kMulNumber, t, [](double x, double, double, double s) { return x * s; }, -3, 3, in_place, number);
        check(
            ListOp::kDivNumber, t, [](double x, double, double, double s) { return x / s; }, -3, 3, in_place, number);
        check(
            ListOp::kMaxNumber, t, [](double x, double, double, double s) { return std::max(x, s); }, -3, 3, in_place,
            number);
        check(
            ListOp::kMinNumber, t, [](double x, double, double, double s) { return std::min(x, s); }, -3, 3, in_place,
            number);
        check(
            ListOp::kAddcmul, t, [](double x, double y, double z, double s) { return x + s * y * z; }, -3, 3, in_place,
            number);
        check(
            ListOp::kAddcdiv, t, [](double x, double y, double z, double s) { return x + s * y / z; }, 1, 3, in_place,
            number);
        check(
            ListOp::kLerp, t, [](double x, double y, double, double s) { return x + s * (y - x); }, -3, 3, in_place,
            number);
        check(
            ListOp::kFill, t, [](double, double, double, double s) { return s; }, -3, 3, in_place, number);
      }
}

TEST_F(Foreach, TwoAndThreeTensors) {
  for (const DType t : {DType::kFloat32, DType::kBFloat16}) {
    check(ListOp::kMul, t, [](double x, double y, double, double) { return x * y; });
    check(
        ListOp::kDiv, t, [](double x, double y, double, double) { return x / y; }, 1, 3);
    check(ListOp::kMax, t, [](double x, double y, double, double) { return std::max(x, y); });
    check(ListOp::kMin, t, [](double x, double y, double, double) { return std::min(x, y); });
    check(
        ListOp::kPow, t, [](double x, double y, double, double) { return std::pow(x, y); }, 0.5, 2);
    check(ListOp::kLerpEach, t, [](double x, double y, double z, double) { return x + z * (y - x); });
    check(ListOp::kCopy, t, [](double, double y, double, double) { return y; });
    check(ListOp::kIdentity, t, [](double x, double, double, double) { return x; });
  }
}

TEST_F(Foreach, OneTensor) {
  const std::pair<ListOp, double (*)(double)> functions[] = {
      {ListOp::kAbs, std::fabs},
      {ListOp::kAcos, std::acos},
      {ListOp::kAsin, std::asin},
      {ListOp::kAtan, std::atan},
      {ListOp::kCeil, std::ceil},
      {ListOp::kCos, std::cos},
      {ListOp::kCosh, std::cosh},
      {ListOp::kErf, std::erf},
      {ListOp::kErfc, std::erfc},
      {ListOp::kExp, std::exp},
      {ListOp::kExpm1, std::expm1},
      {ListOp::kFloor, std::floor},
      {ListOp::kFrac, [](double x) { return x - std::trunc(x); }},
      {ListOp::kLgamma, std::lgamma},
      {ListOp::kLog, std::log},
      {ListOp::kLog10, std::log10},
      {ListOp::kLog1p, std::log1p},
      {ListOp::kLog2, std::log2},
      {ListOp::kNeg, [](double x) { return -x; }},
      {ListOp::kReciprocal, [](double x) { return 1 / x; }},
      {ListOp::kRound, std::nearbyint},
      {ListOp::kRsqrt, [](double x) { return 1 / std::sqrt(x); }},
      {ListOp::kSigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }},
      {ListOp::kSign, [](double x) { return static_cast<double>((x > 0) - (x < 0)); }},
      {ListOp::kSin, std::sin},
      {ListOp::kSinh, std::sinh},
      {ListOp::kSqrt, std::sqrt},
      {ListOp::kTan, std::tan},
      {ListOp::kTanh, std::tanh},
      {ListOp::kTrunc, std::trunc}};
  for (const auto& [op, f] : functions)
    for (const DType t : {DType::kFloat32, DType::kFloat16})
      check(
          op, t, [f = f](double x, double, double, double) { return f(x); }, 0.1, 0.9, t == DType::kFloat16);
  check(
      ListOp::kPowNumber, DType::kFloat32, [](double x, double, double, double s) { return std::pow(x, s); }, 0.1, 2);
  check(
      ListOp::kNumberPow, DType::kFloat32, [](double x, double, double, double s) { return std::pow(s, x); }, 0.1, 2);
}

TEST_F(Foreach, Norms) {
  for (const DType t : {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16})
    for (const ListOp op : {ListOp::kNorm1, ListOp::kNorm2, ListOp::kNormMax}) {
      Lists lists(t, -1, 1);
      lists.sizes[3] = lists.sizes[2];
      lists.addresses[0][3] = lists.addresses[0][2];
      const testing::DeviceBytes results(lists.sizes.size() * static_cast<size_t>(item_size(t)));
      std::vector<void*> out;
      for (size_t i = 0; i < lists.sizes.size(); ++i)
        out.push_back(results.as<char>() + static_cast<int64_t>(i) * item_size(t));
      ListCall call{.op = op,
                    .dtype = t,
                    .count = static_cast<int64_t>(lists.sizes.size()),
                    .sizes = lists.sizes.data(),
                    .out = out.data()};
      call.operands[0] = lists.addresses[0].data();
      list_call(call);
      const std::vector<uint8_t> got = results.read();
      for (size_t i = 0; i < lists.sizes.size(); ++i) {
        const Mirror& x = *lists.operands[0][i == 3 ? 2 : i];
        double sum = 0;
        for (int64_t j = 0; j < lists.sizes[i]; ++j) {
          const double v = std::fabs(value(t, x, j));
          sum = op == ListOp::kNorm1 ? sum + v : op == ListOp::kNorm2 ? sum + v * v : std::max(sum, v);
        }
        if (op == ListOp::kNorm2) sum = std::sqrt(sum);
        const double unit = t == DType::kFloat64   ? 1e-12
                            : t == DType::kFloat32 ? 1e-5
                            : t == DType::kFloat16 ? 1e-3
                                                   : 8e-3;
        EXPECT_NEAR(testing::element(t, got.data(), static_cast<int64_t>(i)).real(), sum, unit * (1 + sum))
            << name_of(t) << " tensor " << i;
      }
    }
}

}  // namespace
}  // namespace tessera::cuda
