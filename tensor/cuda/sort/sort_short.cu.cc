// Short rows: a bitonic network in shared memory, on pairs of key and position, which are all different, so that the
// result is that of a stable sort.
#include "tensor/cuda/sort/sort_lines.h"

namespace tessera::cuda {
namespace {

struct Narrow {
  uint64_t word;
  __device__ static Narrow make(uint64_t key, uint32_t position) { return {key << 32 | position}; }
  __device__ static Narrow last() { return {~uint64_t{0}}; }
  __device__ uint64_t key() const { return word >> 32; }
  __device__ uint32_t position() const { return static_cast<uint32_t>(word); }
  __device__ bool operator<(const Narrow& o) const { return word < o.word; }
};
struct alignas(16) Wide {
  uint64_t bits, at;
  __device__ static Wide make(uint64_t key, uint32_t position) { return {key, position}; }
  __device__ static Wide last() { return {~uint64_t{0}, ~uint64_t{0}}; }
  __device__ uint64_t key() const { return bits; }
  __device__ uint32_t position() const { return static_cast<uint32_t>(at); }
  __device__ bool operator<(const Wide& o) const { return bits < o.bits || (bits == o.bits && at < o.at); }
};

// How the threads of a block share out `rows` rows of `length` elements.
struct Share {
  int rows, length;
  bool across;  // neighbouring threads take neighbouring rows
  __device__ int row(int e) const { return across ? e % rows : e / length; }
  __device__ int column(int e) const { return across ? e / rows : e % length; }
};

// A block sorts share.rows rows of n elements; share.length is a power of two.
template <class Pair>
__global__ void sort_rows(SortLines lines, int64_t first_row, int64_t rows, int64_t n, Share share,
                          Candidates candidates) {
  Pair* pairs = static_cast<Pair*>(dynamic_shared());
  const int t = threadIdx.x, threads = blockDim.x, elements = share.rows * share.length;
  const int64_t block_row = int64_t{blockIdx.x} * share.rows;
  for (int e = t; e < elements; e += threads) {
    const int r = share.row(e), i = share.column(e);
    const int64_t row = block_row + r;
    Pair p = Pair::last();
    if (row < rows && i < n)
      p = Pair::make(candidates.keys ? candidates.key(row * n + i) : lines.key(first_row + row, i),
                     static_cast<uint32_t>(i));
    pairs[r * share.length + i] = p;
  }
  // Pairs of neighbours up to 32 apart are exchanged inside one warp, which needs no other one then.
  bool alone = false;
  for (int size = 2; size <= share.length; size *= 2) {
    for (int distance = size / 2; distance > 0; distance /= 2) {
      if (alone && distance <= 32)
        __syncwarp();
      else
        __syncthreads();
      alone = distance <= 32;
      for (int x = t; x < elements / 2; x += threads) {
        const int a = 2 * x - (x & (distance - 1)), b = a + distance;
        const bool ascending = ((a & (share.length - 1)) & size) == 0;
        const Pair low = pairs[a], high = pairs[b];
        if ((high < low) == ascending) {
          pairs[a] = high;
          pairs[b] = low;
        }
      }
    }
  }
  __syncthreads();
  for (int e = t; e < elements; e += threads) {
    const int r = share.row(e), i = share.column(e);
    const int64_t row = block_row + r;
    if (row >= rows || i >= lines.k) continue;
    const Pair p = pairs[r * share.length + i];
    lines.write(first_row + row, i, p.key(),
                candidates.keys ? candidates.position(row * n + p.position()) : p.position());
  }
}

}  // namespace

void sort_short_rows(const SortLines& lines, int64_t first_row, int64_t rows, const Candidates& candidates) {
  const int64_t n = candidates.keys ? lines.k : lines.n;
  if (rows == 0 || n == 0) return;
  Share share{1, 1, false};
  while (share.length < n) share.length *= 2;
  const int at_least = lines.across ? 2048 : 512;
  if (share.length < at_least) share.rows = at_least / share.length;
  share.across = lines.across && share.rows > 1;
  const bool wide = lines.rule.size == 8;
  const int elements = share.rows * share.length;
  const dim3 blocks(static_cast<unsigned>((rows + share.rows - 1) / share.rows)),
      threads(static_cast<unsigned>(elements <= 1024 ? 256 : elements / 4));
  launch_blocks(wide ? sort_rows<Wide> : sort_rows<Narrow>, blocks, threads,
                elements * (wide ? sizeof(Wide) : sizeof(Narrow)), lines, first_row, rows, n, share, candidates);
}

}  // namespace tessera::cuda
