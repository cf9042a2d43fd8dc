// Speed of the matrix product: gemm_bench [--benchmark_filter=...]. Rates are in floating-point operations a second (2
// m n k a product). OMP_NUM_THREADS sets the number of threads, TESSERA_SIMD the instruction set.
#include <complex>
#include <random>
#include <vector>

#include "benchmark/benchmark.h"
#include "tensor/core/half.h"
#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu {
namespace {

KernelParam param(DType t, double re) {
  KernelParam p;
  if (is_complex(t)) {
    p.c[0] = re;
    p.c[1] = 0;
  } else if (is_floating_point(t))
    p.f = re;
  else
    p.i = static_cast<int64_t>(re);
  return p;
}

// m, n, k, whether B is given as its transpose (a linear layer's weight).
template <class T>
void gemm_bench(benchmark::State& state) {
  const DType dtype = DTypeOf<T>::value;
  const int64_t m = state.range(0), n = state.range(1), k = state.range(2);
  std::mt19937 rng(1);
  std::vector<T> a(m * k), b(k * n), c(m * n);
  for (auto& x : a) x = static_cast<T>(static_cast<float>(rng() % 9));
  for (auto& x : b) x = static_cast<T>(static_cast<float>(rng() % 9));
  const MatrixRef br = state.range(3) ? MatrixRef{b.data(), 1, k} : MatrixRef{b.data(), n, 1};
  for (auto _ : state) {
    gemm(dtype, m, n, k, param(dtype, 1), {a.data(), k, 1}, br, param(dtype, 0), {c.data(), n, 1});
    benchmark::DoNotOptimize(c.data());
  }
  state.counters["rate"] = benchmark::Counter(
      2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) * (is_complex(dtype) ? 4 : 1),
      benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n", "k", "bt"});
  for (int64_t s : {4, 16, 32, 64, 128, 256, 512, 1024, 2048}) b->Args({s, s, s, 0});
  b->Args({1024, 1024, 1024, 1});
  b->Args({128, 256, 784, 1})
      ->Args({64, 10, 256, 1})
      ->Args({1, 1024, 1024, 0})
      ->Args({1, 1024, 1024, 1})
      ->Args({1024, 1, 1024, 0})
      ->Args({8, 1024, 1024, 1});
  b->Args({8, 1024, 1024, 0})
      ->Args({10, 64, 20000, 0})
      ->Args({20000, 10, 64, 1})
      ->Args({64, 196, 576, 0})
      ->Args({16, 784, 27, 0});
}
BENCHMARK_TEMPLATE(gemm_bench, float)->Apply(shapes);
BENCHMARK_TEMPLATE(gemm_bench, double)->Apply(shapes);
void few_shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"m", "n", "k", "bt"});
  b->Args({16, 16, 16, 0})->Args({512, 512, 512, 0})->Args({512, 512, 512, 1});
}
BENCHMARK_TEMPLATE(gemm_bench, Half)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, BFloat16)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, std::complex<float>)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, std::complex<double>)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, int8_t)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, int32_t)->Apply(few_shapes);
BENCHMARK_TEMPLATE(gemm_bench, int64_t)->Apply(few_shapes);

}  // namespace
}  // namespace tessera::cpu
