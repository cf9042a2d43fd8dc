// What the attention kernels are told, and how they are started.
#pragma once

#include <cstdint>

#include "nn/cpu/attention/attention.h"
#include "tensor/core/generator/generator.h"
#include "tensor/cuda/runtime/runtime.h"

namespace tessera::cuda::attention {

// Which weights are dropped: words[0] is the seed, words[1] a position of the generator's streams; each row has a
// stream and four keys a step. Null words: none are.
struct Drop {
  const uint64_t* words;
  float kept;    // probability
  double scale;  // what kept weights are multiplied by
};

// All that a kernel must know.
struct Job {
  cpu::AttentionShape shape;
  cpu::AttentionOperand query, key, value, out, grad_out, grad_query, grad_key, grad_value;
  cpu::AttentionMask mask;
  Drop drop;
  void* logsumexp;
  void* delta;  // backward: each row's sum of out * grad_out, like logsumexp
  int pack;     // forward: so many query heads share a tile's rows (they share key and value too)
  int splits;  // forward: parts of the keys; more than one: results and logsumexp go to the partial ones, for combine()
  int64_t split_keys;
  void* partial_out;                                             // [splits, batch, heads, queries, value_dim]
  void* partial_logsumexp;                                       // [splits, batch, heads, queries]
  bool query_vectors, key_vectors, value_vectors, grad_vectors;  // rows begin at multiples of 16 bytes
};

inline __host__ __device__ int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Parts of a result's columns; one if it has none.
inline __host__ __device__ int parts_of(int64_t columns, int64_t of_part) {
  return columns > 0 ? static_cast<int>(ceil_div(columns, of_part)) : 1;
}

enum class Arithmetic { kHalf, kBFloat16, kTf32, kFloat32 };

// False where a block's shared memory is too small for such rows.
bool tiled_forward(Job job, Arithmetic arithmetic);
bool tiled_forward_small(Job job, Arithmetic arithmetic);
bool tiled_backward(Job job, Arithmetic arithmetic);
// Kernels with a warp for each row: any dtype and number of features.
void rows_forward(Job job);
void rows_backward(Job job);
// job.delta.
void run_delta(const Job& job);
// Takes `steps` of each of the generator's streams; where they begin, and the seed, go to words on the device.
void draw_words(const Generator& gen, uint64_t steps, uint64_t* words);
// The weights of a job with dropout that are not dropped.
void write_kept(const Job& job, bool* kept);
// Joins the results of parts of the keys.
void combine(const Job& job);

// Into how many parts to cut the keys so that there are blocks enough for a large device. From the shape alone: any
// device gives the same bits.
inline int splits_for(int64_t blocks, int64_t key_blocks, int64_t enough) {
  if (blocks <= 0 || blocks > enough / 2) return 1;
  const int64_t wanted = ceil_div(enough, blocks), most = key_blocks / 4;
  const int64_t n = wanted < most ? wanted : most;
  return static_cast<int>(n < 1 ? 1 : n > 64 ? 64 : n);
}
// Cuts the keys into `splits` parts of whole blocks and makes room for their results.
struct Partial {
  Buffer out, logsumexp;
};
Partial prepare_splits(Job& job, int splits, int64_t block_keys);

}  // namespace tessera::cuda::attention
