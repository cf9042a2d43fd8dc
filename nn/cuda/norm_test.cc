#include "tensor/core/error.h"
#include "nn/cpu/norm.h"
#include "nn/cuda/norm_engines.h"
#include "tensor/cuda/support/data_testing.h"

namespace tessera::cuda {
namespace {

using testing::Data;
using testing::expect_near;
using testing::OnDevice;
using testing::random_data;

DType stat_type(DType t) { return is_reduced_float(t) ? DType::kFloat32 : t; }

class NormTest : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

// x with a mean far from 0, which statistics must not suffer from.
Data shifted_data(DType t, int64_t n, unsigned seed) {
  Data d = random_data(t, n, seed);
  for (int64_t i = 0; i < n; ++i) d.set(i, d.value(i) + 3);
  return d;
}
double slack(int64_t n) { return 30 + std::sqrt(static_cast<double>(n)); }

struct BatchCase {
  int64_t batch, channels, inner;
};
const BatchCase kBatchCases[] = {{4, 3, 49},   {5, 4, 64},   {3, 2, 1000}, {64, 5, 1}, {33, 8, 1},
                                 {7, 4, 4},    {9, 3, 5},    {1, 1, 1},    {2, 3, 33}, {700, 12, 1},
                                 {1, 2, 9000}, {300, 2, 40}, {9000, 3, 5}};

void check_batch_norm(DType t, DType pt, const BatchCase& s, bool with_params) {
  const auto [batch, channels, inner] = s;
  const std::string what = str_cat("batch norm ", batch, " ", channels, " ", inner);
  const int64_t n = batch * channels * inner;
  Data x = shifted_data(t, n, 1), dy = random_data(t, n, 2), w = random_data(pt, channels, 3),
       b = random_data(pt, channels, 4), mean(DType::kFloat64, channels), var(DType::kFloat64, channels);
  const OnDevice dx(x), ddy(dy), dw(w), db(b), dmean(mean), dvar(var);
  cpu::batch_norm_stats(t, batch, channels, inner, x.get(), static_cast<double*>(mean.get()),
                        static_cast<double*>(var.get()));
  cuda::batch_norm_stats(t, batch, channels, inner, dx.get(), static_cast<double*>(dmean.get()),
                         static_cast<double*>(dvar.get()));
  expect_near(dmean.read(), mean, slack(n), what);
  expect_near(dvar.read(), var, slack(n), what);
  Data invstd(DType::kFloat64, channels), y(t, n), gx(t, n), gw(pt, channels), gb(pt, channels);
  for (int64_t c = 0; c < channels; ++c) invstd.set(c, 1 / std::sqrt(var.value(c) + 1e-5));
  const OnDevice dinvstd(invstd), exact_mean(mean), dout(y);
  const auto doubles = [](void* p) { return static_cast<const double*>(p); };
  cpu::batch_norm_apply(t, pt, batch, channels, inner, x.get(), doubles(mean.get()), doubles(invstd.get()),
                        with_params ? w.get() : nullptr, with_params ? b.get() : nullptr, y.get());
  cuda::batch_norm_apply(t, pt, batch, channels, inner, dx.get(), doubles(exact_mean.get()), doubles(dinvstd.get()),
                         with_params ? dw.get() : nullptr, with_params ? db.get() : nullptr, dout.get());
  expect_near(dout.read(), y, 2, what + " applied");
  for (const bool train : {true, false})
    for (const int outs : {7, 1, 6, 2}) {
      const OnDevice dgx(gx), dgw(gw), dgb(gb);
      cpu::batch_norm_backward(t, pt, batch, channels, inner, train, dy.get(), x.get(), doubles(mean.get()),
                               doubles(invstd.get()), with_params ? w.get() : nullptr, outs & 1 ? gx.get() : nullptr,
                               outs & 2 ? gw.get() : nullptr, outs & 4 ? gb.get() : nullptr);
      cuda::batch_norm_backward(t, pt, batch, channels, inner, train, ddy.get(), dx.get(), doubles(exact_mean.get()),
                                doubles(dinvstd.get()), with_params ? dw.get() : nullptr,
                                outs & 1 ? dgx.get() : nullptr, outs & 2 ? dgw.get() : nullptr,
                                outs & 4 ? dgb.get() : nullptr);
      expect_near(dgx.read(), gx, slack(n), what + " gradient");
      expect_near(dgw.read(), gw, slack(n), what + " gradient of the weight");
      expect_near(dgb.read(), gb, slack(n), what + " gradient of the bias");
    }
}
TEST_P(NormTest, Batch) {
  for (const auto& s : kBatchCases) {
    check_batch_norm(GetParam(), stat_type(GetParam()), s, true);
    check_batch_norm(GetParam(), GetParam(), s, false);
  }
}

// The whole in one call: statistics, running ones, results.
TEST_P(NormTest, WholeBatch) {
  const DType t = GetParam(), st = stat_type(t);
  for (const auto& [batch, channels, inner] :
       {BatchCase{4, 3, 49}, {33, 8, 1}, {7, 4, 4}, {2, 3, 33}, {300, 2, 40}, {3000, 8, 1}, {700, 5, 7}})
    for (const DType pt : {t, st}) {
      const std::string what = str_cat("batch norm ", batch, " ", channels, " ", inner);
      const int64_t n = batch * channels * inner;
      Data x = shifted_data(t, n, 1), w = random_data(pt, channels, 3), b = random_data(pt, channels, 4),
           mean(DType::kFloat64, channels), var(DType::kFloat64, channels), y(t, n),
           running_mean = random_data(pt, channels, 5), running_var = random_data(pt, channels, 6),
           save_mean(st, channels), save_invstd(st, channels);
      for (int64_t c = 0; c < channels; ++c) running_var.set(c, running_var.value(c) + 2);
      const OnDevice dx(x), dw(w), db(b), dy(y), dmean(running_mean), dvar(running_var), dsave_mean(save_mean),
          dsave_invstd(save_invstd);
      const auto numbers = [&](const OnDevice& d, DType of) { return nn::ChannelNumbers{d.get(), of}; };
      nn::BatchNormCall call{t,
                             batch,
                             channels,
                             inner,
                             true,
                             0.3,
                             1e-5,
                             dx.get(),
                             dy.get(),
                             numbers(dw, pt),
                             numbers(db, pt),
                             numbers(dmean, pt),
                             numbers(dvar, pt),
                             numbers(dsave_mean, st),
                             numbers(dsave_invstd, st)};
      cuda::batch_norm(call);
      const auto doubles = [](Data& d) { return static_cast<double*>(d.get()); };
      cpu::batch_norm_stats(t, batch, channels, inner, x.get(), doubles(mean), doubles(var));
      Data invstd(DType::kFloat64, channels);
      const double count = static_cast<double>(batch * inner);
      for (int64_t c = 0; c < channels; ++c) {
        invstd.set(c, 1 / std::sqrt(var.value(c) + 1e-5));
        save_mean.set(c, mean.value(c));
        save_invstd.set(c, invstd.value(c));
        running_mean.set(c, 0.7 * running_mean.value(c) + 0.3 * mean.value(c));
        running_var.set(c, 0.7 * running_var.value(c) + 0.3 * var.value(c) * count / (count - 1));
      }
      cpu::batch_norm_apply(t, pt, batch, channels, inner, x.get(), doubles(mean), doubles(invstd), w.get(), b.get(),
                            y.get());
      expect_near(dy.read(), y, slack(n), what);
      expect_near(dsave_mean.read(), save_mean, slack(n), what + " mean");
      expect_near(dsave_invstd.read(), save_invstd, slack(n), what + " invstd");
      expect_near(dmean.read(), running_mean, slack(n), what + " running mean");
      expect_near(dvar.read(), running_var, slack(n), what + " running variance");
      // In evaluation by the running statistics.
      call.training = false;
      cuda::batch_norm(call);
      const Data now_mean = dmean.read(), now_var = dvar.read();
      for (int64_t c = 0; c < channels; ++c) {
        mean.set(c, now_mean.value(c));
        invstd.set(c, 1 / std::sqrt(now_var.value(c) + 1e-5));
      }
      cpu::batch_norm_apply(t, pt, batch, channels, inner, x.get(), doubles(mean), doubles(invstd), w.get(), b.get(),
                            y.get());
      expect_near(dy.read(), y, 4, what + " evaluated");
    }
}

// Rows around 0 against sums of their own.
TEST_P(NormTest, RootMeanSquares) {
  const DType t = GetParam(), st = stat_type(t);
  for (const auto& [rows, n] : {std::pair<int64_t, int64_t>{5, 7}, {3, 64}, {9, 100}, {2, 1030}, {1, 8192}, {4, 1}})
    for (const bool weighted : {true, false}) {
      const std::string what = str_cat("rms norm ", rows, " ", n);
      Data x = shifted_data(t, rows * n, 1), w = random_data(t, n, 2), dy = random_data(t, rows * n, 3), y(t, rows * n),
           rstd(st, rows), gx(t, rows * n), gw(t, n);
      const OnDevice ox(x), ow(w), ody(dy), oy(y), orstd(rstd), ogx(gx), ogw(gw);
      cuda::rms_norm_forward(t, rows, n, 1e-5, ox.get(), weighted ? ow.get() : nullptr, oy.get(), orstd.get());
      cuda::rms_norm_backward(t, rows, n, ody.get(), ox.get(), orstd.get(), weighted ? ow.get() : nullptr, ogx.get(),
                              ogw.get());
      std::vector<double> to_weight(static_cast<size_t>(n));
      for (int64_t r = 0; r < rows; ++r) {
        double squares = 0, products = 0;
        const auto at = [&](const Data& d, int64_t i) { return d.value(r * n + i); };
        const auto factor = [&](int64_t i) { return weighted ? w.value(i) : 1; };
        for (int64_t i = 0; i < n; ++i) {
          squares += at(x, i) * at(x, i);
          products += at(dy, i) * factor(i) * at(x, i);
        }
        const double s = 1 / std::sqrt(squares / static_cast<double>(n) + 1e-5);
        rstd.set(r, s);
        for (int64_t i = 0; i < n; ++i) {
          y.set(r * n + i, at(x, i) * s * factor(i));
          gx.set(r * n + i, s * (at(dy, i) * factor(i) - at(x, i) * s * s * products / static_cast<double>(n)));
          to_weight[static_cast<size_t>(i)] += at(dy, i) * at(x, i) * s;
        }
      }
      for (int64_t i = 0; i < n; ++i) gw.set(i, to_weight[static_cast<size_t>(i)]);
      expect_near(oy.read(), y, 10, what);
      expect_near(orstd.read(), rstd, 20, what + " rstd");
      expect_near(ogx.read(), gx, slack(n), what + " gradient");
      expect_near(ogw.read(), gw, slack(n), what + " gradient of the weight");
    }
}

struct GroupCase {
  int64_t batch, channels, inner, groups;
};
// Layer normalisations are these with inner 1 and one group.
void check_group_norm(DType t, const GroupCase& s, bool layer, bool with_params) {
  const auto [batch, channels, inner, groups] = s;
  const std::string what =
      str_cat(layer ? "layer norm " : "group norm ", batch, " ", channels, " ", inner, " groups ", groups);
  const int64_t n = batch * channels * inner, rows = batch * groups;
  const DType st = stat_type(t);
  Data x = shifted_data(t, n, 1), dy = random_data(t, n, 2), w = random_data(t, channels, 3),
       b = random_data(t, channels, 4), y(t, n, 0x11), mean(st, rows), rstd(st, rows);
  const OnDevice dx(x), ddy(dy), dw(w), db(b), dout(y), dmean(mean), drstd(rstd);
  void *const pw = with_params ? w.get() : nullptr, *const pb = with_params ? b.get() : nullptr,
              *const pdw = with_params ? dw.get() : nullptr, *const pdb = with_params ? db.get() : nullptr;
  if (layer) {
    cpu::layer_norm_forward(t, batch, channels, 1e-5, x.get(), pw, pb, y.get(), mean.get(), rstd.get());
    cuda::layer_norm_forward(t, batch, channels, 1e-5, dx.get(), pdw, pdb, dout.get(), dmean.get(), drstd.get());
  } else {
    cpu::group_norm_forward(t, batch, channels, inner, groups, 1e-5, x.get(), pw, pb, y.get(), mean.get(), rstd.get());
    cuda::group_norm_forward(t, batch, channels, inner, groups, 1e-5, dx.get(), pdw, pdb, dout.get(), dmean.get(),
                             drstd.get());
  }
  expect_near(dmean.read(), mean, 20, what + " mean");
  expect_near(drstd.read(), rstd, 20, what + " rstd");
  expect_near(dout.read(), y, 30, what);
  const OnDevice same_mean(mean), same_rstd(rstd);
  Data gx(t, n), gw(t, channels), gb(t, channels);
  for (const int outs : {7, 1, 6, 2}) {
    const OnDevice dgx(gx), dgw(gw), dgb(gb);
    void *const ox = outs & 1 ? gx.get() : nullptr, *const ow = outs & 2 ? gw.get() : nullptr,
                *const ob = outs & 4 ? gb.get() : nullptr;
    void *const dox = outs & 1 ? dgx.get() : nullptr, *const dow = outs & 2 ? dgw.get() : nullptr,
                *const dob = outs & 4 ? dgb.get() : nullptr;
    if (layer) {
      cpu::layer_norm_backward(t, batch, channels, dy.get(), x.get(), mean.get(), rstd.get(), pw, ox, ow, ob);
      cuda::layer_norm_backward(t, batch, channels, ddy.get(), dx.get(), same_mean.get(), same_rstd.get(), pdw, dox,
                                dow, dob);
    } else {
      cpu::group_norm_backward(t, batch, channels, inner, groups, dy.get(), x.get(), mean.get(), rstd.get(), pw, ox, ow,
                               ob);
      cuda::group_norm_backward(t, batch, channels, inner, groups, ddy.get(), dx.get(), same_mean.get(),
                                same_rstd.get(), pdw, dox, dow, dob);
    }
    expect_near(dgx.read(), gx, slack(n), what + " gradient");
    expect_near(dgw.read(), gw, slack(n), what + " gradient of the weight");
    expect_near(dgb.read(), gb, slack(n), what + " gradient of the bias");
  }
}
TEST_P(NormTest, Layer) {
  for (const bool params : {true, false})
    for (const auto& s : {GroupCase{5, 7, 1, 1},
                          {3, 64, 1, 1},
                          {9, 100, 1, 1},
                          {2, 768, 1, 1},
                          {3, 1030, 1, 1},
                          {2, 5000, 1, 1},
                          {1, 8192, 1, 1},
                          {2, 8193, 1, 1},
                          {1, 1, 1, 1},
                          {2, 16384, 1, 1},
                          {2, 20000, 1, 1},
                          {2, 16385, 1, 1}})
      check_group_norm(GetParam(), s, true, params);
}
TEST_P(NormTest, Group) {
  for (const bool params : {true, false})
    for (const auto& s : {GroupCase{2, 6, 49, 3},
                          {3, 4, 16, 2},
                          {2, 8, 1, 4},
                          {2, 8, 1, 1},
                          {2, 6, 5, 6},
                          {1, 4, 2000, 2},
                          {17, 6, 36, 2},
                          {1, 1, 1, 1}})
      check_group_norm(GetParam(), s, false, params);
}
TEST_P(NormTest, NoRows) {
  const DType t = GetParam();
  Data w = random_data(t, 8, 1), gw(t, 8, 0x11), gb(t, 8, 0x11);
  const OnDevice dw(w), dgw(gw), dgb(gb);
  cuda::layer_norm_forward(t, 0, 8, 1e-5, nullptr, dw.get(), dw.get(), nullptr, nullptr, nullptr);
  cuda::layer_norm_backward(t, 0, 8, nullptr, nullptr, nullptr, nullptr, dw.get(), nullptr, dgw.get(), dgb.get());
  cuda::group_norm_forward(t, 0, 8, 3, 2, 1e-5, nullptr, dw.get(), dw.get(), nullptr, nullptr, nullptr);
  expect_near(dgw.read(), Data(t, 8), 0, "no rows");
  expect_near(dgb.read(), Data(t, 8), 0, "no rows");
}
TEST_P(NormTest, EmptyRows) {
  const DType t = GetParam();
  check_group_norm(t, {2, 0, 1, 1}, true, true);
  Data group_mean(stat_type(t), 4), group_rstd(stat_type(t), 4);
  const OnDevice dgroup_mean(group_mean), dgroup_rstd(group_rstd);
  cpu::group_norm_forward(t, 2, 4, 0, 2, 1e-5, nullptr, nullptr, nullptr, nullptr, group_mean.get(), group_rstd.get());
  cuda::group_norm_forward(t, 2, 4, 0, 2, 1e-5, nullptr, nullptr, nullptr, nullptr, dgroup_mean.get(),
                           dgroup_rstd.get());
  expect_near(dgroup_mean.read(), group_mean, 0, "mean of nothing");
  Data mean(DType::kFloat64, 3), var(DType::kFloat64, 3);
  const OnDevice dmean(mean), dvar(var);
  for (const auto& s : {BatchCase{0, 3, 4}, {2, 3, 0}}) {
    cpu::batch_norm_stats(t, s.batch, s.channels, s.inner, nullptr, static_cast<double*>(mean.get()),
                          static_cast<double*>(var.get()));
    cuda::batch_norm_stats(t, s.batch, s.channels, s.inner, nullptr, static_cast<double*>(dmean.get()),
                           static_cast<double*>(dvar.get()));
    expect_near(dmean.read(), mean, 0, "mean of nothing");
    expect_near(dvar.read(), var, 0, "variance of nothing");
  }
}
TEST_P(NormTest, UnalignedPointers) {
  const DType t = GetParam(), st = stat_type(t);
  Data x = random_data(t, 3 * 64 + 1, 1), y(t, 3 * 64 + 1), mean(st, 3), rstd(st, 3);
  const OnDevice dx(x), dy(y), dmean(mean), drstd(rstd);
  cpu::layer_norm_forward(t, 3, 64, 1e-5, x.at(1), nullptr, nullptr, y.at(1), mean.get(), rstd.get());
  cuda::layer_norm_forward(t, 3, 64, 1e-5, dx.at(1), nullptr, nullptr, dy.at(1), dmean.get(), drstd.get());
  expect_near(dy.read(), y, 30, "layer norm");
  cpu::group_norm_forward(t, 1, 3, 64, 3, 1e-5, x.at(1), nullptr, nullptr, y.at(1), mean.get(), rstd.get());
  cuda::group_norm_forward(t, 1, 3, 64, 3, 1e-5, dx.at(1), nullptr, nullptr, dy.at(1), dmean.get(), drstd.get());
  expect_near(dy.read(), y, 30, "group norm");
}
INSTANTIATE_TEST_SUITE_P(Types, NormTest, ::testing::ValuesIn(testing::kFloatTypes),
                         [](const auto& info) { return std::string(name_of(info.param)); });

TEST(Norm, SpecialValues) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const double values[3][4] = {{INFINITY, 1, 2, 3}, {1, INFINITY, -INFINITY, 3}, {5, 5, 5, NAN}};
  Data x(DType::kFloat32, 12), mean(DType::kFloat64, 3), var(DType::kFloat64, 3);
  for (int64_t i = 0; i < 12; ++i) x.set(i, values[i / 4][i % 4]);
  const OnDevice dx(x), dmean(mean), dvar(var);
  cpu::batch_norm_stats(DType::kFloat32, 1, 3, 4, x.get(), static_cast<double*>(mean.get()),
                        static_cast<double*>(var.get()));
  cuda::batch_norm_stats(DType::kFloat32, 1, 3, 4, dx.get(), static_cast<double*>(dmean.get()),
                         static_cast<double*>(dvar.get()));
  expect_near(dmean.read(), mean, 4, "mean");
  expect_near(dvar.read(), var, 4, "variance");
}
TEST(Norm, ConstantsHaveNoVariance) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  Data x(DType::kFloat32, 5000), mean(DType::kFloat64, 2), var(DType::kFloat64, 2);
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, 12345.678);
  const OnDevice dx(x), dmean(mean), dvar(var);
  cuda::batch_norm_stats(DType::kFloat32, 25, 2, 100, dx.get(), static_cast<double*>(dmean.get()),
                         static_cast<double*>(dvar.get()));
  expect_near(dvar.read(), var, 0, "variance");
}
TEST(Norm, Errors) {
  if (device_count() == 0) GTEST_SKIP() << "no CUDA device";
  EXPECT_THROW(
      cuda::layer_norm_forward(DType::kInt32, 1, 1, 1e-5, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr),
      NotImplementedError);
  EXPECT_THROW(cuda::batch_norm_stats(DType::kComplex64, 1, 1, 1, nullptr, nullptr, nullptr), NotImplementedError);
}

}  // namespace
}  // namespace tessera::cuda
