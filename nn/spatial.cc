#include "nn/spatial.h"

namespace tessera::kernels {

IntVector per_dimension(IntList values, int64_t n, const char* op, const char* what) {
  static constexpr const char* kNumbers[] = {"zero", "one", "two", "three"};
  TESSERA_CHECK(values.size() == 1 || static_cast<int64_t>(values.size()) == n, op, ": ", what,
                " must either be a single int, or a tuple of ", kNumbers[n], " ints, but got ", shape_string(values));
  return values.size() == 1 ? IntVector(static_cast<size_t>(n), values[0]) : to_vector(values);
}

void fill_dims(IntList values, int64_t fill, int64_t (&out)[3]) {
  const size_t missing = 3 - values.size();
  for (size_t i = 0; i < 3; ++i) out[i] = i < missing ? fill : values[i - missing];
}

IntVector strides_of_format(const Tensor& t, IntList sizes) {
  if (static_cast<int64_t>(sizes.size()) != t.dim() || sizes.size() < 4) return {};
  const MemoryFormat f = t.suggest_memory_format();
  return f == MemoryFormat::kChannelsLast || f == MemoryFormat::kChannelsLast3d ? channels_last_strides(sizes)
                                                                                : IntVector();
}

void check_extents(IntList values, const char* op, const char* what) {
  constexpr int64_t kLargest = int64_t{1} << 31;  // products of two stay below 2^62
  for (int64_t v : values)
    TESSERA_CHECK(v <= kLargest, op, ": ", what, " must be at most ", kLargest, ", but got ", shape_string(values));
}

std::string times_string(IntList sizes) {
  std::string s = "(";
  for (size_t i = 0; i < sizes.size(); ++i) s += (i ? "x" : "") + std::to_string(sizes[i]);
  return s + ")";
}

void same_dtype(const Tensor& a, const Tensor& b, const char* op) {
  TESSERA_CHECK(a.dtype() == b.dtype(), op, ": expected tensors of one dtype, but got ", name_of(a.dtype()), " and ",
                name_of(b.dtype()));
}

}  // namespace tessera::kernels
