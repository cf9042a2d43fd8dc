// Sorting along a dimension: stable radix sort of (key, position) pairs, counting of smaller elements for short lines.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/core/error.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/reduce.h"
#include "tensor/cpu/scratch.h"
#include "tensor/cpu/sort_keys.h"
#include "tensor/cpu/strided_nest.h"

namespace tessera::cpu {
namespace {

// A key with its position. Narrow: the position stands in the low half of one word, so that plain comparison is already stable.
struct Narrow {
  using Key = uint32_t;
  uint64_t word;
  static Narrow make(uint64_t key, int64_t index) { return {key << 32 | static_cast<uint64_t>(index)}; }
  uint64_t key() const { return word >> 32; }
  int64_t index() const { return static_cast<int64_t>(word & 0xffffffffu); }
  bool operator<(const Narrow& o) const { return word < o.word; }
};
struct Wide {
  using Key = uint64_t;
  uint64_t bits;
  int64_t at;
  static Wide make(uint64_t key, int64_t index) { return {key, index}; }
  uint64_t key() const { return bits; }
  int64_t index() const { return at; }
  bool operator<(const Wide& o) const { return (bits < o.bits) | ((bits == o.bits) & (at < o.at)); }
};

constexpr int64_t kRank = 40;           // up to here each pair is compared with each
constexpr int64_t kWideDigits = 20000;  // from here digits of 11 bits pay for their larger tables

// The place of each pair is the number of smaller ones; no branches depend on the data.
template <class P>
void rank_sort(const P* a, P* b, int64_t n) {
  uint32_t rank[kRank] = {};
  for (int64_t i = 1; i < n; ++i) {
    const P x = a[i];
    uint32_t below = 0;
    for (int64_t j = 0; j < i; ++j) {
      const uint32_t less = a[j] < x;
      below += less;
      rank[j] += 1 - less;
    }
    rank[i] += below;
  }
  for (int64_t i = 0; i < n; ++i) b[rank[i]] = a[i];
}

// Least significant digit first; digits that all keys share are skipped. The sorted pairs end in a or b: which one is returned.
template <int kBits, class P>
P* radix_sort(P* a, P* b, int64_t n, int key_bits) {
  constexpr int kBuckets = 1 << kBits;
  constexpr int kMaxDigits = (64 + kBits - 1) / kBits;
  const int digits = (key_bits + kBits - 1) / kBits;
  using Count = std::conditional_t<std::is_same_v<P, Narrow>, uint32_t, int64_t>;
  const internal::ScratchArray<Count> counts(int64_t{kMaxDigits} * kBuckets);
  std::memset(counts.get(), 0, sizeof(Count) * digits * kBuckets);
  for (int64_t i = 0; i < n; ++i) {
    uint64_t k = a[i].key();
    for (int d = 0; d < digits; ++d, k >>= kBits) ++counts[int64_t{d} * kBuckets + static_cast<int64_t>(k & (kBuckets - 1))];
  }
  for (int d = 0; d < digits; ++d) {
    Count* count = counts.get() + int64_t{d} * kBuckets;
    const int shift = d * kBits;
    if (static_cast<int64_t>(count[a[0].key() >> shift & (kBuckets - 1)]) == n) continue;
    Count start = 0;
    for (int i = 0; i < kBuckets; ++i) {
      const Count c = count[i];
      count[i] = start;
      start += c;
    }
    for (int64_t i = 0; i < n; ++i) b[count[a[i].key() >> shift & (kBuckets - 1)]++] = a[i];
    std::swap(a, b);
  }
  return a;
}

template <class P>
P* sort_pairs(P* a, P* b, int64_t n, int key_bits) {
  if (n <= kRank) {
    rank_sort(a, b, n);
    return b;
  }
  return n >= kWideDigits && key_bits > 8 ? radix_sort<11>(a, b, n, key_bits) : radix_sort<8>(a, b, n, key_bits);
}

// Values and positions of `count` sorted pairs.
template <class T, class P>
void write_pairs(const P* p, int64_t count, bool descending, const T* x, T* values, int64_t* indices) {
  using K = SortKey<T>;
  using Key = typename K::Key;
  for (int64_t i = 0; i < count; ++i) {
    const Key k = static_cast<Key>(descending ? ~p[i].key() : p[i].key());
    if (values) values[i] = K::is_ambiguous(k) ? x[p[i].index()] : K::value(k);
    if (indices) indices[i] = p[i].index();
  }
}

template <class T, class P>
void fill_pairs(P* p, const T* x, int64_t n, bool descending) {
  using Key = typename SortKey<T>::Key;
  const Key flip = descending ? static_cast<Key>(~Key{0}) : Key{0};
  for (int64_t i = 0; i < n; ++i) p[i] = P::make(static_cast<Key>(SortKey<T>::key(x[i]) ^ flip), i);
}

template <class T, class P>
void sort_lines(const Lines& lines, int64_t n, bool descending) {
  const internal::ScratchArray<P> storage(2 * n);
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    P* a = storage.get();
    fill_pairs<T>(a, x, n, descending);
    const P* sorted = sort_pairs(a, a + n, n, 8 * sizeof(T));
    write_pairs<T>(sorted, n, descending, x, lines.data[0] ? lines.row<T>(0, r) : nullptr, lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}

constexpr int64_t kSkip = 16;
// Is one of the next kSkip keys below the threshold? Written for the compiler to turn into vector code.
template <class T>
bool any_below(const T* x, typename SortKey<T>::Key flip, typename SortKey<T>::Key threshold) {
  using Key = typename SortKey<T>::Key;
  Key keys[kSkip];
  for (int64_t i = 0; i < kSkip; ++i) keys[i] = static_cast<Key>(SortKey<T>::key(x[i]) ^ flip);
  Key below = 0;
  for (int64_t i = 0; i < kSkip; ++i) below = static_cast<Key>(below | static_cast<Key>(keys[i] < threshold));
  return below != 0;
}

// The k pairs that come first, sorted: candidates below a threshold are collected, and the threshold sinks each time the buffer is full.
template <class T, class P>
void topk_line(const T* x, int64_t n, int64_t k, bool largest, P* buffer, T* values, int64_t* indices) {
  using Key = typename SortKey<T>::Key;
  const Key flip = largest ? static_cast<Key>(~Key{0}) : Key{0};
  const int64_t capacity = std::min(n, std::max<int64_t>(2 * k, 64));
  int64_t held = capacity;
  for (int64_t i = 0; i < held; ++i) buffer[i] = P::make(static_cast<Key>(SortKey<T>::key(x[i]) ^ flip), i);
  int64_t i = held;
  while (true) {
    if (held > k && k > 0) std::nth_element(buffer, buffer + (k - 1), buffer + held);
    held = std::min(held, k);
    if (i >= n || k == 0) break;
    const Key threshold = static_cast<Key>(buffer[k - 1].key());
    // Later elements come after equal ones that are held: only strictly smaller keys enter.
    while (i < n && held < capacity) {
      const bool many = i + kSkip <= n && held + kSkip <= capacity;
      const int64_t end = many ? i + kSkip : i + 1;
      if (many && !any_below<T>(x + i, flip, threshold)) {  // mostly
        i = end;
        continue;
      }
      for (; i < end; ++i) {
        const Key key = static_cast<Key>(SortKey<T>::key(x[i]) ^ flip);
        if (key < threshold) buffer[held++] = P::make(key, i);
      }
    }
  }
  std::sort(buffer, buffer + held);
  write_pairs<T>(buffer, held, largest, x, values, indices);
}

template <class T, class P>
void topk_lines(const Lines& lines, int64_t n, int64_t k, bool largest) {
  const internal::ScratchArray<P> storage(2 * n);
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    T* values = lines.data[0] ? lines.row<T>(0, r) : nullptr;
    int64_t* indices = lines.data[1] ? lines.row<int64_t>(1, r) : nullptr;
    if (n <= kRank || (k > n / 4 && n > 256)) {  // short, or a large part: sort it all
      fill_pairs<T>(storage.get(), x, n, largest);
      write_pairs<T>(sort_pairs(storage.get(), storage.get() + n, n, 8 * sizeof(T)), k, largest, x, values, indices);
    } else {
      topk_line<T, P>(x, n, k, largest, storage.get(), values, indices);
    }
  }
}

using SortFn = void (*)(const Lines&, int64_t n, bool descending);
using TopkFn = void (*)(const Lines&, int64_t n, int64_t k, bool largest);
struct SortFns { SortFn sort; TopkFn topk; };

// wide: lines too long for positions of 32 bits.
SortFns choose(DType t, bool wide) {
#define TESSERA_NARROW(D, T) \
  case DType::D: return wide ? SortFns{sort_lines<T, Wide>, topk_lines<T, Wide>} : SortFns{sort_lines<T, Narrow>, topk_lines<T, Narrow>};
#define TESSERA_WIDE(D, T) \
  case DType::D: return {sort_lines<T, Wide>, topk_lines<T, Wide>};
  switch (t) {
    case DType::kBool:
    TESSERA_NARROW(kUInt8, uint8_t)
    TESSERA_NARROW(kInt8, int8_t)
    TESSERA_NARROW(kInt16, int16_t)
    TESSERA_NARROW(kUInt16, uint16_t)
    TESSERA_NARROW(kInt32, int32_t)
    TESSERA_NARROW(kUInt32, uint32_t)
    TESSERA_NARROW(kFloat16, Half)
    TESSERA_NARROW(kBFloat16, BFloat16)
    TESSERA_NARROW(kFloat32, float)
    TESSERA_WIDE(kInt64, int64_t)
    TESSERA_WIDE(kUInt64, uint64_t)
    TESSERA_WIDE(kFloat64, double)
    default: return {};
  }
#undef TESSERA_NARROW
#undef TESSERA_WIDE
}

}  // namespace

void run_sort(std::span<const int64_t> shape, int dim, bool descending, const Operand& values, const Operand& indices, const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " Sort does not support complex dtypes on CPU");
  const SortFns fns = choose(in.dtype, n > INT64_C(0xffffffff));
  TESSERA_CHECK_NOT_IMPLEMENTED(fns.sort != nullptr, "\"sorting_kernel_method_name\" not implemented for '", type_name_of(in.dtype), "'");
  if (n == 0) return;
  const LineOperand operands[3] = {{values, in.dtype, n, true}, {indices, DType::kInt64, n, true}, {in, in.dtype, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) { fns.sort(lines, n, descending); });
}

void run_topk(std::span<const int64_t> shape, int dim, int64_t k, bool largest, bool, const Operand& values, const Operand& indices, const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK(k >= 0 && k <= n, "selected index k out of range");
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " topk does not support complex dtypes on CPU");
  const SortFns fns = choose(in.dtype, n > INT64_C(0xffffffff));
  TESSERA_CHECK_NOT_IMPLEMENTED(fns.topk != nullptr, "\"topk_cpu\" not implemented for '", type_name_of(in.dtype), "'");
  if (k == 0) return;
  const LineOperand operands[3] = {{values, in.dtype, k, true}, {indices, DType::kInt64, k, true}, {in, in.dtype, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) { fns.topk(lines, n, k, largest); });
}

}  // namespace tessera::cpu
