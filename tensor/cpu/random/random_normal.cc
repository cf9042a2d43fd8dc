// Normal numbers by the method of G. Box and M. Muller, "A note on the generation of random normal deviates", Ann.
// Math. Statist. 29 (1958).
#include <cmath>

#include "tensor/core/parallel.h"
#include "tensor/cpu/random/random.h"
#include "tensor/cpu/random/random_box_muller.h"
#include "tensor/cpu/random/random_draw.h"
#include "tensor/cpu/random/random_transform.h"
#include "tensor/cpu/random/random_walk.h"

namespace tessera::cpu {

using namespace random_internal;

namespace {

constexpr int64_t kBlock = 16;

// Uniform numbers become normal ones in blocks of 16: numbers j and j + 8 are a pair.
void transform_blocks(float* data, int64_t blocks, double mean, double std) {
  box_muller_blocks(data, blocks, static_cast<float>(mean), static_cast<float>(std));
}

void transform_blocks(double* data, int64_t blocks, double mean, double std) {
  box_muller_blocks(data, blocks, mean, std);
}

// For float16 and bfloat16, where every operation is rounded to the dtype and there are few different uniform numbers:
// all their radii, cosines and sines.
template <class T>
struct Tables {
  static constexpr int kSize = std::is_same_v<T, Half> ? 1 << 11 : 1 << 8;
  static float round(float x) { return T(x); }

  Tables() {
    for (int i = 0; i < kSize; ++i) {
      const float u = static_cast<float>(i) / kSize;
      radius[i] = round(std::sqrt(round(-2 * round(std::log(round(1 - u))))));
      const float theta = round(static_cast<float>(2 * M_PI * static_cast<double>(u)));
      cosine[i] = round(std::cos(theta));
      sine[i] = round(std::sin(theta));
    }
  }
  float radius[kSize], cosine[kSize], sine[kSize];
};

template <class T>
requires(is_reduced_float(DTypeOf<T>::value)) void transform_blocks(T* data, int64_t blocks, double mean, double std) {
  static const Tables<T> tables;
  const auto round = Tables<T>::round;
  const float m = round(static_cast<float>(mean)), s = round(static_cast<float>(std));
  for (int64_t b = 0; b < blocks; ++b, data += kBlock) {
    for (int j = 0; j < kBlock / 2; ++j) {
      const float radius = tables.radius[static_cast<int>(static_cast<float>(data[j]) * Tables<T>::kSize)];
      const int angle = static_cast<int>(static_cast<float>(data[j + 8]) * Tables<T>::kSize);
      data[j] = T(round(round(radius * tables.cosine[angle]) * s) + m);
      data[j + 8] = T(round(round(radius * tables.sine[angle]) * s) + m);
    }
  }
}

template <class T>
void draw_uniform(CpuGeneratorImpl& g, T* data, int64_t n) {
  for (int64_t i = 0; i < n; i += kChunk) {
    const int64_t m = std::min(kChunk, n - i);
    if constexpr (std::is_same_v<T, double>) {
      draw_doubles(g, data + i, m);
    } else if constexpr (std::is_same_v<T, float>) {
      draw_floats(g, 24, data + i, m);
    } else {
      float buffer[kChunk];
      draw_floats(g, digits_of(DTypeOf<T>::value), buffer, m);
      for (int64_t j = 0; j < m; ++j) data[i + j] = T(buffer[j]);
    }
  }
}

// n >= 16. The last 16 elements are drawn anew when n is no multiple of 16. Pieces are transformed while they are in
// the cache.
template <class T>
void fill_contiguous(CpuGeneratorImpl& g, T* data, int64_t n, double mean, double std) {
  constexpr int64_t kPiece = int64_t{1} << 16;
  for (int64_t i = 0; i < n; i += kPiece) {
    const int64_t m = std::min(kPiece, n - i);
    draw_uniform(g, data + i, m);
    parallel_for(m / kBlock, 256, [&](int64_t begin, int64_t end) {
      transform_blocks(data + i + begin * kBlock, end - begin, mean, std);
    });
  }
  if (n % kBlock == 0) return;
  data += n - kBlock;
  draw_uniform(g, data, kBlock);
  transform_blocks(data, 1, mean, std);
}

}  // namespace

void random_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen) {
  check_floating("normal_kernel_cpu", out.dtype);
  TESSERA_CHECK(std >= 0.0, "normal expects std >= 0.0, but found std ", std);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  if (n < kBlock || !is_contiguous(shape, out)) {
    emit<double>(shape, out, [&](double* v, int64_t m) {
      for (int64_t i = 0; i < m; ++i) v[i] = std::fma(draw_normal(g), std, mean);
    });
    return;
  }
  switch (out.dtype) {
    case DType::kFloat16:
      return fill_contiguous(g, static_cast<Half*>(out.data), n, mean, std);
    case DType::kBFloat16:
      return fill_contiguous(g, static_cast<BFloat16*>(out.data), n, mean, std);
    case DType::kFloat32:
      return fill_contiguous(g, static_cast<float*>(out.data), n, mean, std);
    default:
      return fill_contiguous(g, static_cast<double*>(out.data), n, mean, std);
  }
}

void random_log_normal(Shape shape, const Operand& out, double mean, double std, const Generator& gen) {
  check_floating("log_normal_cpu", out.dtype);
  TESSERA_CHECK(std > 0.0, "log_normal_ expects std > 0.0, but found std=", std);
  CpuGeneratorImpl& g = cpu_generator_or_default(gen);
  std::lock_guard lock(g.mutex());
  emit<double>(shape, out, [&](double* v, int64_t m) {
    for (int64_t i = 0; i < m; ++i) v[i] = std::exp(std::fma(draw_normal(g), std, mean));
  });
}

}  // namespace tessera::cpu
