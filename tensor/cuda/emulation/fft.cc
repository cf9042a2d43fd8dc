#include <cmath>
#include <complex>
#include <cstdint>
#include <map>
#include <numbers>
#include <vector>

#include "tensor/cuda/emulation/device.h"
#include "tensor/cuda/emulation/libraries.h"

namespace tessera::cuda::emulation {
namespace {

struct Side {
  cudaDataType type;
  long long stride, distance;
};
struct Plan {
  long long n = 0, count = 0;
  Side from{}, to{};
  cudaStream_t stream = nullptr;
  void* work = nullptr;
  bool allocates = true;
};

bool is_complex(cudaDataType t) { return t == CUDA_C_32F || t == CUDA_C_64F; }
bool is_single(cudaDataType t) { return t == CUDA_R_32F || t == CUDA_C_32F; }
constexpr size_t kWorkBytes = 64;  // used, so that a missing work area is noticed

std::map<cufftHandle, Plan>& plans() {
  static auto& p = *new std::map<cufftHandle, Plan>;
  return p;
}
Plan* find(cufftHandle h) {
  const auto at = plans().find(h);
  return at == plans().end() ? nullptr : &at->second;
}

// By definition, in double. As cuFFT may, it spoils what complex numbers to real ones are made of.
template <class T>
void transform(const Plan& p, T* in, T* out, int direction) {
  using Z = std::complex<double>;
  const bool from_half = !is_complex(p.to.type), from_real = !is_complex(p.from.type);
  const long long n = p.n, known = from_half ? n / 2 + 1 : n,
                  wanted = is_complex(p.to.type) && from_real ? n / 2 + 1 : n;
  const double turn = (from_real ? -1 : from_half ? 1 : direction) * 2 * std::numbers::pi / static_cast<double>(n);
  std::vector<Z> x(static_cast<size_t>(n)), root(static_cast<size_t>(n));
  for (long long k = 0; k < n; ++k) root[k] = std::polar(1.0, turn * static_cast<double>(k));
  static_cast<char*>(p.work)[0] = 1;
  for (long long l = 0; l < p.count; ++l) {
    T* const line = in + l * p.from.distance * (from_real ? 1 : 2);
    T* const result = out + l * p.to.distance * (from_half ? 1 : 2);
    for (long long j = 0; j < known; ++j) {
      T* const at = line + j * p.from.stride * (from_real ? 1 : 2);
      x[j] = {static_cast<double>(at[0]), from_real ? 0.0 : static_cast<double>(at[1])};
      if (from_half) {
        if (j > 0) x[n - j] = std::conj(x[j]);
        at[0] = at[1] = T(-1e30);
      }
    }
    for (long long k = 0; k < wanted; ++k) {
      Z sum{};
      for (long long j = 0; j < n; ++j) sum += x[j] * root[j * k % n];
      T* const at = result + k * p.to.stride * (from_half ? 1 : 2);
      at[0] = static_cast<T>(sum.real());
      if (!from_half) at[1] = static_cast<T>(sum.imag());
    }
  }
}

cufftResult make_plan(cufftHandle h, int rank, long long* n, long long* in_sizes, long long in_stride,
                      long long in_distance, cudaDataType in, long long* out_sizes, long long out_stride,
                      long long out_distance, cudaDataType out, long long count, size_t* work, cudaDataType compute) {
  Plan* const p = find(h);
  if (!p) return CUFFT_INVALID_PLAN;
  if (rank != 1 || !in_sizes || !out_sizes || is_single(in) != is_single(out) ||
      compute != (is_single(in) ? CUDA_C_32F : CUDA_C_64F) || (!is_complex(in) && !is_complex(out)))
    return CUFFT_NOT_SUPPORTED;
  if (*n < 1 || count < 1 || in_stride < 1 || out_stride < 1 || in_distance < 1 || out_distance < 1)
    return CUFFT_INVALID_SIZE;
  p->n = *n;
  p->count = count;
  p->from = {in, in_stride, in_distance};
  p->to = {out, out_stride, out_distance};
  *work = kWorkBytes;
  return CUFFT_SUCCESS;
}

cufftResult exec(cufftHandle h, void* in, void* out, int direction) {
  const Plan* const p = find(h);
  if (!p || p->n == 0) return CUFFT_INVALID_PLAN;
  const size_t complex = is_single(p->from.type) ? 8 : 16;
  if (!p->work || p->allocates || reinterpret_cast<uintptr_t>(in) % complex ||
      reinterpret_cast<uintptr_t>(out) % complex)
    return CUFFT_INVALID_VALUE;
  // As a kernel of one thread: it may touch device memory, and is recorded while the stream is captured.
  const cudaError_t e = run(p->stream, dim3(1), dim3(1), 0, false, [plan = *p, in, out, direction] {
    if (is_single(plan.from.type))
      transform(plan, static_cast<float*>(in), static_cast<float*>(out), direction);
    else
      transform(plan, static_cast<double*>(in), static_cast<double*>(out), direction);
  });
  return e == cudaSuccess ? CUFFT_SUCCESS : CUFFT_EXEC_FAILED;
}

template <class F>
cufftResult change(cufftHandle h, F f) {
  Plan* const p = find(h);
  if (!p) return CUFFT_INVALID_PLAN;
  f(*p);
  return CUFFT_SUCCESS;
}

}  // namespace

Fft fft_functions() {
  Fft f;
  f.create = [](cufftHandle* h) {
    static cufftHandle last = 0;
    plans()[*h = ++last];
    return CUFFT_SUCCESS;
  };
  f.destroy = [](cufftHandle h) { return plans().erase(h) ? CUFFT_SUCCESS : CUFFT_INVALID_PLAN; };
  f.set_auto_allocation = [](cufftHandle h, int on) { return change(h, [&](Plan& p) { p.allocates = on != 0; }); };
  f.make_plan = make_plan;
  f.set_stream = [](cufftHandle h, cudaStream_t s) { return change(h, [&](Plan& p) { p.stream = s; }); };
  f.set_work_area = [](cufftHandle h, void* area) { return change(h, [&](Plan& p) { p.work = area; }); };
  f.exec = exec;
  return f;
}

}  // namespace tessera::cuda::emulation
