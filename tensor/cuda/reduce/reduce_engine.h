// The reduction engine of CUDA devices. A reduction is (outputs x reduced elements) after sorting by stride and joining
// dimensions. A group of threads of one block takes an output, or, where the reduced elements are many and the outputs
// few, one piece of it; then a second kernel merges the pieces. Either the threads of a group are neighbours (rows: the
// reduced elements lie close together) or the threads of neighbouring outputs are (columns). Each thread reads batches
// of eight elements. The order in which elements are combined depends on shape and strides alone.
//
// An operator Op has:
//   Value, Local, Acc     the type of elements, of what a thread gathers, of what threads merge
//   Local start()         of no elements
//   void add(Local&, const Value (&)[kBatch], int64_t first), void add(Local&, Value, int64_t at)
//                         elements with their numbers
//   Acc close(const Local&), Acc merge(Acc, Acc)
//   void finish(const Acc&, int64_t count, const Result (&)[2])
//                         writes one element of each output
// An Input has kOperands and loads elements at given offsets of its operands: one, or one or two batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "tensor/cuda/support/block.h"
#include "tensor/cuda/reduce/reduce_elements.h"
#include "tensor/cuda/support/walk.h"

namespace tessera::cuda::reduction {

// Where a result goes: data is null if nobody wants it.
struct Result {
  char* data;
  DType dtype;
};

// How the work is cut. All of it depends on the number of outputs and of reduced elements only.
struct Cut {
  int64_t outputs, reduced;
  int group;  // threads of an output, a power of two
  bool columns;
  int64_t piece;  // reduced elements of one block, a multiple of group * kBatch
  int pieces;     // blocks of an output
  int per_block() const { return kThreads / group; }
  dim3 blocks() const {
    return dim3(static_cast<unsigned>((outputs + per_block() - 1) / per_block()), static_cast<unsigned>(pieces));
  }
};
Cut make_cut(int64_t outputs, int64_t reduced, bool columns);

// The elements of one thread: batches `step` apart in [begin, end), then what is left of them.
struct Span {
  int64_t begin, end;
  int member, group;
};

// Offsets of reduced element i, and whether the batch that starts there lies in steps of the innermost stride.
template <int kOperands>
__device__ bool batch_offsets(const Walk<kOperands>& w, int64_t i, int64_t (&offsets)[kOperands]) {
  if (w.rank <= 1) {
    for (int k = 0; k < kOperands; ++k) offsets[k] = i * w.strides[0][k];
    return true;
  }
  w.offsets(i, offsets);
  const int64_t inner = w.sizes[0];
  const int64_t at = (static_cast<uint64_t>(i) | static_cast<uint64_t>(inner)) >> 32
                         ? i % inner
                         : static_cast<uint32_t>(i) % static_cast<uint32_t>(inner);
  return at + kBatch <= inner;
}

// Adds the elements of a thread to `local`, where possible two batches at a time, so that more loads are on their way.
// start: the output's offsets.
template <class Op, class Input>
__device__ void gather(const Op& op, typename Op::Local& local, const Input& in, const Walk<Input::kOperands>& walk,
                       const int64_t* start, const Span& s) {
  using V = typename Op::Value;
  constexpr int kOperands = Input::kOperands;
  const int64_t step = int64_t{s.group} * kBatch;
  for (int64_t i = s.begin + s.member * kBatch; i < s.end; i += step) {
    int64_t first[kOperands], second[kOperands] = {};
    if (i + kBatch <= s.end && batch_offsets(walk, i, first)) {
      V x[kBatch], y[kBatch];
      const bool two = sizeof(V) <= 4 && i + step + kBatch <= s.end && batch_offsets(walk, i + step, second);
      for (int k = 0; k < kOperands; ++k) first[k] += start[k], second[k] += start[k];
      in.load(walk, first, two, second, x, y);
      op.add(local, x, i);
      if (two) {
        i += step;
        op.add(local, y, i);
      }
    } else {
      const int64_t end = i + kBatch < s.end ? i + kBatch : s.end;
#pragma unroll 1
      for (int64_t j = i; j < end; ++j) {
        walk.offsets(j, first);
        for (int k = 0; k < kOperands; ++k) first[k] += start[k];
        op.add(local, in.load(first), j);
      }
    }
  }
}

// One tensor.
template <class V>
struct OneInput {
  static constexpr int kOperands = 1;
  const char* data;
  DType dtype;

  __device__ void load(const Walk<1>& walk, const int64_t (&first)[1], bool two, const int64_t (&second)[1],
                       V (&x)[kBatch], V (&y)[kBatch]) const {
    const int64_t stride = walk.strides[0][0];
    with_usual_type<V>(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      load_batch<V, T>(dtype, data + first[0], stride, x);
      if (two) load_batch<V, T>(dtype, data + second[0], stride, y);
    });
  }
  __device__ V load(const int64_t (&offsets)[1]) const { return load_any<V>(dtype, data + offsets[0]); }
};

// Adds the values of an output's threads; the thread of member 0 has the result.
template <class Op>
__device__ typename Op::Acc merge_group(const Op& op, typename Op::Acc acc, const Cut& cut, int member) {
  using Acc = typename Op::Acc;
  auto merge = [&](const Acc& a, const Acc& b) { return op.merge(a, b); };
  if (!cut.columns) return group_reduce(acc, merge, cut.group);
  if (cut.group == 1) return acc;
  alignas(16) __shared__ unsigned char scratch[kThreads * sizeof(Acc)];
  Acc* all = reinterpret_cast<Acc*>(scratch);
  const int t = threadIdx.x, between = kThreads / cut.group;
  all[t] = acc;
  __syncthreads();
  for (int d = 1; d < cut.group; d *= 2) {
    if ((member & (2 * d - 1)) == 0) {
      acc = op.merge(acc, all[t + d * between]);
      all[t] = acc;
    }
    __syncthreads();
  }
  return acc;
}

template <class Op, int kOperands>
__device__ void emit(const Op& op, const typename Op::Acc& acc, int64_t count, const Result& r0, const Result& r1,
                     const int64_t* offsets) {
  const Result results[2] = {{r0.data ? r0.data + offsets[kOperands] : nullptr, r0.dtype},
                             {r1.data ? r1.data + offsets[kOperands + 1] : nullptr, r1.dtype}};
  op.finish(acc, count, results);
}

// kept: the offsets of inputs and results for each output. partial: accumulators [piece][output], where there are
// several pieces.
template <class Op, class Input>
__global__ void __launch_bounds__(kThreads)
    reduce_kernel(Op op, Input in, Cut cut, Walk<Input::kOperands + 2> kept, Walk<Input::kOperands> walk, Result r0,
                  Result r1, void* partial) {
  constexpr int kOperands = Input::kOperands;
  const int t = threadIdx.x, per_block = kThreads / cut.group;
  const int member = cut.columns ? t / per_block : t & (cut.group - 1);
  const int64_t k = int64_t{blockIdx.x} * per_block + (cut.columns ? t & (per_block - 1) : t / cut.group);
  const bool active = k < cut.outputs;
  int64_t offsets[kOperands + 2];
  typename Op::Local local = op.start();
  if (active) {
    kept.offsets(k, offsets);
    const int64_t begin = blockIdx.y * cut.piece,
                  end = begin + cut.piece < cut.reduced ? begin + cut.piece : cut.reduced;
    gather(op, local, in, walk, offsets, Span{begin, end, member, cut.group});
  }
  const typename Op::Acc acc = merge_group(op, op.close(local), cut, member);
  if (!active || member != 0) return;
  if (cut.pieces == 1) {
    emit<Op, kOperands>(op, acc, cut.reduced, r0, r1, offsets);
  } else {
    static_cast<typename Op::Acc*>(partial)[blockIdx.y * cut.outputs + k] = acc;
  }
}

// A warp for each output merges its pieces.
template <class Op, int kOperands>
__global__ void __launch_bounds__(kThreads)
    merge_kernel(Op op, Cut cut, Walk<kOperands + 2> kept, Result r0, Result r1, const void* partial) {
  using Acc = typename Op::Acc;
  const int64_t k = (int64_t{blockIdx.x} * kThreads + threadIdx.x) / 32;
  const int lane = threadIdx.x & 31;
  Acc acc = op.close(op.start());
  if (k < cut.outputs) {
    for (int i = lane; i < cut.pieces; i += 32)
      acc = op.merge(acc, static_cast<const Acc*>(partial)[i * cut.outputs + k]);
  }
  acc = warp_reduce(acc, [&](const Acc& a, const Acc& b) { return op.merge(a, b); });
  if (k >= cut.outputs || lane != 0) return;
  int64_t offsets[kOperands + 2];
  kept.offsets(k, offsets);
  emit<Op, kOperands>(op, acc, cut.reduced, r0, r1, offsets);
}

// A problem's dimensions, sorted by the first input's strides and joined.
template <int kOperands>
struct Dims {
  Walk<kOperands + 2> kept;
  Walk<kOperands> reduced;
  bool columns;
};

// The smallest power of two that is not less than n; at most `most`, which is one.
inline int64_t power_of_two(int64_t n, int64_t most) {
  int64_t p = 1;
  while (p < n && p < most) p *= 2;
  return p;
}

// A stride of 0 counts as far away: broadcast dimensions are no runs of memory.
inline int64_t reach(int64_t stride) { return stride == 0 ? INT64_MAX : stride < 0 ? -stride : stride; }

template <int kOperands>
Dims<kOperands> make_dims(std::span<const int64_t> shape, uint64_t mask, const Operand (&ins)[kOperands],
                          const Operand (&outs)[2]) {
  TESSERA_CHECK(shape.size() <= 64, "tensors of more than 64 dimensions are not supported");
  int64_t kept_shape[64], reduced_shape[64], kept_strides[kOperands + 2][64], reduced_strides[kOperands][64];
  const int64_t *kept_rows[kOperands + 2], *reduced_rows[kOperands];
  for (int k = 0; k < kOperands + 2; ++k) kept_rows[k] = kept_strides[k];
  for (int k = 0; k < kOperands; ++k) reduced_rows[k] = reduced_strides[k];
  size_t kept = 0, reduced = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (mask >> d & 1) {
      reduced_shape[reduced] = shape[d];
      for (int k = 0; k < kOperands; ++k) reduced_strides[k][reduced] = ins[k].strides[d];
      ++reduced;
    } else {
      kept_shape[kept] = shape[d];
      for (int k = 0; k < kOperands; ++k) kept_strides[k][kept] = ins[k].strides[d];
      for (int k = 0; k < 2; ++k) kept_strides[kOperands + k][kept] = outs[k].data != nullptr ? outs[k].strides[d] : 0;
      ++kept;
    }
  }
  Dims<kOperands> r;
  r.kept = make_walk<kOperands + 2>(std::span<const int64_t>(kept_shape, kept), kept_rows, false);
  r.reduced = make_walk<kOperands>(std::span<const int64_t>(reduced_shape, reduced), reduced_rows, false);
  if (r.reduced.rank == 0) {
    for (int k = 0; k < kOperands; ++k) r.reduced.strides[0][k] = 0;
  }
  r.columns = r.kept.rank > 0 && r.reduced.rank > 0 && reach(r.kept.strides[0][0]) < reach(r.reduced.strides[0][0]);
  return r;
}

template <class Op, class Input>
void run(const Op& op, const Input& in, std::span<const int64_t> shape, uint64_t mask,
         const Operand (&ins)[Input::kOperands], const Operand (&outs)[2]) {
  constexpr int kOperands = Input::kOperands;
  for (const Operand& o : ins)
    TESSERA_CHECK_NOT_IMPLEMENTED(has_type(o.dtype), "reductions of '", type_name_of(o.dtype),
                                  "' are not supported on CUDA devices");
  const Dims<kOperands> dims = make_dims<kOperands>(shape, mask, ins, outs);
  if (dims.kept.numel == 0) return;
  const Cut cut = make_cut(dims.kept.numel, dims.reduced.numel, dims.columns);
  const Result r0{static_cast<char*>(outs[0].data), outs[0].dtype}, r1{static_cast<char*>(outs[1].data), outs[1].dtype};
  const Buffer partial(cut.pieces > 1 ? cut.pieces * cut.outputs * sizeof(typename Op::Acc) : 0);
  launch_blocks(reduce_kernel<Op, Input>, cut.blocks(), dim3(kThreads), 0, op, in, cut, dims.kept, dims.reduced, r0, r1,
                partial.get());
  if (cut.pieces == 1) return;
  const dim3 blocks(static_cast<unsigned>((cut.outputs * 32 + kThreads - 1) / kThreads));
  launch_blocks(merge_kernel<Op, kOperands>, blocks, dim3(kThreads), 0, op, cut, dims.kept, r0, r1, partial.get());
}

// The usual case: one input, the second result optional.
template <class Op>
void run(const Op& op, std::span<const int64_t> shape, uint64_t mask, const Operand& in, const Operand& out0,
         const Operand& out1 = {nullptr, DType::kInt64, nullptr}) {
  run(op, OneInput<typename Op::Value>{static_cast<const char*>(in.data), in.dtype}, shape, mask, {in}, {out0, out1});
}

}  // namespace tessera::cuda::reduction
