// Sorting and selecting along a dimension. Lines of usual length are sorted as words (sort_lines.cc); here are pairs of
// key and position, which serve lines too long for words and the first k of 64-bit numbers.
#include <algorithm>

#include "tensor/core/error.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/sort/sort.h"
#include "tensor/cpu/sort/sort_keys.h"
#include "tensor/cpu/sort/sort_lines.h"

namespace tessera::cpu {
namespace {

struct Pair {
  uint64_t key;
  int64_t at;
  bool operator<(const Pair& o) const { return (key < o.key) | ((key == o.key) & (at < o.at)); }
};

template <class T>
typename SortKey<T>::Key key_of(T x, bool descending) {
  using Key = typename SortKey<T>::Key;
  return static_cast<Key>(SortKey<T>::key(x) ^ (descending ? static_cast<Key>(~Key{0}) : Key{0}));
}

template <class T>
void write_pairs(const Pair* p, int64_t count, const T* x, T* values, int64_t* indices) {
  for (int64_t i = 0; i < count; ++i) {
    if (values) values[i] = x[p[i].at];
    if (indices) indices[i] = p[i].at;
  }
}

template <class T>
void fill_pairs(Pair* p, const T* x, int64_t n, bool descending) {
  for (int64_t i = 0; i < n; ++i) p[i] = {key_of<T>(x[i], descending), i};
}

template <class T>
void sort_long_lines(const Lines& lines, int64_t n, bool descending) {
  const internal::ScratchArray<Pair> pairs(n);
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    fill_pairs<T>(pairs.get(), x, n, descending);
    std::sort(pairs.get(), pairs.get() + n);
    write_pairs<T>(pairs.get(), n, x, lines.data[0] ? lines.row<T>(0, r) : nullptr,
                   lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}
template <class T>
void select_long_lines(SelectKind kind, const Lines& lines, int64_t n, int64_t k) {
  const internal::ScratchArray<Pair> pairs(n);
  for (int64_t r = 0; r < lines.rows; ++r) {
    const T* x = lines.row<T>(2, r);
    int64_t numbers = 0;
    for (int64_t i = 0; i < n; ++i) numbers += x[i] == x[i];
    const int64_t which = kind == SelectKind::kNth         ? k
                          : kind == SelectKind::kNanMedian ? std::max<int64_t>(numbers - 1, 0) / 2
                          : numbers == n                   ? (n - 1) / 2
                                                           : numbers;
    fill_pairs<T>(pairs.get(), x, n, false);
    std::nth_element(pairs.get(), pairs.get() + which, pairs.get() + n);
    write_pairs<T>(pairs.get() + which, 1, x, lines.data[0] ? lines.row<T>(0, r) : nullptr,
                   lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}

// The k pairs that come first, sorted: candidates below a threshold are collected, and the threshold sinks each time
// the buffer is full.
template <class T>
void topk_line(const T* x, int64_t n, int64_t k, bool largest, Pair* buffer, T* values, int64_t* indices) {
  const int64_t capacity = std::min(n, std::max<int64_t>(2 * k, 64));
  int64_t held = capacity, i = capacity;
  fill_pairs<T>(buffer, x, held, largest);
  while (true) {
    if (held > k) std::nth_element(buffer, buffer + (k - 1), buffer + held);
    held = std::min(held, k);
    if (i >= n) break;
    const uint64_t threshold = buffer[k - 1].key;
    // Later elements come after equal ones that are held: only strictly smaller keys enter.
    for (; i < n && held < capacity; ++i) {
      const uint64_t key = key_of<T>(x[i], largest);
      buffer[held] = {key, i};
      held += key < threshold;
    }
  }
  std::sort(buffer, buffer + held);
  write_pairs<T>(buffer, held, x, values, indices);
}

template <class T>
void topk_pair_lines(const Lines& lines, int64_t n, int64_t k, bool largest) {
  const internal::ScratchArray<Pair> buffer(std::min(n, std::max<int64_t>(2 * k, 64)) + 1);
  for (int64_t r = 0; r < lines.rows; ++r) {
    topk_line<T>(lines.row<T>(2, r), n, k, largest, buffer.get(), lines.data[0] ? lines.row<T>(0, r) : nullptr,
                 lines.data[1] ? lines.row<int64_t>(1, r) : nullptr);
  }
}

// Every value of t is one of these: halves as float32, small integers as int32. kBool: no order.
DType load_dtype(DType t) {
  switch (t) {
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kFloat32:
      return DType::kFloat32;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kUInt16:
    case DType::kInt32:
      return DType::kInt32;
    case DType::kUInt32:
    case DType::kInt64:
      return DType::kInt64;
    case DType::kUInt64:
    case DType::kFloat64:
      return t;
    default:
      return DType::kBool;
  }
}
template <class F>
void visit_load(DType load, F&& f) {
  switch (load) {
    case DType::kFloat32:
      return f(float{});
    case DType::kFloat64:
      return f(double{});
    case DType::kInt32:
      return f(int32_t{});
    case DType::kUInt64:
      return f(uint64_t{});
    default:
      return f(int64_t{});
  }
}

}  // namespace

void run_sort(std::span<const int64_t> shape, int dim, bool descending, const Operand& values, const Operand& indices,
              const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " Sort does not support complex dtypes on CPU");
  const DType load = load_dtype(in.dtype);
  TESSERA_CHECK_NOT_IMPLEMENTED(load != DType::kBool, "\"sorting_kernel_method_name\" not implemented for '",
                                type_name_of(in.dtype), "'");
  if (n == 0) return;
  const LineOperand operands[3] = {{values, load, n, true}, {indices, DType::kInt64, n, true}, {in, load, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) {
    if (n <= kMaxWordLine) return sort_word_lines(load, lines, n, descending);
    visit_load(load, [&](auto t) { sort_long_lines<decltype(t)>(lines, n, descending); });
  });
}

void run_topk(std::span<const int64_t> shape, int dim, int64_t k, bool largest, bool, const Operand& values,
              const Operand& indices, const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK(k >= 0 && k <= n, "selected index k out of range");
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " topk does not support complex dtypes on CPU");
  const DType load = load_dtype(in.dtype);
  TESSERA_CHECK_NOT_IMPLEMENTED(load != DType::kBool, "\"topk_cpu\" not implemented for '", type_name_of(in.dtype),
                                "'");
  if (k == 0) return;
  const LineOperand operands[3] = {{values, load, k, true}, {indices, DType::kInt64, k, true}, {in, load, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) {
    if (n <= kMaxWordLine && item_size(load) == 4) return topk_word_lines(load, lines, n, k, largest);
    visit_load(load, [&](auto t) { topk_pair_lines<decltype(t)>(lines, n, k, largest); });
  });
}

void run_select(SelectKind kind, std::span<const int64_t> shape, int dim, int64_t k, const Operand& values,
                const Operand& indices, const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " Sort does not support complex dtypes on CPU");
  const DType load = load_dtype(in.dtype);
  TESSERA_CHECK_NOT_IMPLEMENTED(load != DType::kBool, "\"median_out\" not implemented for '", type_name_of(in.dtype),
                                "'");
  const LineOperand operands[3] = {{values, load, 1, true}, {indices, DType::kInt64, 1, true}, {in, load, n, false}};
  run_lines(shape, dim, operands, [&](const Lines& lines) {
    if (n <= kMaxWordLine) return select_word_lines(load, kind, lines, n, k);
    visit_load(load, [&](auto t) { select_long_lines<decltype(t)>(kind, lines, n, k); });
  });
}

}  // namespace tessera::cpu
