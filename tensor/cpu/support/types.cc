#include "tensor/cpu/support/types.h"

#include "tensor/core/error.h"

namespace tessera::cpu::internal {
namespace {

// How messages of the documented API spell dtypes; in the order of DType.
constexpr const char* kScalarTypes[kNumDTypes] = {"Bool",
                                                  "Byte",
                                                  "Char",
                                                  "Short",
                                                  "Int",
                                                  "Long",
                                                  "UInt16",
                                                  "UInt32",
                                                  "UInt64",
                                                  "Half",
                                                  "BFloat16",
                                                  "Float",
                                                  "Double",
                                                  "ComplexHalf",
                                                  "ComplexFloat",
                                                  "ComplexDouble",
                                                  "Float8_e4m3fn",
                                                  "Float8_e5m2",
                                                  "Float8_e4m3fnuz",
                                                  "Float8_e5m2fnuz",
                                                  "Float8_e8m0fnu",
                                                  "QUInt8",
                                                  "QInt8",
                                                  "QInt32",
                                                  "QUInt4x2",
                                                  "QUInt2x4",
                                                  "Bits1x8",
                                                  "Bits2x4",
                                                  "Bits4x2",
                                                  "Bits8",
                                                  "Bits16",
                                                  "Float4_e2m1fn_x2",
                                                  "UInt1",
                                                  "UInt2",
                                                  "UInt3",
                                                  "UInt4",
                                                  "UInt5",
                                                  "UInt6",
                                                  "UInt7",
                                                  "Int1",
                                                  "Int2",
                                                  "Int3",
                                                  "Int4",
                                                  "Int5",
                                                  "Int6",
                                                  "Int7"};

}  // namespace

void raise_not_implemented(const char* name, DType t) {
  throw NotImplementedError(str_cat('"', name, "\" not implemented for '", kScalarTypes[static_cast<int>(t)], "'"));
}

}  // namespace tessera::cpu::internal
