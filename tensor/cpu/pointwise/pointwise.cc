#include "tensor/cpu/pointwise/pointwise.h"

#include <algorithm>
#include <optional>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/convert.h"
#include "tensor/cpu/support/pieces.h"
#include "tensor/cpu/pointwise/pointwise_plan.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd_move.h"

namespace tessera {

namespace cpu {

// For the kernels: see pointwise-inl.h.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local bool stream_results;
constinit thread_local bool stream_results = false;

namespace {

constexpr int64_t kBlockBytes = 8192,
                  kStreamedBlockBytes = 2048;  // the latter where results go past the caches from scratch
// A row that repeats for all outer indices is laid out in scratch once, if it is not longer than this.
constexpr int64_t kPeriodBytes = 4096;
constexpr int kMaxInputs = 4, kMaxOutputs = 2;

// How one operand reaches the kernel.
struct Access {
  char* data;
  DType dtype, kernel_dtype;
  int64_t size, kernel_size;
  int64_t inner_stride;
  bool flat;              // contiguous in plan order (of its own dtype)
  bool whole;             // no element serves twice
  bool same;              // dtype is what the kernel wants
  bool scalar;            // one element for all: converted once
  bool stream = false;    // an output that goes past the caches
  bool periodic = false;  // a short row for all: likewise
};

Access make_access(const Plan& plan, int k, const Operand& o, DType kernel_dtype) {
  Access a;
  a.data = static_cast<char*>(o.data);
  a.dtype = o.dtype;
  a.kernel_dtype = kernel_dtype;
  a.size = item_size(o.dtype);
  a.kernel_size = item_size(kernel_dtype);
  a.inner_stride = plan.strides[k][0];
  a.flat = plan.is_flat(k, a.size);
  a.whole = std::find(plan.strides[k], plan.strides[k] + plan.ndim, 0) == plan.strides[k] + plan.ndim;
  a.same = o.dtype == kernel_dtype;
  a.scalar = plan.is_scalar(k);
  return a;
}

struct Job {
  BlockKernel kernel;
  const KernelParam* params;
  Plan plan;
  int num_outs, num_ins;
  Access access[kMaxPlanOperands];  // outputs first
  int64_t block;                    // elements
  bool by_rows;                     // blocks end with the row, so that rows can be used in place
  bool kernel_streams = false;      // the kernel itself can store past the caches, to whole lines
  bool requests_ahead = false;      // the kernel's results leave by way of scratch, but it can request large inputs

  // Elements of an output before the next line, which go there in the ordinary way.
  int64_t head(const char* out) const {
    const int64_t bytes = static_cast<int64_t>(-reinterpret_cast<uintptr_t>(out) & 63), size = access[0].size;
    return bytes % size == 0 ? bytes / size : 0;
  }
};

// Contiguous memory for the kernel: the operand's own where it can be, else `scratch`.
bool in_place(const Job& job, const Access& a, int64_t n) {
  if (!a.same) return false;
  return a.flat || n == 1 || (job.by_rows && a.inner_stride == a.size);
}

char* address(const Access& a, const Cursor& c, int k, int64_t linear) {
  return a.flat ? a.data + linear * a.size : a.data + c.row_offset[k] + c.inner * a.inner_stride;
}

struct Scratch {
  alignas(64) char values[kMaxPlanOperands][kBlockBytes + kPeriodBytes];  // of the kernel's dtype
  alignas(64) char raw[kBlockBytes];  // of the operand's dtype, before or after conversion
};

void load(const Job& job, const Access& a, int k, const Cursor& c, int64_t linear, int64_t n, Scratch& s) {
  if (a.flat) return convert(a.kernel_dtype, s.values[k], a.dtype, a.data + linear * a.size, n);
  if (a.same) return gather_block(job.plan, c, k, a.data, n, a.size, s.values[k]);
  gather_block(job.plan, c, k, a.data, n, a.size, s.raw);
  convert(a.kernel_dtype, s.values[k], a.dtype, s.raw, n);
}

void store(const Job& job, const Access& a, int k, const Cursor& c, int64_t linear, int64_t n, Scratch& s) {
  if (a.stream) return convert_stream(a.dtype, a.data + linear * a.size, a.kernel_dtype, s.values[k], n);
  if (a.flat) return convert(a.dtype, a.data + linear * a.size, a.kernel_dtype, s.values[k], n);
  if (a.same) return scatter_block(job.plan, c, k, a.data, n, a.size, s.values[k]);
  convert(a.dtype, s.raw, a.kernel_dtype, s.values[k], n);
  scatter_block(job.plan, c, k, a.data, n, a.size, s.raw);
}

// Operands that are the same for every block.
void load_repeated(const Job& job, Scratch& s, int64_t n) {
  for (int k = job.num_outs; k < job.num_outs + job.num_ins; ++k) {
    const Access& a = job.access[k];
    if (!a.scalar && !a.periodic) continue;
    const int64_t period = a.scalar ? 1 : job.plan.shape[0];
    gather_row(s.raw, a.data, a.inner_stride, period, a.size);
    convert(a.kernel_dtype, s.values[k], a.dtype, s.raw, period);
    const int64_t bytes = period * a.kernel_size, total = (n + (a.scalar ? 0 : period)) * a.kernel_size;
    for (int64_t done = bytes; done < total; done *= 2)
      std::memcpy(s.values[k] + done, s.values[k], std::min(done, total - done));
  }
}

void run_piece(const Job& job, int64_t begin, int64_t end) {
  Scratch s;
  load_repeated(job, s, std::min(job.block, end - begin));
  Cursor c;
  c.seek(job.plan, begin);
  void* outs[kMaxOutputs];
  const void* ins[kMaxInputs];
  for (int64_t at = begin; at < end;) {
    int64_t n = std::min(job.block, end - at);
    if (job.by_rows) n = std::min(n, job.plan.shape[0] - c.inner);
    const int64_t head = job.access[0].stream ? job.head(job.access[0].data + at * job.access[0].size) : 0;
    if (head > 0) n = std::min(n, head);
    for (int i = 0; i < job.num_ins; ++i) {
      const int k = job.num_outs + i;
      const Access& a = job.access[k];
      if (a.scalar || a.periodic) {
        ins[i] = s.values[k] + (a.scalar ? 0 : c.inner * a.kernel_size);
        continue;
      }
      if (in_place(job, a, n)) {
        ins[i] = address(a, c, k, at);
        continue;
      }
      load(job, a, k, c, at, n, s);
      ins[i] = s.values[k];
    }
    for (int k = 0; k < job.num_outs; ++k) {
      const Access& a = job.access[k];
      outs[k] = (!a.stream || job.kernel_streams) && in_place(job, a, n) ? address(a, c, k, at) : s.values[k];
    }
    stream_results = (job.kernel_streams && head == 0) || job.requests_ahead;
    job.kernel(n, outs, ins, job.params);
    stream_results = false;
    for (int k = 0; k < job.num_outs; ++k) {
      if (outs[k] == s.values[k]) store(job, job.access[k], k, c, at, n, s);
    }
    at += n;
    c.advance(job.plan, n);
  }
  if (job.access[0].stream) stream_fence();
}

// Every operand in place: pieces go to the kernel as they are.
void run_flat(const Job& job) {
  parallel_ranges(job.plan.numel, piece_elements(job.plan.numel, job.access[0].stream), [&job](int64_t b, int64_t e) {
    void* outs[kMaxOutputs];
    const void* ins[kMaxInputs];
    for (int k = 0; k < job.num_outs; ++k) outs[k] = job.access[k].data + b * job.access[k].size;
    for (int i = 0; i < job.num_ins; ++i)
      ins[i] = job.access[job.num_outs + i].data + b * job.access[job.num_outs + i].size;
    stream_results = job.kernel_streams;
    job.kernel(e - b, outs, ins, job.params);
    stream_results = false;
    if (job.kernel_streams) stream_fence();
  });
}

// Large results that no input shares its memory with.
void choose_streams(Job& job) {
  int64_t bytes = 0;
  for (int k = 0; k < job.num_outs + job.num_ins; ++k)
    bytes += job.access[k].whole ? job.plan.numel * job.access[k].size : 0;
  if (bytes < kStreamBytes) return;
  bool fresh = true;
  for (int k = 0; k < job.num_outs; ++k) {
    fresh = fresh && job.access[k].flat;
    for (int i = job.num_outs; i < job.num_outs + job.num_ins; ++i)
      fresh = fresh && job.access[k].data != job.access[i].data;
  }
  for (int k = 0; k < job.num_outs; ++k) job.access[k].stream = fresh;
  const Access& first = job.access[0];
  job.requests_ahead = fresh && job.num_outs == 1 && first.dtype == DType::kBool;
  job.kernel_streams =
      fresh && job.num_outs == 1 && first.same && (first.dtype == DType::kFloat32 || first.dtype == DType::kFloat64);
}

// Whether the walk along the rows is the same for all outer indices.
bool is_periodic(const Plan& plan, int k) {
  for (int d = 1; d < plan.ndim; ++d) {
    if (plan.strides[k][d] != 0) return false;
  }
  return plan.ndim > 1;
}

void run_blocks(Job& job) {
  bool all_flat = true, all_same = true, rows_pay = false;
  int64_t widest = 1;
  for (int k = 0; k < job.num_outs + job.num_ins; ++k) {
    Access& a = job.access[k];
    a.periodic = k >= job.num_outs && !a.flat && !a.scalar && is_periodic(job.plan, k) &&
                 job.plan.shape[0] * std::max(a.size, a.kernel_size) <= kPeriodBytes;
    all_flat = all_flat && a.flat && a.same;
    all_same = all_same && a.same;
    rows_pay = rows_pay || (a.same && !a.flat && !a.periodic && a.inner_stride == a.size);
    widest = std::max({widest, a.size, a.kernel_size});
  }
  if (all_flat && job.kernel_streams == job.access[0].stream) return run_flat(job);
  job.block = (!all_same && job.access[0].stream ? kStreamedBlockBytes : kBlockBytes) / widest;
  job.by_rows = rows_pay && job.plan.shape[0] >= 64;
  parallel_ranges(job.plan.numel, piece_elements(job.plan.numel, job.access[0].stream),
                  [&job](int64_t b, int64_t e) { run_piece(job, b, e); });
}

// The plan of a copy of operand k into plan order; long rows begin at lines of the cache.
void make_copy_plan(const Plan& plan, int k, int64_t size, Plan& copy) {
  constexpr int64_t kLongRow = 1024;
  copy.ndim = plan.ndim;
  copy.num_operands = 2;
  copy.numel = plan.numel;
  for (int d = 0; d < plan.ndim; ++d) {
    copy.shape[d] = plan.shape[d];
    copy.strides[0][d] = size;
    copy.strides[1][d] = plan.strides[k][d];
    size *= plan.shape[d];
    if (d == 0 && plan.ndim > 1 && size >= kLongRow) size = (size + 63) / 64 * 64;
  }
}

bool is_transposed(const Job& job, int k) {
  const Access& a = job.access[k];
  if (k < job.num_outs || a.flat || a.scalar || job.plan.ndim < 2) return false;
  Plan copy;
  make_copy_plan(job.plan, k, a.size, copy);
  return transposed_dim(copy, a.size) > 0;
}

// Rows [start, start + count) of the outermost dimension, the transposed operands copied into plan order by tiles.
void run_slab(const Job& job, const bool* transposed, int64_t start, int64_t count) {
  const Plan& plan = job.plan;
  const int last = plan.ndim - 1;
  Job part = job;
  part.plan.shape[last] = count;
  part.plan.numel = plan.numel / plan.shape[last] * count;
  std::optional<internal::Scratch> buffers[kMaxPlanOperands];
  Plan copy;
  for (int k = 0; k < job.num_outs + job.num_ins; ++k) {
    Access& a = part.access[k];
    a.data += start * plan.strides[k][last];
    if (!transposed[k]) continue;
    make_copy_plan(part.plan, k, a.size, copy);
    buffers[k].emplace(static_cast<size_t>(copy.strides[0][last] * count));
    copy_plan(copy, buffers[k]->as<char>(), a.data, a.size);
    std::memcpy(part.plan.strides[k], copy.strides[0], sizeof(int64_t) * plan.ndim);
    a.data = buffers[k]->as<char>();
    a.inner_stride = a.size;
    a.flat = part.plan.is_flat(k, a.size);
  }
  run_blocks(part);
}

// Inputs that are contiguous along another dimension than the output: gathering them row by row would fetch a line per
// element. They are transposed first, a slab of the outermost dimension at a time: enough rows for whole lines, few
// enough for the cache.
void run_transposed(const Job& job, const bool* transposed) {
  const int64_t rows = job.plan.shape[job.plan.ndim - 1], row = job.plan.numel / rows;
  constexpr int64_t kLine = 32;  // rows that are whole lines of the input, whatever its elements
  const int64_t most = (std::max<int64_t>(64, kGrain / row) + kLine - 1) / kLine * kLine;
  const int64_t eighth = std::max(kLine, rows / 8 / kLine * kLine);  // even shares for a few threads
  const int64_t slab = std::min(rows, row > (1 << 20) ? 1 : std::min(most, eighth));
  const int64_t slabs = (rows + slab - 1) / slab;
  parallel_for(slabs, 1, [&](int64_t b, int64_t e) {
    for (int64_t i = b; i < e; ++i) run_slab(job, transposed, i * slab, std::min(slab, rows - i * slab));
  });
}

}  // namespace

void run_pointwise(const PointwiseOp& op, DType compute, std::span<const int64_t> shape, std::span<const Operand> outs,
                   std::span<const Operand> ins, const KernelParam* params) {
  Job job;
  job.kernel = static_cast<int>(compute) < kNumComputeDTypes ? op.kernels[static_cast<int>(compute)] : nullptr;
  TESSERA_CHECK_NOT_IMPLEMENTED(job.kernel != nullptr, "\"", op.name, "\" not implemented for '", type_name_of(compute),
                                "'");
  TESSERA_CHECK(outs.size() == op.num_outputs && ins.size() == op.num_inputs, op.name, ": expected ",
                int{op.num_outputs}, " outputs and ", int{op.num_inputs}, " inputs, got ", outs.size(), " and ",
                ins.size());
  job.params = params;
  job.num_outs = static_cast<int>(outs.size());
  job.num_ins = static_cast<int>(ins.size());
  const int num_operands = job.num_outs + job.num_ins;
  const int64_t* strides[kMaxPlanOperands];
  for (int k = 0; k < job.num_outs; ++k) strides[k] = outs[k].strides;
  for (int i = 0; i < job.num_ins; ++i) strides[job.num_outs + i] = ins[i].strides;
  make_plan(job.plan, shape, strides, num_operands);
  if (job.plan.numel == 0) return;

  for (int k = 0; k < num_operands; ++k) {
    const bool is_out = k < job.num_outs;
    const DType wanted = is_out                                     ? result_dtype(op, compute)
                         : op.bool_inputs >> (k - job.num_outs) & 1 ? DType::kBool
                                                                    : compute;
    job.access[k] = make_access(job.plan, k, is_out ? outs[k] : ins[k - job.num_outs], wanted);
  }
  choose_streams(job);
  if (job.plan.ndim > 1 && job.plan.numel >= 4096) {
    bool transposed[kMaxPlanOperands], any = false;
    for (int k = 0; k < num_operands; ++k) any |= transposed[k] = is_transposed(job, k);
    if (any) return run_transposed(job, transposed);
  }
  run_blocks(job);
}

}  // namespace cpu
}  // namespace tessera
