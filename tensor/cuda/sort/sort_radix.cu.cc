// Least significant digit first, 8 bits at a time. The rows are cut into tiles; for each digit the tiles' keys are
// counted, the counts are summed in the order row, digit, tile, which tells each tile where its keys of each digit
// belong, and the tiles move them there.
#include "tensor/cuda/sort/sort_radix.h"

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/support/prefix.h"
#include "tensor/cuda/sort/sort_tiles.h"

namespace tessera::cuda {
namespace {

using internal::kAllLanes;

// Keys of a tile by digit: counts[(row * kDigits + digit) * tiles of a row + tile].
template <class Key, class Pos>
__global__ void count_digits(Tiles tiles, const Key* keys, int shift, Pos* counts) {
  __shared__ unsigned of_warp[kTileWarps][kDigits];  // a table for each warp: threads get in each other's way less
  const Tile tile = tiles.tile();
  for (int w = 0; w < kTileWarps; ++w) of_warp[w][threadIdx.x] = 0;
  __syncthreads();
  unsigned* mine = of_warp[threadIdx.x / 32];
  for (int i = threadIdx.x; i < tile.n; i += kTileThreads) atomicAdd(mine + digit_of(keys[tile.first + i], shift), 1u);
  __syncthreads();
  unsigned sum = 0;
  for (int w = 0; w < kTileWarps; ++w) sum += of_warp[w][threadIdx.x];
  counts[(tile.row * kDigits + threadIdx.x) * tiles.of_row + tile.number] = sum;
}

// Shared memory of move_digits: the tile's keys and positions in their new order, the digits' places.
template <class Key, class Pos>
struct MoveSpace {
  Key keys[kTile];
  Pos positions[kTile];
  Pos start[kDigits];                     // a digit's first place in the output, less its first one in the tile
  unsigned of_warp[kTileWarps][kDigits];  // keys of the warp so far; then the warp's first place in the tile
};

// The lanes of the warp whose digit is the same.
__device__ inline unsigned peers_of(unsigned digit) {
  unsigned peers = kAllLanes;
  for (int bit = 0; bit < kDigitBits; ++bit) {
    const bool set = digit >> bit & 1;
    const unsigned with = __ballot_sync(kAllLanes, set);
    peers &= set ? with : ~with;
  }
  return peers;
}

// from_positions: null for 0, 1, 2 ... in each row. starts: the summed counts.
template <class Key, class Pos>
__global__ void move_digits(Tiles tiles, const Key* from_keys, const Pos* from_positions, Key* to_keys,
                            Pos* to_positions, int shift, const Pos* starts) {
  MoveSpace<Key, Pos>& space = *static_cast<MoveSpace<Key, Pos>*>(dynamic_shared());
  const Tile tile = tiles.tile();
  const int t = threadIdx.x, lane = t % 32, warp = t / 32;
  unsigned* seen = space.of_warp[warp];
  for (int w = 0; w < kTileWarps; ++w) space.of_warp[w][t] = 0;
  __syncthreads();

  // A warp's keys lie one behind the other: key u of a lane comes after key u - 1 of all lanes. Places beyond the
  // tile's end count as the last digit, behind all others.
  const int first = warp * 32 * kTileItems + lane;
  Key keys[kTileItems];
  unsigned rank[kTileItems];  // among the warp's keys of that digit
#pragma unroll
  for (int u = 0; u < kTileItems; ++u) {
    const int i = first + u * 32;
    keys[u] = i < tile.n ? from_keys[tile.first + i] : static_cast<Key>(~Key{0});
    const unsigned digit = digit_of(keys[u], shift), peers = peers_of(digit);
    rank[u] = seen[digit] + static_cast<unsigned>(__popc(peers & ((1u << lane) - 1)));
    __syncwarp();
    if (lane == __ffs(static_cast<int>(peers)) - 1) seen[digit] += static_cast<unsigned>(__popc(peers));
    __syncwarp();
  }
  __syncthreads();

  // Thread t looks after digit t.
  unsigned sum = 0;
  for (int w = 0; w < kTileWarps; ++w) sum += space.of_warp[w][t];
  unsigned place = block_scan(
                       sum, [](unsigned a, unsigned b) { return a + b; }, 0u)
                       .before;
  space.start[t] = starts[(tile.row * kDigits + t) * tiles.of_row + tile.number] - place;
  for (int w = 0; w < kTileWarps; ++w) {
    const unsigned n = space.of_warp[w][t];
    space.of_warp[w][t] = place;
    place += n;
  }
  __syncthreads();

#pragma unroll
  for (int u = 0; u < kTileItems; ++u) {
    const int i = first + u * 32;
    if (i >= tile.n) continue;
    const unsigned to = seen[digit_of(keys[u], shift)] + rank[u];
    space.keys[to] = keys[u];
    space.positions[to] = from_positions ? from_positions[tile.first + i] : static_cast<Pos>(tile.first_of_row + i);
  }
  __syncthreads();
  for (int i = t; i < tile.n; i += kTileThreads) {
    const Key key = space.keys[i];
    const Pos to = space.start[digit_of(key, shift)] + static_cast<Pos>(i);
    to_keys[to] = key;
    to_positions[to] = space.positions[i];
  }
}

template <class Pos>
struct Count {
  Pos* positions;
  int64_t n;
  __device__ void operator()(int64_t i) const { positions[i] = static_cast<Pos>(i % n); }
};

}  // namespace

template <class Key, class Pos>
Sorted<Key, Pos> radix_sort(Buffer keys, int64_t rows, int64_t n, int bits) {
  const int64_t total = rows * n;
  Sorted<Key, Pos> now{std::move(keys), Buffer(total * sizeof(Pos))};
  if (total == 0) return now;
  if (bits <= 0) {
    for_each(total, Count<Pos>{now.positions.template as<Pos>(), n});
    return now;
  }
  Sorted<Key, Pos> next{Buffer(total * sizeof(Key)), Buffer(total * sizeof(Pos))};
  const Tiles tiles(rows, n);
  const Buffer counts(rows * tiles.of_row * kDigits * sizeof(Pos));
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    launch_blocks(count_digits<Key, Pos>, tiles.blocks(), dim3(kTileThreads), 0, tiles, now.keys.template as<Key>(),
                  shift, counts.as<Pos>());
    exclusive_sums(counts.as<Pos>(), rows * tiles.of_row * kDigits);
    launch_blocks(move_digits<Key, Pos>, tiles.blocks(), dim3(kTileThreads), sizeof(MoveSpace<Key, Pos>), tiles,
                  now.keys.template as<Key>(), shift == 0 ? nullptr : now.positions.template as<Pos>(),
                  next.keys.template as<Key>(), next.positions.template as<Pos>(), shift, counts.as<Pos>());
    std::swap(now, next);
  }
  return now;
}

template Sorted<uint32_t, uint32_t> radix_sort(Buffer, int64_t, int64_t, int);
template Sorted<uint64_t, uint32_t> radix_sort(Buffer, int64_t, int64_t, int);
template Sorted<uint64_t, uint64_t> radix_sort(Buffer, int64_t, int64_t, int);

}  // namespace tessera::cuda
