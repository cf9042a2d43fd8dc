// Numbers that convolutions compute with as float32, wherever they lie as float32 or as reduced floats: these are
// widened as pieces of them are read, and results are rounded as they are written.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"

namespace tessera::cpu::internal {

class Numbers {
 public:
  Numbers() = default;
  Numbers(const float* at) : Numbers(DType::kFloat32, at) {}  // NOLINT: a float* is such numbers
  // float32, float16 or bfloat16.
  Numbers(DType dtype, const void* at) : at_(static_cast<char*>(const_cast<void*>(at))), dtype_(dtype) {}

  explicit operator bool() const { return at_ != nullptr; }
  bool is_float() const { return dtype_ == DType::kFloat32; }
  // Only where is_float().
  float* floats() const { return reinterpret_cast<float*>(at_); }
  // The element n places further on.
  Numbers operator+(int64_t n) const { return {dtype_, at_ + n * item()}; }
  int64_t item() const { return is_float() ? 4 : 2; }
  const char* address() const { return at_; }

  // to[0, n) = these n
  void read(int64_t n, float* to) const;
  // These n = from[0, n), rounded.
  void write(int64_t n, const float* from) const;
  float get(int64_t i) const;
  void put(int64_t i, float v) const;

 private:
  uint16_t* bits() const { return reinterpret_cast<uint16_t*>(at_); }

  char* at_ = nullptr;
  DType dtype_ = DType::kFloat32;
};

}  // namespace tessera::cpu::internal
