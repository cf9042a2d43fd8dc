// The reduction engine: cuts a reduction of any shape into blocks that the kernels of reduce_kernels.h take.
//
// After sorting by stride and joining dimensions there are two forms. Rows: the innermost dimension is reduced, a
// kernel call turns runs of it into one accumulator each. Columns: the innermost dimension is kept, a kernel call adds
// rows to an array of accumulators. Long reductions are cut into pieces of fixed size whose accumulators are merged in
// a fixed tree, so the number of threads does not change a bit of the result.
#include "tensor/cpu/reduce/accumulate.h"
#include "tensor/cpu/reduce/reduce.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <vector>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/pointwise/pointwise_ops.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/reduce/reduce_kernels.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/strided_nest.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kScratch = 4096;        // elements brought to the block dtype at a time
constexpr int64_t kPiece = 65536;         // elements of a row reduced by one task
constexpr int64_t kGrain = 16384;         // elements worth a task
constexpr int64_t kColumns = 1024;        // columns of one task
constexpr int64_t kColumnPiece = 131072;  // elements of a column task, about
constexpr int64_t kMaxItem = 16;          // bytes of the largest element

// From accumulators to elements of `result` (one array for each output).
using FinishFn = void (*)(int64_t n, const void* acc, int64_t count, double param, void* const* results);
// Maps a block in place before the kernel sees it (|x|^p).
using PrepareFn = void (*)(int64_t n, void* block, double param);

// Which elements count, and what stands for the others. Each field but the first is null where those are left out.
struct Under {
  Operand mask;  // bool, over the input's shape
  const PointwiseOp* where;
  Operand fill;  // one element
};
constexpr int64_t kNowhere[kMaxNestRank] = {};  // strides of one element, whatever the shape

// A place in the input, and in its mask.
struct Place {
  const char* x;
  const char* mask;
  Place at(int64_t dx, int64_t dm) const { return {x + dx, mask + dm}; }
};

struct Reduction {
  const ReduceKernel* kernel;
  DType load;         // the dtype that the input is converted to; `prepare` takes it to kernel->block
  PrepareFn prepare;  // or null
  FinishFn finish;
  DType result;
  double param;
};

class Engine {
 public:
  Engine(const Reduction& r, std::span<const int64_t> shape, uint64_t mask, std::span<const Operand> outs,
         const Operand& in, const Under* under = nullptr);
  void run();

 private:
  void run_rows();
  void run_columns();
  void row_blocks_setup();
  void reduce_rows(char* block, Place in, int64_t rows, int64_t row_stride, int64_t mask_stride, int64_t block_begin,
                   int64_t block_end, char* acc);
  void reduce_block(char* block, Place in, int64_t number, char* acc);
  void short_rows(char* block, Place in, int64_t rows, int64_t row_stride, int64_t mask_stride, char* acc);
  // `block`: scratch_bytes() of the calling task.
  size_t scratch_bytes() const { return direct_ ? 1 : static_cast<size_t>(kScratch * (item_size(r_.load) + leaves_)); }
  const char* bring(char* block, Place src, std::span<const int64_t> shape, const int64_t* strides,
                    const int64_t* mask_strides, int64_t n);
  void left_rows(char* block, int64_t rows, int64_t n, char* acc);
  void column_piece(char* block, Place in, int64_t cols, int64_t r_begin, int64_t r_end, char* acc);
  void column_run(const char* src, int64_t rows, int64_t cols, int64_t row_stride, char* acc);
  void emit(int64_t k_begin, int64_t n, const char* acc);
  void tree(char* accs, int64_t pieces, int64_t width);

  const Reduction& r_;
  Operand in_;
  Operand outs_[2];
  int num_outs_;
  int64_t in_size_, block_size_, acc_;
  const Under* under_;
  bool leaves_;   // elements out
  Nest<4> kept_;  // strides: in, out 0, out 1, mask
  Nest<2> reduced_;
  Place place(const int64_t (&offset)[4]) const {
    return {at_byte(in_.data, offset[0]),
            under_ != nullptr ? at_byte(static_cast<const void*>(under_->mask.data), offset[3]) : nullptr};
  }
  int64_t num_kept_, num_reduced_;
  bool direct_;  // the kernel can read the input itself
  // Row form: the reduced elements are outer_ x chunks_ blocks of chunk_ x suffix elements.
  int suffix_dim_ = 0;  // the dimension cut into chunks; those after it belong whole to each block
  int64_t suffix_ = 1, chunk_ = 1, chunks_ = 1, outer_ = 1;
};

Engine::Engine(const Reduction& r, std::span<const int64_t> shape, uint64_t mask, std::span<const Operand> outs,
               const Operand& in, const Under* under)
    : r_(r),
      in_(in),
      num_outs_(static_cast<int>(outs.size())),
      under_(under),
      leaves_(under != nullptr && under->where == nullptr) {
  for (int k = 0; k < num_outs_; ++k) outs_[k] = outs[k];
  in_size_ = item_size(in.dtype);
  block_size_ = item_size(r.kernel->block);
  acc_ = r.kernel->acc_bytes;
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t under_d = under != nullptr ? under->mask.strides[d] : 0;
    if (mask >> d & 1) {
      reduced_.push(shape[d], {in.strides[d], under_d});
    } else {
      const int64_t s1 = num_outs_ > 1 ? outs_[1].strides[d] : 0;
      kept_.push(shape[d], {in.strides[d], outs_[0].strides[d], s1, under_d});
    }
  }
  num_kept_ = kept_.count();
  num_reduced_ = reduced_.count();
  kept_.sort_by(0);
  kept_.coalesce();
  reduced_.sort_by(0);
  reduced_.coalesce();
  direct_ = r.prepare == nullptr && in.dtype == r.load && under == nullptr;
}

// Writes n results, the kept elements from k_begin on.
void Engine::emit(int64_t k_begin, int64_t n, const char* acc) {
  constexpr int64_t kBatch = 256;
  alignas(64) char buffer[2][kBatch * kMaxItem];
  char converted[kBatch * kMaxItem];
  void* results[2] = {buffer[0], buffer[1]};
  for (int64_t b = 0; b < n; b += kBatch) {
    const int64_t m = std::min(kBatch, n - b);
    r_.finish(m, acc + b * acc_, num_reduced_, r_.param, results);
    for (int k = 0; k < num_outs_; ++k) {
      if (outs_[k].data == nullptr) continue;
      const int64_t size = item_size(outs_[k].dtype);
      const char* src = buffer[k];
      if (outs_[k].dtype != r_.result) {
        convert(outs_[k].dtype, converted, r_.result, buffer[k], m);
        src = converted;
      }
      for_each_run(kept_, k_begin + b, k_begin + b + m, [&](const int64_t(&offset)[4], int64_t len) {
        char* dst = at_byte(outs_[k].data, offset[1 + k]);
        const int64_t stride = kept_.inner_stride(1 + k);
        if (stride == size || len == 1) {
          std::memcpy(dst, src, len * size);
        } else {
          for (int64_t i = 0; i < len; ++i) std::memcpy(dst + i * stride, src + i * size, size);
        }
        src += len * size;
      });
    }
  }
}

// Merges `pieces` arrays of `width` accumulators into the first, pairwise.
void Engine::tree(char* accs, int64_t pieces, int64_t width) {
  const int64_t bytes = width * acc_;
  for (int64_t step = 1; step < pieces; step *= 2) {
    for (int64_t i = 0; i + step < pieces; i += 2 * step)
      r_.kernel->merge(width, accs + i * bytes, accs + (i + step) * bytes);
  }
}

const char* Engine::bring(char* block, Place src, std::span<const int64_t> shape, const int64_t* strides,
                          const int64_t* mask_strides, int64_t n) {
  const int rank = static_cast<int>(shape.size());
  if (under_ == nullptr && (rank == 0 || (rank == 1 && (strides[0] == in_size_ || n == 1)))) {
    convert(r_.load, block, in_.dtype, src.x, n);
  } else {
    int64_t dense[kMaxNestRank], dense_mask[kMaxNestRank];
    int64_t s = 1;
    for (int d = rank - 1; d >= 0; --d) {
      dense_mask[d] = s;
      dense[d] = s * item_size(r_.load);
      s *= shape[d];
    }
    const Operand to{block, r_.load, dense}, from{const_cast<char*>(src.x), in_.dtype, strides},
        mask{const_cast<char*>(src.mask), DType::kBool, mask_strides};
    if (under_ != nullptr && !leaves_) {
      const Operand ins[3] = {mask, from, under_->fill};
      run_pointwise(*under_->where, r_.load, shape, {&to, 1}, ins, nullptr);
    } else {
      copy_strided(shape, to, from);
    }
    if (leaves_) copy_strided(shape, Operand{block + kScratch * item_size(r_.load), DType::kBool, dense_mask}, mask);
  }
  if (r_.prepare) r_.prepare(n, block, r_.param);
  return block;
}

// Moves the elements that count to the front; how many they are.
template <class T>
int64_t gather_front(T* x, const uint8_t* mask, int64_t n) {
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    x[kept] = x[i];
    kept += mask[i] != 0;
  }
  return kept;
}

// Sums over columns of the elements that count: deviations from the first of each column, and their squares.
struct Deviations {
  explicit Deviations(int64_t cols)
      : memory(4 * cols), n(memory.get()), pivot(n + cols), sum(n + 2 * cols), squares(n + 3 * cols) {
    std::fill_n(n, 4 * cols, 0.0);
  }
  template <class T>
  [[gnu::optimize("O3"), gnu::noinline]] void add(int64_t rows, int64_t cols, const T* x, const uint8_t* mask) {
    double* __restrict counts = n, * __restrict first = pivot, * __restrict total = sum, * __restrict square = squares;
    for (int64_t r = 0; r < rows; ++r, x += cols, mask += cols) {
      for (int64_t c = 0; c < cols; ++c) {
        // Without branches on the mask, which nobody foresees.
        const uint64_t counting = uint64_t{0} - (mask[c] != 0);
        const double v = static_cast<double>(x[c]), from = counts[c] == 0 ? v : first[c];
        const double d = std::bit_cast<double>(std::bit_cast<uint64_t>(v - from) & counting);
        first[c] = from;
        counts[c] += static_cast<double>(static_cast<int>(counting & 1));
        total[c] += d;
        square[c] += d * d;
      }
    }
  }
  void state(int64_t cols, VarState* acc) const {
    for (int64_t c = 0; c < cols; ++c) {
      if (n[c] == 0) continue;
      const double shift = sum[c] / n[c];
      acc[c] = {n[c], pivot[c] + shift, std::max(0.0, squares[c] - sum[c] * shift)};
      if (squares[c] != squares[c]) acc[c].m2 = squares[c];
    }
  }
  const internal::ScratchArray<double> memory;
  double *n, *pivot, *sum, *squares;
};

// Rows of n elements that were brought with their mask: those that count alone.
void Engine::left_rows(char* block, int64_t rows, int64_t n, char* acc) {
  const char* const mask = block + kScratch * item_size(r_.load);
  for (int64_t r = 0; r < rows; ++r) {
    char* const x = block + r * n * block_size_;
    const auto* m = reinterpret_cast<const uint8_t*>(mask + r * n);
    const int64_t kept = block_size_ == 8 ? gather_front(reinterpret_cast<uint64_t*>(x), m, n)
                                          : gather_front(reinterpret_cast<uint32_t*>(x), m, n);
    if (kept > 0)
      r_.kernel->rows(1, kept, x, 0, acc + r * acc_);
    else
      r_.kernel->init(1, acc + r * acc_);
  }
}

// ---- rows

void Engine::row_blocks_setup() {
  const int rank = reduced_.rank;
  if (rank == 0) return;
  const bool run = direct_ && reduced_.inner_stride(0) == in_size_;
  direct_ = run && (rank == 1 || reduced_.inner_size() >= 256);
  const int64_t limit = direct_ ? kPiece : kScratch;
  suffix_dim_ = rank - 1;
  if (!direct_) {
    while (suffix_dim_ > 0 && suffix_ * reduced_.size[suffix_dim_] <= limit) suffix_ *= reduced_.size[suffix_dim_--];
  }
  chunk_ = std::min(reduced_.size[suffix_dim_], std::max<int64_t>(1, limit / suffix_));
  chunks_ = (reduced_.size[suffix_dim_] + chunk_ - 1) / chunk_;
  // Chunks of one size, in whole blocks of a kernel where there is more than one.
  if (direct_ && chunks_ > 1) chunk_ = ((reduced_.size[suffix_dim_] + chunks_ - 1) / chunks_ + 2047) / 2048 * 2048;
  chunks_ = (reduced_.size[suffix_dim_] + chunk_ - 1) / chunk_;
  for (int d = 0; d < suffix_dim_; ++d) outer_ *= reduced_.size[d];
}

void Engine::reduce_block(char* block, Place in, int64_t number, char* acc) {
  const int rank = reduced_.rank;
  int64_t n = 1, shape[kMaxNestRank], strides[kMaxNestRank], mask_strides[kMaxNestRank];
  if (rank > 0) {
    const int64_t begin = number % chunks_ * chunk_;
    int64_t outer = number / chunks_;
    in = in.at(begin * reduced_.stride[suffix_dim_][0], begin * reduced_.stride[suffix_dim_][1]);
    for (int d = suffix_dim_ - 1; d >= 0; --d) {
      const int64_t c = outer % reduced_.size[d];
      in = in.at(c * reduced_.stride[d][0], c * reduced_.stride[d][1]);
      outer /= reduced_.size[d];
    }
    const int64_t len = std::min(chunk_, reduced_.size[suffix_dim_] - begin);
    n = len * suffix_;
    for (int d = suffix_dim_; d < rank; ++d) {
      shape[d - suffix_dim_] = d == suffix_dim_ ? len : reduced_.size[d];
      strides[d - suffix_dim_] = reduced_.stride[d][0];
      mask_strides[d - suffix_dim_] = reduced_.stride[d][1];
    }
  }
  const char* x = in.x;
  if (!direct_)
    x = bring(block, in, {shape, static_cast<size_t>(rank > 0 ? rank - suffix_dim_ : 0)}, strides, mask_strides, n);
  if (leaves_)
    left_rows(block, 1, n, acc);
  else
    r_.kernel->rows(1, n, x, 0, acc);
}

// Several rows in one block.
void Engine::short_rows(char* block, Place in, int64_t rows, int64_t row_stride, int64_t mask_stride, char* acc) {
  const int64_t batch = kScratch / num_reduced_;
  int64_t shape[kMaxNestRank + 1], strides[kMaxNestRank + 1], mask_strides[kMaxNestRank + 1];
  for (int d = 0; d < reduced_.rank; ++d) {
    shape[d + 1] = reduced_.size[d];
    strides[d + 1] = reduced_.stride[d][0];
    mask_strides[d + 1] = reduced_.stride[d][1];
  }
  strides[0] = row_stride;
  mask_strides[0] = mask_stride;
  for (int64_t r = 0; r < rows; r += batch) {
    shape[0] = std::min(batch, rows - r);
    const char* x =
        bring(block, in.at(r * row_stride, r * mask_stride), {shape, static_cast<size_t>(reduced_.rank + 1)}, strides,
              mask_strides, shape[0] * num_reduced_);
    if (leaves_)
      left_rows(block, shape[0], num_reduced_, acc + r * acc_);
    else
      r_.kernel->rows(shape[0], num_reduced_, x, num_reduced_ * block_size_, acc + r * acc_);
  }
}

// Blocks [begin, end) of each of `rows` rows, whose first elements are row_stride bytes apart.
void Engine::reduce_rows(char* block, Place in, int64_t rows, int64_t row_stride, int64_t mask_stride, int64_t begin,
                         int64_t end, char* acc) {
  if (outer_ * chunks_ == 1 && reduced_.rank > 0) {
    if (direct_) {
      r_.kernel->rows(rows, num_reduced_, in.x, row_stride, acc);
      return;
    }
    if (num_reduced_ <= kScratch / 2) {
      short_rows(block, in, rows, row_stride, mask_stride, acc);
      return;
    }
  }
  alignas(16) char part[64][32];  // a stack of partial results: bit k of the count tells whether level k is held
  for (int64_t r = 0; r < rows; ++r) {
    int top = 0;
    for (int64_t b = begin; b < end; ++b) {
      reduce_block(block, in.at(r * row_stride, r * mask_stride), b, part[top]);
      ++top;
      for (uint64_t bits = static_cast<uint64_t>(b - begin); bits & 1; bits >>= 1, --top)
        r_.kernel->merge(1, part[top - 2], part[top - 1]);
    }
    for (; top > 1; --top) r_.kernel->merge(1, part[top - 2], part[top - 1]);
    std::memcpy(acc + r * acc_, part[0], acc_);
  }
}

void Engine::run_rows() {
  row_blocks_setup();
  const int64_t blocks = outer_ * chunks_;
  const int64_t per_piece = std::max<int64_t>(1, kPiece / (chunk_ * suffix_));
  const int64_t pieces = (blocks + per_piece - 1) / per_piece;
  if (pieces == 1) {
    parallel_for(num_kept_, even_grain(num_kept_, num_kept_ * num_reduced_, kGrain), [&](int64_t begin, int64_t end) {
      constexpr int64_t kBatch = 128;
      const internal::Scratch block(scratch_bytes());
      alignas(16) char acc[kBatch * 32];
      int64_t k = begin;
      for_each_run(kept_, begin, end, [&](const int64_t(&offset)[4], int64_t len) {
        for (int64_t i = 0; i < len; i += kBatch) {
          const int64_t m = std::min(kBatch, len - i);
          reduce_rows(block.as<char>(), place(offset).at(i * kept_.inner_stride(0), i * kept_.inner_stride(3)), m,
                      kept_.inner_stride(0), kept_.inner_stride(3), 0, blocks, acc);
          emit(k, m, acc);
          k += m;
        }
      });
    });
    return;
  }
  const internal::ScratchArray<char> storage(num_kept_ * pieces * acc_);
  char* accs = storage.get();
  parallel_for(num_kept_ * pieces, 1, [&](int64_t begin, int64_t end) {
    const internal::Scratch block(scratch_bytes());
    for (int64_t i = begin; i < end; ++i) {
      int64_t offset[4];
      kept_.offsets(i / pieces, offset);
      const int64_t b = i % pieces * per_piece;
      reduce_rows(block.as<char>(), place(offset), 1, 0, 0, b, std::min(b + per_piece, blocks), accs + i * acc_);
    }
  });
  for (int64_t k = 0; k < num_kept_; ++k) {
    tree(accs + k * pieces * acc_, pieces, 1);
    emit(k, 1, accs + k * pieces * acc_);
  }
}

// ---- columns

// Adds rows of dense columns. Few columns in dense rows: several rows are one wide row.
void Engine::column_run(const char* src, int64_t rows, int64_t cols, int64_t row_stride, char* acc) {
  constexpr int64_t kWide = 128;
  const int64_t fold = cols < 64 && row_stride == cols * block_size_ ? kWide / cols : 1;
  if (fold < 2 || rows < 2 * fold) {
    r_.kernel->cols(rows, cols, src, row_stride, acc);
    return;
  }
  alignas(16) char wide[kWide * 32];
  r_.kernel->init(cols * fold, wide);
  const int64_t whole = rows / fold;
  r_.kernel->cols(whole, cols * fold, src, row_stride * fold, wide);
  for (int64_t f = 0; f < fold; ++f) r_.kernel->merge(cols, acc, wide + f * cols * acc_);
  if (rows > whole * fold) r_.kernel->cols(rows - whole * fold, cols, src + whole * fold * row_stride, row_stride, acc);
}

// Reduced elements [r_begin, r_end) of `cols` columns into acc.
void Engine::column_piece(char* block, Place in, int64_t cols, int64_t r_begin, int64_t r_end, char* acc) {
  r_.kernel->init(cols, acc);
  const int64_t row_stride = reduced_.inner_stride(0), mask_stride = reduced_.inner_stride(1);
  Deviations deviations(leaves_ ? cols : 0);
  for_each_run(reduced_, r_begin, r_end, [&](const int64_t(&offset)[2], int64_t rows) {
    const Place at = in.at(offset[0], offset[1]);
    if (direct_) {
      column_run(at.x, rows, cols, row_stride, acc);
      return;
    }
    const int64_t tile = std::max<int64_t>(1, kScratch / cols);
    for (int64_t i = 0; i < rows; i += tile) {
      const int64_t m = std::min(tile, rows - i);
      const int64_t shape[2] = {m, cols}, strides[2] = {row_stride, kept_.inner_stride(0)},
                    mask_strides[2] = {mask_stride, kept_.inner_stride(3)};
      const char* x = bring(block, at.at(i * row_stride, i * mask_stride), shape, strides, mask_strides, m * cols);
      if (!leaves_) {
        column_run(x, m, cols, cols * block_size_, acc);
        continue;
      }
      const auto* mask = reinterpret_cast<const uint8_t*>(x + kScratch * block_size_);
      if (block_size_ == 8)
        deviations.add(m, cols, reinterpret_cast<const double*>(x), mask);
      else
        deviations.add(m, cols, reinterpret_cast<const float*>(x), mask);
    }
  });
  if (leaves_) deviations.state(cols, reinterpret_cast<VarState*>(acc));
}

void Engine::run_columns() {
  const int64_t all_cols = kept_.inner_size();
  direct_ = direct_ && kept_.inner_stride(0) == in_size_;
  // Narrower blocks where there are few, so that threads find work: by size only.
  const int64_t cols = std::min(all_cols, leaves_ ? kColumns / 4 : kColumns);
  const int64_t col_blocks = (all_cols + cols - 1) / cols;
  const int64_t outer = num_kept_ / all_cols;
  // A single block of columns is halved, if it is worth two tasks.
  const int64_t most =
      outer * col_blocks > 1 ? kColumnPiece : std::clamp(cols * num_reduced_ / 2 + cols, 2 * kGrain, kColumnPiece);
  int64_t piece_rows = std::max<int64_t>(64, most / cols);
  int64_t pieces = (num_reduced_ + piece_rows - 1) / piece_rows;
  piece_rows = (num_reduced_ + pieces - 1) / pieces;
  pieces = (num_reduced_ + piece_rows - 1) / piece_rows;
  const int64_t tasks = outer * col_blocks;
  auto in_at = [&](int64_t task, int64_t* first) {
    int64_t offset[4];
    *first = task / col_blocks * all_cols + task % col_blocks * cols;
    kept_.offsets(*first, offset);
    return place(offset);
  };
  auto width = [&](int64_t task) { return std::min(cols, all_cols - task % col_blocks * cols); };
  if (pieces == 1) {
    parallel_for(tasks, std::max<int64_t>(1, kGrain / (cols * num_reduced_)), [&](int64_t begin, int64_t end) {
      const internal::ScratchArray<char> acc(cols * acc_);
      const internal::Scratch block(scratch_bytes());
      for (int64_t t = begin; t < end; ++t) {
        int64_t first;
        const Place x = in_at(t, &first);
        column_piece(block.as<char>(), x, width(t), 0, num_reduced_, acc.get());
        emit(first, width(t), acc.get());
      }
    });
    return;
  }
  const internal::ScratchArray<char> storage(tasks * pieces * cols * acc_);
  char* accs = storage.get();
  parallel_for(tasks * pieces, 1, [&](int64_t begin, int64_t end) {
    const internal::Scratch block(scratch_bytes());
    for (int64_t i = begin; i < end; ++i) {
      int64_t first;
      const Place x = in_at(i / pieces, &first);
      const int64_t b = i % pieces * piece_rows;
      column_piece(block.as<char>(), x, width(i / pieces), b, std::min(b + piece_rows, num_reduced_),
                   accs + i * cols * acc_);
    }
  });
  for (int64_t t = 0; t < tasks; ++t) {
    int64_t first;
    in_at(t, &first);
    tree(accs + t * pieces * cols * acc_, pieces, cols);
    emit(first, width(t), accs + t * pieces * cols * acc_);
  }
}

void Engine::run() {
  if (num_kept_ == 0) return;
  if (num_reduced_ == 0) {
    alignas(16) char acc[64 * 32];
    r_.kernel->init(64, acc);
    for (int64_t k = 0; k < num_kept_; k += 64) emit(k, std::min<int64_t>(64, num_kept_ - k), acc);
    return;
  }
  // A stride of 0 counts as far away: broadcast dimensions are no runs of memory.
  auto reach = [](int64_t s) { return s == 0 ? INT64_MAX : std::abs(s); };
  const bool columns = kept_.rank > 0 && reduced_.rank > 0 && kept_.inner_size() > 1 &&
                       reach(kept_.inner_stride(0)) < reach(reduced_.inner_stride(0));
  if (columns) {
    run_columns();
  } else {
    run_rows();
  }
}

// ---- finishing: accumulators to results

template <class A, class R>
void finish_cast(int64_t n, const void* acc, int64_t, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) static_cast<R*>(results[0])[i] = static_cast<R>(static_cast<const A*>(acc)[i]);
}
template <class R>
void finish_mean(int64_t n, const void* acc, int64_t count, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<R*>(results[0])[i] = static_cast<R>(static_cast<const double*>(acc)[i] / static_cast<double>(count));
}
template <class R>  // R: the real part's type
void finish_complex(int64_t n, const void* acc, int64_t, double, void* const* results) {
  for (int64_t i = 0; i < 2 * n; ++i)
    static_cast<R*>(results[0])[i] = static_cast<R>(static_cast<const double*>(acc)[i]);
}
template <class R>
void finish_complex_mean(int64_t n, const void* acc, int64_t count, double, void* const* results) {
  for (int64_t i = 0; i < 2 * n; ++i)
    static_cast<R*>(results[0])[i] = static_cast<R>(static_cast<const double*>(acc)[i] / static_cast<double>(count));
}
template <class R>
void finish_root(int64_t n, const void* acc, int64_t, double p, void* const* results) {
  for (int64_t i = 0; i < n; ++i) {
    const double s = static_cast<const double*>(acc)[i];
    static_cast<R*>(results[0])[i] = static_cast<R>(p == 1 ? s : p == 2 ? std::sqrt(s) : std::pow(s, 1 / p));
  }
}
// An empty norm is 0 whatever its order; the caller rejects the empty -inf norm.
template <class R>
void finish_max_abs(int64_t n, const void* acc, int64_t count, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) static_cast<R*>(results[0])[i] = count == 0 ? R{0} : static_cast<const R*>(acc)[i];
}
void finish_any(int64_t n, const void* acc, int64_t, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(results[0])[i] = static_cast<const int64_t*>(acc)[i] > 0;
}
void finish_all(int64_t n, const void* acc, int64_t count, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(results[0])[i] = static_cast<const int64_t*>(acc)[i] == count;
}
template <class R>
void finish_log_sum_exp(int64_t n, const void* acc, int64_t, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) {
    const LogSumExpState& s = static_cast<const LogSumExpState*>(acc)[i];
    static_cast<R*>(results[0])[i] = static_cast<R>(s.max + (s.max == s.max ? std::log(s.sum) : 0.0));
  }
}
template <class R>  // R: the real part's type
void finish_complex_log_sum_exp(int64_t n, const void* acc, int64_t, double, void* const* results) {
  for (int64_t i = 0; i < n; ++i) {
    const ComplexLogSumExpState& s = static_cast<const ComplexLogSumExpState*>(acc)[i];
    const std::complex<double> v = s.max + std::log(std::complex<double>(s.re, s.im));
    static_cast<std::complex<R>*>(results[0])[i] = {static_cast<R>(v.real()), static_cast<R>(v.imag())};
  }
}
// results: variance or standard deviation, mean. param: the correction, its sign bit apart: see run_var_mean.
template <class R, bool kRoot>
void finish_var(int64_t n, const void* acc, int64_t, double correction, void* const* results) {
  for (int64_t i = 0; i < n; ++i) {
    const VarState& s = static_cast<const VarState*>(acc)[i];
    const double var = s.n == 0 ? std::numeric_limits<double>::quiet_NaN() : s.m2 / std::max(0.0, s.n - correction);
    static_cast<R*>(results[0])[i] = static_cast<R>(kRoot ? std::sqrt(var) : var);
    static_cast<R*>(results[1])[i] = static_cast<R>(s.n == 0 ? std::numeric_limits<double>::quiet_NaN() : s.mean);
  }
}

// ---- choosing

template <class T>
void prepare_power(int64_t n, void* block, double p) {
  T* x = static_cast<T*>(block);
  for (int64_t i = 0; i < n; ++i) x[i] = std::pow(std::fabs(x[i]), static_cast<T>(p));
}
// Interleaved complex numbers to their absolute values, at the front of the same block.
template <class T>
void prepare_abs(int64_t n, void* block, double) {
  T* x = static_cast<T*>(block);
  for (int64_t i = 0; i < n; ++i) x[i] = std::hypot(x[2 * i], x[2 * i + 1]);
}
template <class T>
void prepare_abs_power(int64_t n, void* block, double p) {
  prepare_abs<T>(n, block, p);
  prepare_power<T>(n, block, p);
}

// The dtype of blocks for a compute dtype. Comparisons of small integers need no int64.
DType block_dtype(DType t, bool compares) {
  const bool small = is_integral(t, true) && (item_size(t) < 4 || t == DType::kInt32);
  return compares && small ? DType::kInt32 : accumulation_dtype(t, compares);
}

template <class T>  // float or double: the entries that depend on the precision
Reduction choose_float(ReduceKind kind, DType block, const KernelParam* params) {
  constexpr FinishFn cast = finish_cast<double, T>;
  switch (kind) {
    case ReduceKind::kSum:
      return {find_reduce_kernel(RowOp::kSum, block), block, nullptr, cast, block, 0};
    case ReduceKind::kNanSum:
      return {find_reduce_kernel(RowOp::kNanSum, block), block, nullptr, cast, block, 0};
    case ReduceKind::kProd:
      return {find_reduce_kernel(RowOp::kProd, block), block, nullptr, cast, block, 0};
    case ReduceKind::kMean:
      return {find_reduce_kernel(RowOp::kSum, block), block, nullptr, finish_mean<T>, block, 0};
    case ReduceKind::kMax:
      return {find_reduce_kernel(RowOp::kMax, block), block, nullptr, finish_cast<T, T>, block, 0};
    case ReduceKind::kMin:
      return {find_reduce_kernel(RowOp::kMin, block), block, nullptr, finish_cast<T, T>, block, 0};
    case ReduceKind::kSumSquares:
      return {find_reduce_kernel(RowOp::kSumSquares, block), block, nullptr, cast, block, 0};
    case ReduceKind::kLogSumExp:
      return {find_reduce_kernel(RowOp::kLogSumExp, block), block, nullptr, finish_log_sum_exp<T>, block, 0};
    case ReduceKind::kNorm: {
      const double p = params[0].f;
      if (p == 0)
        return {
            find_reduce_kernel(RowOp::kCount, DType::kBool), DType::kBool, nullptr, finish_cast<int64_t, T>, block, p};
      if (std::isinf(p))
        return {find_reduce_kernel(p > 0 ? RowOp::kMaxAbs : RowOp::kMinAbs, block),
                block,
                nullptr,
                finish_max_abs<T>,
                block,
                p};
      if (p == 1) return {find_reduce_kernel(RowOp::kAbsSum, block), block, nullptr, finish_root<T>, block, p};
      if (p == 2) return {find_reduce_kernel(RowOp::kSumSquares, block), block, nullptr, finish_root<T>, block, p};
      // Powers are taken in float64, so that they neither overflow nor lose digits for float32.
      return {find_reduce_kernel(RowOp::kSum, DType::kFloat64),
              DType::kFloat64,
              prepare_power<double>,
              finish_root<T>,
              block,
              p};
    }
    default:
      return {};
  }
}

template <class T>
Reduction choose_complex(ReduceKind kind, DType block, const KernelParam* params) {
  switch (kind) {
    case ReduceKind::kSum:
      return {find_reduce_kernel(RowOp::kSum, block), block, nullptr, finish_complex<T>, block, 0};
    case ReduceKind::kMean:
      return {find_reduce_kernel(RowOp::kSum, block), block, nullptr, finish_complex_mean<T>, block, 0};
    case ReduceKind::kProd:
      return {find_reduce_kernel(RowOp::kProd, block), block, nullptr, finish_complex<T>, block, 0};
    case ReduceKind::kLogSumExp:
      return {find_reduce_kernel(RowOp::kLogSumExp, block), block, nullptr, finish_complex_log_sum_exp<T>, block, 0};
    case ReduceKind::kNorm:
    case ReduceKind::kSumSquares: {
      Reduction r = choose_float<T>(kind, to_real(block), params);
      if (r.load == DType::kBool) return r;  // counts
      const bool power = r.prepare != nullptr;
      r.load = to_complex(power ? DType::kFloat64 : to_real(block));
      r.prepare = power ? prepare_abs_power<double> : prepare_abs<T>;
      return r;
    }
    default:
      return {};
  }
}

Reduction choose_int(ReduceKind kind, DType compute) {
  const bool extreme = kind == ReduceKind::kMax || kind == ReduceKind::kMin;
  const DType block = block_dtype(compute, extreme);
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kNanSum:
      return {find_reduce_kernel(RowOp::kSum, block), block, nullptr, finish_cast<int64_t, int64_t>, block, 0};
    case ReduceKind::kProd:
      return {find_reduce_kernel(RowOp::kProd, block), block, nullptr, finish_cast<int64_t, int64_t>, block, 0};
    case ReduceKind::kMax:
    case ReduceKind::kMin: {
      const FinishFn finish = block == DType::kInt32 ? finish_cast<int32_t, int32_t> : finish_cast<int64_t, int64_t>;
      return {find_reduce_kernel(kind == ReduceKind::kMax ? RowOp::kMax : RowOp::kMin, block),
              block,
              nullptr,
              finish,
              block,
              0};
    }
    default:
      return {};
  }
}

Reduction choose(ReduceKind kind, DType compute, const KernelParam* params) {
  const ReduceKernel* count = find_reduce_kernel(RowOp::kCount, DType::kBool);
  switch (kind) {
    case ReduceKind::kAny:
      return {count, DType::kBool, nullptr, finish_any, DType::kBool, 0};
    case ReduceKind::kAll:
      return {count, DType::kBool, nullptr, finish_all, DType::kBool, 0};
    case ReduceKind::kCountNonzero:
      return {count, DType::kBool, nullptr, finish_cast<int64_t, int64_t>, DType::kInt64, 0};
    default:
      break;
  }
  const DType block = block_dtype(compute, true);
  switch (block) {
    case DType::kFloat32:
      return choose_float<float>(kind, block, params);
    case DType::kFloat64:
      return choose_float<double>(kind, block, params);
    case DType::kComplex64:
      return choose_complex<float>(kind, block, params);
    case DType::kComplex128:
      return choose_complex<double>(kind, block, params);
    default:
      return choose_int(kind, compute);
  }
}

const char* name_of_kind(ReduceKind kind) {
  static constexpr const char* kNames[] = {
      "sum_cpu", "nansum_cpu", "prod_cpu",    "mean_cpu", "max_values_cpu",    "min_values_cpu",
      "and",     "or",         "sum_squares", "norm_cpu", "count_nonzero_cpu", "logsumexp"};
  return kNames[static_cast<int>(kind)];
}

// The real or imaginary part of a complex operand, as an operand.
Operand part_of(const Operand& x, int part) {
  const DType real = to_real(x.dtype);
  return {at_byte(x.data, part * item_size(real)), real, x.strides};
}

}  // namespace

namespace {
Reduction reduction_of(ReduceKind kind, DType compute, DType in, const KernelParam* params) {
  Reduction r = choose(kind, compute, params);
  if (kind == ReduceKind::kSum && r.kernel != nullptr && r.load == DType::kInt64) {
    // Sums of these need no conversion first. The results are the same, since any smaller compute dtype keeps the low
    // bits only.
    const bool same = compute == DType::kInt64;
    if (in == DType::kInt32 && (same || compute == DType::kInt32))
      r.kernel = find_reduce_kernel(RowOp::kSum, DType::kInt32), r.load = DType::kInt32;
    if (in == DType::kBool && same) r.kernel = find_reduce_kernel(RowOp::kCount, DType::kBool), r.load = DType::kBool;
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(r.kernel != nullptr, '"', name_of_kind(kind), "\" not implemented for '",
                                type_name_of(compute), "'");
  return r;
}
}  // namespace

void run_reduce(ReduceKind kind, DType compute, std::span<const int64_t> shape, uint64_t reduce_mask,
                const Operand& out, const Operand& in, const KernelParam* params) {
  Engine(reduction_of(kind, compute, in.dtype, params), shape, reduce_mask, {&out, 1}, in).run();
}

void run_masked_reduce(ReduceKind kind, DType compute, std::span<const int64_t> shape, uint64_t reduce_mask,
                       const Operand& out, const Operand& in, const Operand& mask, DType fill_dtype, const void* fill,
                       const KernelParam* params) {
  const Under under{mask, &pw::where, Operand{const_cast<void*>(fill), fill_dtype, kNowhere}};
  Engine(reduction_of(kind, compute, in.dtype, params), shape, reduce_mask, {&out, 1}, in, &under).run();
}

void run_masked_var(DType compute, std::span<const int64_t> shape, uint64_t reduce_mask, double correction,
                    const Operand& out, const Operand& in, const Operand& mask) {
  const DType block = block_dtype(compute, true);
  const Reduction r = {
      find_reduce_kernel(RowOp::kVar, block), block, nullptr, finish_var<double, false>, DType::kFloat64, correction};
  const Operand outs[2] = {out, {nullptr, DType::kFloat64, kNowhere}};
  const Under under{mask, nullptr, {}};
  Engine(r, shape, reduce_mask, outs, in, &under).run();
}

void run_var_mean(DType compute, std::span<const int64_t> shape, uint64_t reduce_mask, double correction,
                  bool take_sqrt, const Operand& var_out, const Operand& mean_out, const Operand& in) {
  if (is_complex(compute)) {
    // Var(x) = Var(Re x) + Var(Im x); the parts of the mean go where they belong.
    TESSERA_CHECK_NOT_IMPLEMENTED(is_complex(in.dtype), "\"var\" not implemented for '", type_name_of(compute),
                                  "' of a real tensor");
    const bool has_var = var_out.data != nullptr, has_mean = mean_out.data != nullptr;
    std::vector<int64_t> kept_shape(shape.begin(), shape.end()), strides(shape.size());
    int64_t n = sizeof(double);
    for (size_t d = shape.size(); d-- > 0;) {
      if (reduce_mask >> d & 1) kept_shape[d] = 1;
      strides[d] = reduce_mask >> d & 1 ? 0 : n;
      n *= kept_shape[d];
    }
    std::vector<double> parts[2];
    const DType real = compute == DType::kComplex128 ? DType::kFloat64 : DType::kFloat32;
    for (int k = 0; k < 2; ++k) {
      parts[k].resize(n / sizeof(double) + 1);
      const Operand part_var{has_var ? parts[k].data() : nullptr, DType::kFloat64, strides.data()};
      const Operand part_mean = has_mean && is_complex(mean_out.dtype)
                                    ? part_of(mean_out, k)
                                    : Operand{nullptr, DType::kFloat64, strides.data()};
      run_var_mean(real, shape, reduce_mask, correction, false, part_var, part_mean, part_of(in, k));
    }
    if (!has_var) return;
    for (size_t i = 0; i < parts[0].size(); ++i) {
      parts[0][i] += parts[1][i];
      if (take_sqrt) parts[0][i] = std::sqrt(parts[0][i]);
    }
    std::vector<int64_t> dense(strides);
    copy_strided(kept_shape, var_out, Operand{parts[0].data(), DType::kFloat64, dense.data()});
    return;
  }
  const DType block = block_dtype(compute, true);
  TESSERA_CHECK_NOT_IMPLEMENTED(block == DType::kFloat32 || block == DType::kFloat64, "\"var\" not implemented for '",
                                type_name_of(compute), "'");
  // Results leave in float64, so that the parts of a complex variance are added before they are rounded.
  const Reduction r = {find_reduce_kernel(RowOp::kVar, block),
                       block,
                       nullptr,
                       take_sqrt ? finish_var<double, true> : finish_var<double, false>,
                       DType::kFloat64,
                       correction};
  Operand outs[2] = {var_out, mean_out};
  std::vector<int64_t> zeros;
  for (Operand& o : outs) {
    if (o.data == nullptr && o.strides == nullptr) {
      zeros.assign(shape.size(), 0);
      o.strides = zeros.data();
    }
  }
  Engine(r, shape, reduce_mask, outs, in).run();
}

}  // namespace tessera::cpu
