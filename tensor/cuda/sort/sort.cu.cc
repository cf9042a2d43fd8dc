// Sorting and selection along a dimension. Short rows are sorted in shared memory (sort_short.cu.cc), long ones by
// digits (sort_radix.cu.cc); of the elements of long rows that are not all wanted, the last one wanted is found digit
// by digit first.
#include <algorithm>
#include <cstdlib>

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/sort/engines.h"
#include "tensor/cuda/support/prefix.h"
#include "tensor/cuda/sort/sort_lines.h"
#include "tensor/cuda/sort/sort_radix.h"
#include "tensor/cuda/sort/sort_tiles.h"

namespace tessera::cuda {
namespace {

constexpr int64_t kGroup =
    int64_t{1} << 30;  // elements of the rows that are sorted together: bounds the temporary memory

SortLines make_lines(std::span<const int64_t> shape, int dim, int64_t k, const KeyRule& rule, const Operand& values,
                     const Operand& indices, const Operand& in) {
  const Operand* operands[3] = {&values, &indices, &in};
  int64_t sizes[64], strides[3][64];
  SortLines lines;
  size_t rank = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (static_cast<int>(d) == dim) continue;
    TESSERA_CHECK(rank < 64, "tensors have at most 64 dimensions");
    sizes[rank] = shape[d];
    for (int o = 0; o < 3; ++o) strides[o][rank] = operands[o]->data ? operands[o]->strides[d] : 0;
    ++rank;
  }
  lines.rows = make_walk<3>({sizes, rank}, {strides[0], strides[1], strides[2]}, !values.data);
  for (int o = 0; o < 3; ++o) {
    lines.data[o] = static_cast<char*>(operands[o]->data);
    lines.step[o] = shape.empty() || !operands[o]->data ? 0 : operands[o]->strides[dim];
  }
  lines.n = shape.empty() ? 1 : shape[dim];
  lines.k = k;
  lines.rule = rule;
  lines.across = lines.rows.rank > 0 && std::abs(lines.rows.strides[0][2]) < std::abs(lines.step[2]);
  return lines;
}

// ---- sorting of long rows

template <class Key>
struct MakeKeys {
  SortLines lines;
  int64_t first_row, rows;
  Key* keys;
  __device__ void operator()(int64_t x) const {
    int64_t row, i;
    lines.split(x, rows, lines.n, row, i);
    keys[row * lines.n + i] = static_cast<Key>(lines.key(first_row + row, i));
  }
};
template <class Key>
Buffer make_keys(const SortLines& lines, int64_t first_row, int64_t rows) {
  Buffer keys(rows * lines.n * sizeof(Key));
  for_each(rows * lines.n, MakeKeys<Key>{lines, first_row, rows, keys.as<Key>()});
  return keys;
}

// The first k of each row of sorted keys.
template <class Key, class Pos>
struct WriteSorted {
  SortLines lines;
  int64_t first_row, rows, n;
  const Key* keys;
  const Pos* positions;
  const Pos* candidates;  // if not null, positions are those of candidates
  __device__ void operator()(int64_t x) const {
    int64_t row, i;
    lines.split(x, rows, lines.k, row, i);
    const Pos p = positions[row * n + i];
    lines.write(first_row + row, i, keys[row * n + i], static_cast<int64_t>(candidates ? candidates[row * n + p] : p));
  }
};

template <class Key, class Pos>
void sort_rows(const SortLines& lines, int64_t first_row, int64_t rows) {
  const Sorted<Key, Pos> sorted =
      radix_sort<Key, Pos>(make_keys<Key>(lines, first_row, rows), rows, lines.n, lines.rule.bits());
  for_each(rows * lines.k, WriteSorted<Key, Pos>{lines, first_row, rows, lines.n, sorted.keys.template as<Key>(),
                                                 sorted.positions.template as<Pos>(), nullptr});
}

// ---- selection

// The search for the last key wanted of a row: its digits so far, and which of the keys that share them it is.
template <class Key>
struct Wanted {
  Key key;
  uint64_t left;
};
template <class Key>
struct StartSelection {
  Wanted<Key>* wanted;
  int64_t k;
  __device__ void operator()(int64_t row) const { wanted[row] = {0, static_cast<uint64_t>(k)}; }
};

// Keys by digit, of those that share the digits above with the one looked for; counts: kDigits for each row.
template <class Key>
__global__ void count_candidates(Tiles tiles, const Key* keys, const Wanted<Key>* wanted, int shift, int bits,
                                 unsigned long long* counts) {
  __shared__ unsigned of_block[kDigits];
  const Tile tile = tiles.tile();
  of_block[threadIdx.x] = 0;
  __syncthreads();
  const Key above = shift + kDigitBits < bits ? static_cast<Key>(~Key{0}) << (shift + kDigitBits) : Key{0};
  const Key prefix = wanted[tile.row].key;
  for (int i = threadIdx.x; i < tile.n; i += kTileThreads) {
    const Key key = keys[tile.first + i];
    if (((key ^ prefix) & above) == 0) atomicAdd(of_block + digit_of(key, shift), 1u);
  }
  __syncthreads();
  if (of_block[threadIdx.x] > 0)
    atomicAdd(counts + tile.row * kDigits + threadIdx.x, static_cast<unsigned long long>(of_block[threadIdx.x]));
}

// A block for each row takes the next digit; counts are 0 afterwards.
template <class Key>
__global__ void take_digit(Wanted<Key>* wanted, int shift, unsigned long long* counts) {
  unsigned long long& count = counts[int64_t{blockIdx.x} * kDigits + threadIdx.x];
  const uint64_t n = count, left = wanted[blockIdx.x].left;
  const uint64_t before = block_scan(
                              n, [](uint64_t a, uint64_t b) { return a + b; }, uint64_t{0})
                              .before;
  __syncthreads();
  count = 0;
  if (before >= left || before + n < left) return;
  wanted[blockIdx.x].key |= static_cast<Key>(threadIdx.x) << shift;
  wanted[blockIdx.x].left = left - before;
}

// Of a tile: keys below the last one wanted in the low half, keys equal to it in the high half.
template <class Key>
__device__ inline uint64_t place_of(Key key, Key last) {
  return key < last ? 1 : key == last ? uint64_t{1} << 32 : 0;
}

template <class Key>
__global__ void count_wanted(Tiles tiles, const Key* keys, const Wanted<Key>* wanted, uint64_t* counts) {
  const Tile tile = tiles.tile();
  const Key last = wanted[tile.row].key;
  uint64_t sum = 0;
  for (int i = threadIdx.x; i < tile.n; i += kTileThreads) sum += place_of(keys[tile.first + i], last);
  sum = block_reduce(sum, [](uint64_t a, uint64_t b) { return a + b; });
  if (threadIdx.x == 0) counts[blockIdx.x] = sum;
}

// Keys below the last one wanted go in front, then as many that are equal to it as are wanted, both in the order of
// their positions. starts: the summed counts.
template <class Key, class Pos>
__global__ void collect_wanted(Tiles tiles, const Key* keys, const Wanted<Key>* wanted, const uint64_t* starts,
                               int64_t k, Key* to_keys, Pos* to_positions) {
  const Tile tile = tiles.tile();
  const Key last = wanted[tile.row].key;
  const int64_t equals = static_cast<int64_t>(wanted[tile.row].left), smaller = k - equals;
  const int first = static_cast<int>(threadIdx.x) * kTileItems;
  Key mine[kTileItems];
  uint64_t sum = 0;
  for (int u = 0; u < kTileItems; ++u) {
    if (first + u >= tile.n) continue;
    mine[u] = keys[tile.first + first + u];
    sum += place_of(mine[u], last);
  }
  const uint64_t of_row = starts[blockIdx.x] - starts[tile.row * tiles.of_row];
  uint64_t place = of_row + block_scan(
                                sum, [](uint64_t a, uint64_t b) { return a + b; }, uint64_t{0})
                                .before;
  for (int u = 0; u < kTileItems; ++u) {
    if (first + u >= tile.n) continue;
    const int64_t below = static_cast<int64_t>(place & 0xffffffffu), same = static_cast<int64_t>(place >> 32);
    place += place_of(mine[u], last);
    if (mine[u] > last || (mine[u] == last && same >= equals)) continue;
    const int64_t to = tile.row * k + (mine[u] < last ? below : smaller + same);
    to_keys[to] = mine[u];
    to_positions[to] = static_cast<Pos>(tile.first_of_row + first + u);
  }
}

template <class Key, class Pos>
void select_rows(const SortLines& lines, int64_t first_row, int64_t rows) {
  const Tiles tiles(rows, lines.n);
  const int64_t k = lines.k;
  const int bits = lines.rule.bits();
  Buffer keys = make_keys<Key>(lines, first_row, rows);
  const Buffer wanted(rows * sizeof(Wanted<Key>)), digits(rows * kDigits * sizeof(unsigned long long)),
      counts(rows * tiles.of_row * sizeof(uint64_t));
  for_each(rows, StartSelection<Key>{wanted.as<Wanted<Key>>(), k});
  fill_bytes(digits.get(), 0, rows * kDigits * sizeof(unsigned long long));
  for (int shift = bits - kDigitBits; shift >= 0; shift -= kDigitBits) {
    launch_blocks(count_candidates<Key>, tiles.blocks(), dim3(kTileThreads), 0, tiles, keys.as<Key>(),
                  wanted.as<Wanted<Key>>(), shift, bits, digits.as<unsigned long long>());
    launch_blocks(take_digit<Key>, dim3(static_cast<unsigned>(rows)), dim3(kDigits), 0, wanted.as<Wanted<Key>>(), shift,
                  digits.as<unsigned long long>());
  }
  launch_blocks(count_wanted<Key>, tiles.blocks(), dim3(kTileThreads), 0, tiles, keys.as<Key>(),
                wanted.as<Wanted<Key>>(), counts.as<uint64_t>());
  exclusive_sums(counts.as<uint64_t>(), rows * tiles.of_row);
  Buffer found(rows * k * sizeof(Key)), positions(rows * k * sizeof(Pos));
  launch_blocks(collect_wanted<Key, Pos>, tiles.blocks(), dim3(kTileThreads), 0, tiles, keys.as<Key>(),
                wanted.as<Wanted<Key>>(), counts.as<uint64_t>(), k, found.as<Key>(), positions.as<Pos>());
  if (k <= kShortRow) {
    sort_short_rows(lines, first_row, rows, {found.get(), positions.get(), sizeof(Key) == 8, sizeof(Pos) == 8});
    return;
  }
  const Sorted<Key, Pos> sorted = radix_sort<Key, Pos>(std::move(found), rows, k, bits);
  for_each(rows * k, WriteSorted<Key, Pos>{lines, first_row, rows, k, sorted.keys.template as<Key>(),
                                           sorted.positions.template as<Pos>(), positions.as<Pos>()});
}

void run_lines(const SortLines& lines) {
  const int64_t rows = lines.rows.numel, n = lines.n;
  if (rows == 0 || lines.k == 0) return;
  const bool select = lines.k <= n / 8;
  const int64_t group = n <= kShortRow ? kGroup : std::max<int64_t>(1, kGroup / n);
  for (int64_t row = 0; row < rows; row += group) {
    const int64_t count = std::min(group, rows - row);
    if (n <= kShortRow)
      sort_short_rows(lines, row, count, {});
    else if (n > INT64_C(0xffffffff))
      sort_rows<uint64_t, uint64_t>(lines, row, count);
    else if (lines.rule.size == 8)
      (select ? select_rows<uint64_t, uint32_t> : sort_rows<uint64_t, uint32_t>)(lines, row, count);
    else
      (select ? select_rows<uint32_t, uint32_t> : sort_rows<uint32_t, uint32_t>)(lines, row, count);
  }
}

}  // namespace

void run_sort(std::span<const int64_t> shape, int dim, bool descending, const Operand& values, const Operand& indices,
              const Operand& in) {
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " Sort does not support complex dtypes on CUDA");
  const KeyRule rule = key_rule(in.dtype, descending, "sort");
  run_lines(make_lines(shape, dim, shape.empty() ? 1 : shape[dim], rule, values, indices, in));
}

void run_topk(std::span<const int64_t> shape, int dim, int64_t k, bool largest, bool, const Operand& values,
              const Operand& indices, const Operand& in) {
  const int64_t n = shape.empty() ? 1 : shape[dim];
  TESSERA_CHECK(k >= 0 && k <= n, "selected index k out of range");
  TESSERA_CHECK_TYPE(!is_complex(in.dtype), " topk does not support complex dtypes on CUDA");
  run_lines(make_lines(shape, dim, k, key_rule(in.dtype, largest, "topk"), values, indices, in));
}

}  // namespace tessera::cuda
