// Gradients of embeddings' tables.
#include <cstring>

#include "nn/cpu/embedding.h"
#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/types.h"

namespace tessera::cpu {

using namespace internal;

namespace {

using namespace internal;  // NOLINT: helpers of these kernels

// The positions of each row's occurrences, in order: those of row r are order[first[r]] .. order[first[r + 1] - 1].
struct Occurrences {
  ScratchArray<int64_t> first, order;
  Occurrences(const int64_t* index, int64_t n, int64_t rows) : first(rows + 2), order(n) {
    // first is shifted by one while the positions are placed, so that it is right afterwards.
    int64_t* const f = first.get();
    for (int64_t r = 0; r < rows + 2; ++r) f[r] = 0;
    for (int64_t i = 0; i < n; ++i) ++f[index[i] + 2];
    for (int64_t r = 2; r < rows + 2; ++r) f[r] += f[r - 1];
    for (int64_t i = 0; i < n; ++i) order[f[index[i] + 1]++] = i;
  }
};

template <class T>
void embedding_row(const T* dy, int64_t dim, const int64_t* at, int64_t count, bool scale_by_freq, Acc<T>* sum,
                   T* out) {
  using A = Acc<T>;
  for (int64_t j = 0; j < dim; ++j) sum[j] = A{};
  const A scale = scale_by_freq && count > 0 ? static_cast<A>(1.0 / static_cast<double>(count)) : A{1};
  for (int64_t i = 0; i < count; ++i) {
    const T* const grad = dy + at[i] * dim;
    for (int64_t j = 0; j < dim; ++j) sum[j] += scale * static_cast<A>(grad[j]);
  }
  for (int64_t j = 0; j < dim; ++j) out[j] = static_cast<T>(sum[j]);
}

}  // namespace

void embedding_backward(DType dtype, const void* dy, const int64_t* index, int64_t n, int64_t dim, int64_t rows_total,
                        int64_t padding_idx, bool scale_by_freq, void* dweight) {
  visit_floats("embedding_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    for (int64_t i = 0; i < n; ++i)
      TESSERA_CHECK_INDEX(index[i] >= 0 && index[i] < rows_total, "index out of range in self: index ", index[i],
                          " of an embedding with ", rows_total, " rows");
    const Occurrences rows(index, n, rows_total);
    const int64_t work = dim * (1 + n / (rows_total + 1));
    parallel_for(rows_total, 1 + 32768 / (work + 1), [&](int64_t begin, int64_t end) {
      ScratchArray<Acc<T>> sum(dim);
      // Most rows of a large table are in no batch: zeros first, all at once.
      std::memset(static_cast<char*>(dweight) + begin * dim * static_cast<int64_t>(sizeof(T)), 0,
                  static_cast<size_t>((end - begin) * dim) * sizeof(T));
      for (int64_t r = begin; r < end; ++r) {
        const int64_t first = rows.first[r], count = r == padding_idx ? 0 : rows.first[r + 1] - first;
        if (count == 0) continue;
        embedding_row(static_cast<const T*>(dy), dim, rows.order.get() + first, count, scale_by_freq, sum.get(),
                      static_cast<T*>(dweight) + r * dim);
      }
    });
  });
}

}  // namespace tessera::cpu
