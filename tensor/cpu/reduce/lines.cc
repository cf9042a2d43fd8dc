// The loops of lines.h.
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/reduce/lines.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/strided_nest.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 8192;  // elements worth a task
constexpr int64_t kTileBytes =
    131072;  // of the largest operand in scratch, where lines are gathered: neighbours share cache lines
constexpr int64_t kDenseBytes = 16384;  // the same where they are only converted
constexpr int64_t kTileRows = 64;

struct Walk {
  std::span<const LineOperand> operands;
  Nest<kMaxLineOperands> nest;
  int64_t along[kMaxLineOperands];  // stride along the line
  bool direct[kMaxLineOperands];
  int64_t tile;  // lines at a time
  char* scratch[kMaxLineOperands];

  int64_t step(int k) const { return nest.inner_stride(k); }

  void copy(int k, char* there, int64_t rows, bool back) const {
    const LineOperand& o = operands[k];
    const int64_t size = item_size(o.as);
    const int64_t shape[2] = {rows, o.length}, dense[2] = {o.length * size, size}, strides[2] = {step(k), along[k]};
    const Operand outside{there, o.operand.dtype, strides}, inside{scratch[k], o.as, dense};
    if (back) {
      copy_strided(shape, outside, inside);
    } else {
      copy_strided(shape, inside, outside);
    }
  }
  template <class F>
  void group(const int64_t (&offset)[kMaxLineOperands], int64_t first, int64_t rows, F&& fn) const {
    Lines lines{rows, {}, {}};
    for (size_t k = 0; k < operands.size(); ++k) {
      const LineOperand& o = operands[k];
      if (o.operand.data == nullptr) continue;
      char* there = at_byte(o.operand.data, offset[k] + first * step(k));
      lines.data[k] = direct[k] ? there : scratch[k];
      lines.row_stride[k] = direct[k] ? step(k) : o.length * item_size(o.as);
      if (!direct[k] && !o.output) copy(k, there, rows, false);
    }
    fn(lines);
    for (size_t k = 0; k < operands.size(); ++k) {
      const LineOperand& o = operands[k];
      if (o.operand.data != nullptr && o.output && !direct[k])
        copy(k, at_byte(o.operand.data, offset[k] + first * step(k)), rows, true);
    }
  }
};

}  // namespace

void run_lines_erased(std::span<const int64_t> shape, int dim, std::span<const LineOperand> operands, int64_t max_rows,
                      void (*fn)(void* context, const Lines&), void* context) {
  const int n = static_cast<int>(operands.size());
  Walk walk;
  walk.operands = operands;
  const bool scalar = shape.empty();
  auto stride = [&](int k, int d) {
    return operands[k].operand.strides != nullptr ? operands[k].operand.strides[d] : 0;
  };
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d == dim) continue;
    int64_t s[kMaxLineOperands] = {};
    for (int k = 0; k < n; ++k) s[k] = operands[k].operand.data != nullptr ? stride(k, d) : 0;
    walk.nest.push(shape[d], s);
  }
  walk.nest.sort_by(n - 1);
  walk.nest.coalesce();
  const int64_t count = walk.nest.count();
  if (count == 0) return;
  int64_t longest = 1, copied_bytes = 0;
  bool dense = true;
  for (int k = 0; k < n; ++k) {
    const LineOperand& o = operands[k];
    const int64_t size = item_size(o.as);
    walk.along[k] = scalar || o.operand.data == nullptr ? size : stride(k, dim);
    walk.direct[k] = o.operand.dtype == o.as && (walk.along[k] == size || o.length <= 1);
    longest = std::max(longest, o.length);
    if (!walk.direct[k] && o.operand.data != nullptr) dense &= walk.along[k] == item_size(o.operand.dtype);
    if (!walk.direct[k]) copied_bytes = std::max(copied_bytes, o.length * size);
  }
  const int64_t run = walk.nest.inner_size();
  walk.tile = std::min(run, copied_bytes == 0 ? max_rows
                            : dense           ? kDenseBytes / copied_bytes
                                              : std::clamp<int64_t>(kTileBytes / copied_bytes, 8, kTileRows));
  walk.tile = std::max<int64_t>(1, std::min(walk.tile, max_rows));
  const int64_t grain =
      std::max<int64_t>(copied_bytes == 0 ? 1 : walk.tile, even_grain(count, count * longest, kGrain));
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    Walk mine = walk;
    std::optional<internal::Scratch> storage[kMaxLineOperands];
    for (int k = 0; k < n; ++k) {
      if (walk.direct[k] || operands[k].operand.data == nullptr) continue;
      storage[k].emplace(static_cast<size_t>(walk.tile * operands[k].length * item_size(operands[k].as)));
      mine.scratch[k] = storage[k]->as<char>();
    }
    for_each_run(walk.nest, begin, end, [&](const int64_t(&offset)[kMaxLineOperands], int64_t len) {
      for (int64_t i = 0; i < len; i += walk.tile)
        mine.group(offset, i, std::min(walk.tile, len - i), [&](const Lines& lines) { fn(context, lines); });
    });
  });
}

bool run_columns_erased(std::span<const int64_t> shape, int dim, DType as, const Operand& out, const Operand& in,
                        int64_t least, const Operand* mask, void (*fn)(void* context, const Columns&), void* context) {
  if (shape.empty() || shape[dim] < 2 || in.dtype != as || out.dtype != as) return false;
  Nest<3> nest;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) {
    if (d != dim) nest.push(shape[d], {in.strides[d], out.strides[d], mask != nullptr ? mask->strides[d] : 0});
  }
  nest.sort_by(0);
  nest.coalesce();
  const int64_t size = item_size(as);
  if (nest.inner_stride(0) != size || nest.inner_stride(1) != size || nest.inner_size() < 8) return false;
  const int64_t rows = shape[dim];
  // Wide pieces where rows come from memory, narrow ones so that threads find work where they are in cache. Whole
  // vectors, but for the last one.
  const int64_t count = nest.count(), width = count * rows >= (int64_t{1} << 22) ? 512 : 64;
  const int64_t grain = (even_grain(count, count * rows, std::max(width * rows, least)) + 15) / 16 * 16;
  parallel_ranges(count, grain, [&](int64_t begin, int64_t end) {
    for_each_run(nest, begin, end, [&](const int64_t(&offset)[3], int64_t len) {
      Columns c{rows,
                len,
                at_byte(static_cast<const void*>(in.data), offset[0]),
                at_byte(out.data, offset[1]),
                in.strides[dim],
                out.strides[dim],
                nullptr,
                0,
                0};
      if (mask != nullptr) {
        c.mask = at_byte(static_cast<const void*>(mask->data), offset[2]);
        c.mask_stride = mask->strides[dim], c.mask_step = nest.inner_stride(2);
      }
      fn(context, c);
    });
  });
  return true;
}

}  // namespace tessera::cpu
