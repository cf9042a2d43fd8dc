// cuFFT's plans of each device, kept for the transforms that were used last.
#pragma once

#include <compare>
#include <cstdint>

#include "fft/cpu/fft.h"

namespace tessera::cuda {

// `count` transforms of n numbers each; strides (from number to number) and distances (from transform to transform) in
// elements of the type that is read, written; all at least 1.
struct FftPlanKey {
  cpu::FftKind kind;
  bool single;  // float32, else float64
  int64_t n, count, in_stride, in_distance, out_stride, out_distance;
  auto operator<=>(const FftPlanKey&) const = default;
};

// Runs the plan of that key on op_device() and its current stream; makes it, if it is not kept. `in` may be spoilt by
// kHalfToReal. Both are aligned like complex numbers.
void execute_fft(const FftPlanKey& key, bool forward, void* in, void* out);

// torch.backends.cuda.cufft_plan_cache: how many plans of a device are kept, and how many are at most (4096 until it is
// set; those used longest ago go first). Error: no such device; a negative number.
int64_t fft_plan_count(int device);
int64_t fft_plan_limit(int device);
void set_fft_plan_limit(int device, int64_t limit);
void clear_fft_plans(int device);

}  // namespace tessera::cuda
