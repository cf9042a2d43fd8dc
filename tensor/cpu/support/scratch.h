// Temporary memory of kernels: 64-byte aligned, kept per thread between calls, so that a kernel does not pay for fresh
// pages each time.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cpu::internal {

// Uninitialised memory for the lifetime of the object. Blocks may nest. Throws OutOfMemoryError. Use it on the thread
// that made it.
class Scratch {
 public:
  explicit Scratch(size_t bytes);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  void* data() const { return data_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  size_t capacity_;
};

// count elements of T; a count that overflows is an OutOfMemoryError.
template <class T>
class ScratchArray : public Scratch {
 public:
  explicit ScratchArray(int64_t count) : Scratch(bytes_of(count)) {}
  T* get() const { return as<T>(); }
  T& operator[](int64_t i) const { return get()[i]; }

 private:
  static size_t bytes_of(int64_t count) {
    size_t bytes;
    return count < 0 || __builtin_mul_overflow(static_cast<size_t>(count), sizeof(T), &bytes) ? SIZE_MAX : bytes;
  }
};

}  // namespace tessera::cpu::internal
