// Elements of any dtype as unsigned keys in the order of the public API: NaN above all (all NaN equal), -0 equal to 0.
// The rule is chosen at run time, so that one kernel serves all dtypes of a size.
#pragma once

#include <cstdint>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/cuda/runtime/launch.h"

namespace tessera::cuda {

__device__ inline uint64_t load_bits(const char* p, int size) {
  switch (size) {
    case 1:
      return *reinterpret_cast<const uint8_t*>(p);
    case 2:
      return *reinterpret_cast<const uint16_t*>(p);
    case 4:
      return *reinterpret_cast<const uint32_t*>(p);
    default:
      return *reinterpret_cast<const uint64_t*>(p);
  }
}
__device__ inline void store_bits(char* p, int size, uint64_t bits) {
  switch (size) {
    case 1:
      *reinterpret_cast<uint8_t*>(p) = static_cast<uint8_t>(bits);
      break;
    case 2:
      *reinterpret_cast<uint16_t*>(p) = static_cast<uint16_t>(bits);
      break;
    case 4:
      *reinterpret_cast<uint32_t*>(p) = static_cast<uint32_t>(bits);
      break;
    default:
      *reinterpret_cast<uint64_t*>(p) = bits;
  }
}

struct KeyRule {
  int size;           // bytes of an element
  uint64_t all;       // its bits
  uint64_t sign;      // of signed integers and floats
  uint64_t infinity;  // bits of +inf; 0: integers
  uint64_t flip;      // descending: all bits, else none

  int bits() const { return 8 * size; }
  __device__ uint64_t key(uint64_t x) const {
    uint64_t k;
    if (infinity == 0) {
      k = x ^ sign;
    } else {
      const uint64_t magnitude = x & ~sign;
      if (magnitude > infinity)
        k = all;
      else if (magnitude == 0)
        k = sign;
      else
        k = x & sign ? ~x & all : x | sign;
    }
    return k ^ flip;
  }
  // The element's bits, but for NaN and zeros, which have several: those are at `element`.
  __device__ uint64_t element_bits(uint64_t key, const char* element) const {
    const uint64_t k = key ^ flip;
    if (infinity == 0) return k ^ sign;
    if (k == sign || k == all) return load_bits(element, size);
    return k & sign ? k & ~sign : ~k & all;
  }
};

inline KeyRule key_rule(DType t, bool descending, const char* name) {
  const int size = static_cast<int>(item_size(t));
  const uint64_t all = ~uint64_t{0} >> (64 - 8 * size);
  KeyRule r{size, all, 0, 0, descending ? all : 0};
  switch (t) {
    case DType::kBool:
    case DType::kUInt8:
    case DType::kUInt16:
    case DType::kUInt32:
    case DType::kUInt64:
      return r;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      break;
    case DType::kFloat16:
      r.infinity = 0x7c00;
      break;
    case DType::kBFloat16:
      r.infinity = 0x7f80;
      break;
    case DType::kFloat32:
      r.infinity = 0x7f800000u;
      break;
    case DType::kFloat64:
      r.infinity = uint64_t{0x7ff0} << 48;
      break;
    default:
      tessera::internal::raise<NotImplementedError>("\"", name, "\" not implemented for '", type_name_of(t), "'");
  }
  r.sign = uint64_t{1} << (8 * size - 1);
  return r;
}

}  // namespace tessera::cuda
