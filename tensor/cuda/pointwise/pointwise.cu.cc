// The elementwise engine: finds an op's kernel, decides how it walks over its operands, starts it.
#include "tensor/cuda/pointwise/pointwise.h"

#include <map>
#include <utility>
#include <vector>

#include "tensor/cuda/pointwise/engines.h"
#include "tensor/cuda/support/report.h"

namespace tessera::cuda {
namespace {

// The names that the program at large has for the ops named in the tables here: see set_pointwise_ops.
std::map<const PointwiseOp*, const PointwiseOp*>& renamed() {
  static auto* m = new std::map<const PointwiseOp*, const PointwiseOp*>;
  return *m;
}

// The tables of other libraries.
std::vector<PointwiseTable>& added_tables() {
  static auto* tables = new std::vector<PointwiseTable>;
  return *tables;
}

using OpKernels = std::pair<const PointwiseOp*, const PointwiseEntry*>;

const PointwiseEntry* find_entry(const PointwiseOp& op) {
  static const std::vector<OpKernels> all = [] {
    std::vector<OpKernels> v;
    std::vector<PointwiseTable> tables = {arithmetic_kernels(), extreme_kernels(),      comparison_kernels(),
                                          bit_kernels(),        division_kernels(),     rounding_kernels(),
                                          selection_kernels(),  math_kernels(),         special_kernels(),
                                          logistic_kernels(),   trigonometric_kernels()};
    tables.insert(tables.end(), added_tables().begin(), added_tables().end());
    for (const PointwiseTable& table : tables) {
      for (const PointwiseEntry& e : table) {
        const auto other = renamed().find(e.op);
        if (e.op)
          v.emplace_back(other != renamed().end() ? other->second : e.op, &e);  // null: the program has no such op
      }
    }
    std::ranges::sort(v, {}, &OpKernels::first);
    return v;
  }();
  const auto it = std::ranges::lower_bound(all, &op, {}, &OpKernels::first);
  return it != all.end() && it->first == &op ? it->second : nullptr;
}

// Whether every value of dtype t passes through `compute` unchanged, so that no conversion to it is needed.
bool is_contained(DType t, DType compute) {
  return t == compute || (is_reduced_float(t) && compute == DType::kFloat32) ||
         (t == DType::kComplex32 && compute == DType::kComplex64);
}

void run_shortcut(Shortcut s, DType compute, std::span<const int64_t> shape, const Operand& out, const Operand& in) {
  if (s == Shortcut::kFalse || s == Shortcut::kTrue) {
    const uint8_t value = s == Shortcut::kTrue;
    Bytes16 bits;
    cpu::convert(out.dtype, &bits, DType::kBool, &value, 1);
    return cuda::fill_strided(shape, out, &bits);
  }
  if (!is_contained(in.dtype, compute)) {
    std::vector<int64_t> strides(shape.size());
    int64_t n = item_size(compute);
    for (size_t d = shape.size(); d-- > 0; n *= shape[d]) strides[d] = n;
    const Buffer buffer(static_cast<size_t>(n));
    const Operand converted{buffer.get(), compute, strides.data()};
    cuda::copy_strided(shape, converted, in);
    return run_shortcut(s, compute, shape, out, converted);
  }
  cuda::copy_strided(shape, out, in, s == Shortcut::kConjugate);
}

using OperandWalk = Walk<1 + kMaxInputs>;

// Whether the kernel reads or writes operand k without a conversion apart.
bool is_direct(const PointwiseKernelInfo& kernel, const PointwiseArguments& a, int k) {
  if (a.access[k] == Access::kConstant || a.dtype[k] == a.wanted[k]) return true;
  return (k == 0 ? kernel.half_output : kernel.half_inputs) && a.wanted[k] == DType::kFloat32 &&
         is_reduced_float(a.dtype[k]);
}

// Whether all operands can be read and written in chunks. Says how.
bool has_chunks(PointwiseArguments& a, int operands, int chunk) {
  const OperandWalk& w = a.walk;
  if (chunk == 1 || w.rank == 0 || (w.rank > 1 && w.sizes[0] % chunk != 0)) return false;
  for (int k = 0; k < operands; ++k) {
    if (a.access[k] == Access::kConstant) continue;
    const int64_t size = item_size(a.dtype[k]), bytes = std::min<int64_t>(16, chunk * size);
    if (k > 0 && w.strides[0][k] == 0) {
      a.access[k] = Access::kSplat;
      continue;
    }
    if (w.strides[0][k] != size || reinterpret_cast<uintptr_t>(a.data[k]) % bytes != 0) return false;
    for (int d = 1; d < w.rank; ++d) {
      if (w.strides[d][k] % bytes != 0) return false;
    }
  }
  return true;
}

void launch_parts(const PointwiseKernelInfo& kernel, PointwiseArguments& a, int operands) {
  OperandWalk& w = a.walk;
  if (w.numel > kMaxElements) {
    const int d = w.rank - 1;
    const int64_t row = w.numel / w.sizes[d], size = w.sizes[d], half = d == 0 ? size / 32 * 16 : size / 2;
    for (const int64_t begin : {int64_t{0}, half}) {
      PointwiseArguments part = a;
      part.walk.sizes[d] = begin == 0 ? half : size - half;
      part.walk.numel = row * part.walk.sizes[d];
      if (part.walk.sizes[d] == 1) --part.walk.rank;
      for (int k = 0; k < operands; ++k) part.data[k] += begin * w.strides[d][k];
      launch_parts(kernel, part, operands);
    }
    return;
  }
  for (int d = 0; d + 1 < w.rank; ++d) a.dividers[d] = Divider(static_cast<uint32_t>(w.sizes[d]));
  const int per_thread = a.path == PointwiseArguments::kChunks                         ? kernel.chunk
                         : a.path == PointwiseArguments::kElements && kernel.chunk > 1 ? 2
                                                                                       : 1;
  launch(kernel.run, blocks_for(w.numel, int64_t{kThreads} * per_thread), dim3(kThreads), a);
}

// Inputs whose neighbours in memory lie along another dimension than the output's: reading them in its order would
// fetch a line per element.
bool is_transposed(const OperandWalk& w, int k, int64_t size) {
  if (w.rank < 2 || w.strides[0][k] == 0 || std::abs(w.strides[0][k]) < 32 || w.sizes[0] < 8) return false;
  for (int d = 1; d < w.rank; ++d) {
    if (w.strides[d][k] == size && w.sizes[d] >= 8) return true;
  }
  return false;
}

// Operand k copied into the order of the walk, by tiles.
Buffer straighten(PointwiseArguments& a, int k) {
  OperandWalk& w = a.walk;
  int64_t shape[kMaxRank], from[kMaxRank],
      to[kMaxRank];  // outermost first, without the dimensions along which it repeats
  int n = 0, at = kMaxRank;
  const int64_t size = item_size(a.dtype[k]);
  int64_t stride = size;
  for (int d = 0; d < w.rank; ++d) {
    if (w.strides[d][k] == 0) continue;
    --at;
    ++n;
    shape[at] = w.sizes[d];
    from[at] = w.strides[d][k];
    w.strides[d][k] = to[at] = stride;
    stride *= w.sizes[d];
  }
  Buffer buffer(static_cast<size_t>(stride));
  cuda::copy_strided({shape + at, static_cast<size_t>(n)}, {buffer.get(), a.dtype[k], to + at},
                     {a.data[k], a.dtype[k], from + at});
  a.data[k] = buffer.as<char>();
  return buffer;
}

// Joins dimensions that have come to lie one behind the other.
void join(OperandWalk& w) {
  OperandWalk joined;
  joined.numel = w.numel;
  for (int d = 0; d < w.rank; ++d) {
    const int last = joined.rank - 1;
    bool joins = last >= 0;
    for (int k = 0; joins && k <= kMaxInputs; ++k)
      joins = w.strides[d][k] == joined.strides[last][k] * joined.sizes[last];
    if (joins) {
      joined.sizes[last] *= w.sizes[d];
      continue;
    }
    joined.sizes[joined.rank] = w.sizes[d];
    std::copy_n(w.strides[d], 1 + kMaxInputs, joined.strides[joined.rank++]);
  }
  w = joined;
}

}  // namespace

void add_pointwise_table(PointwiseTable table) { added_tables().push_back(table); }

void set_pointwise_ops(std::span<const PointwiseOp* const> own, std::span<const PointwiseOp* const> others) {
  for (size_t i = 0; i < own.size(); ++i) renamed()[own[i]] = others[i];
}

void launch_pointwise(const PointwiseKernelInfo& kernel, std::span<const int64_t> shape, const Operand& out,
                      std::span<const Operand> ins, const DType* wanted, const KernelParam* params, int num_params) {
  static constexpr int64_t kZeros[64] = {};
  PointwiseArguments a;
  const int operands = 1 + static_cast<int>(ins.size());
  const int64_t* strides[1 + kMaxInputs];
  for (int k = 0; k <= kMaxInputs; ++k) {
    const Operand* o = k == 0 ? &out : k < operands ? &ins[k - 1] : nullptr;
    strides[k] = o && !o->host ? o->strides : kZeros;
    if (!o) continue;
    a.data[k] = static_cast<char*>(o->data);
    a.dtype[k] = o->dtype;
    a.wanted[k] = wanted[k];
    a.access[k] = o->host ? Access::kConstant : Access::kDense;
    if (o->host) cpu::convert(wanted[k], &a.constants[k - 1], o->dtype, o->data, 1);
  }
  std::copy_n(params, num_params, a.params);
  TESSERA_CHECK(shape.size() <= std::size(kZeros), "tensors of more than ", std::size(kZeros),
                " dimensions are not supported");
  a.walk = make_walk<1 + kMaxInputs>(shape, strides, false);
  if (a.walk.numel == 0) return;

  Buffer straight[kMaxInputs];
  if (a.walk.numel >= 1 << 16) {
    bool any = false;
    for (int k = 1; k < operands; ++k) {
      if (a.access[k] == Access::kConstant || !is_transposed(a.walk, k, item_size(a.dtype[k]))) continue;
      straight[k - 1] = straighten(a, k);
      any = true;
    }
    if (any) join(a.walk);
  }
  bool direct = true;
  for (int k = 0; k < operands; ++k) direct = direct && is_direct(kernel, a, k);
  a.path = !direct                                 ? PointwiseArguments::kConverted
           : has_chunks(a, operands, kernel.chunk) ? PointwiseArguments::kChunks
                                                   : PointwiseArguments::kElements;
  launch_parts(kernel, a, operands);
}

void run_pointwise(const PointwiseOp& op, DType compute, std::span<const int64_t> shape, std::span<const Operand> outs,
                   std::span<const Operand> ins, const KernelParam* params) {
  TESSERA_CHECK(outs.size() == 1 && ins.size() == op.num_inputs, op.name, ": expected 1 output and ",
                int{op.num_inputs}, " inputs, got ", outs.size(), " and ", ins.size());
  const PointwiseEntry* const entry = find_entry(op);
  const int t = static_cast<int>(compute);
  if (!entry || (!entry->kernels[t].run && entry->shortcuts[t] == Shortcut::kNone)) {
    tessera::internal::raise<NotImplementedError>("\"", op.name, "\" not implemented for '", type_name_of(compute),
                                                  "' on CUDA devices");
  }
  if (!entry->kernels[t].run) return run_shortcut(entry->shortcuts[t], compute, shape, outs[0], ins[0]);

  KernelParam p[4];
  std::copy_n(params, op.num_params, p);
  if (entry->prepare) entry->prepare(p, compute);
  DType wanted[1 + kMaxInputs];
  wanted[0] = result_dtype(op, compute);
  for (size_t i = 0; i < ins.size(); ++i) wanted[i + 1] = op.bool_inputs >> i & 1 ? DType::kBool : compute;
  const Operand swapped[2] = {ins.back(), ins.front()};
  launch_pointwise(entry->kernels[t], shape, outs[0], entry->swaps_inputs ? std::span<const Operand>(swapped) : ins,
                   wanted, p, 4);
}

// A zero in device memory is reported: the error is raised by the next operation that waits for the device.
void check_integer_divisor(std::span<const int64_t> shape, const Operand& divisor) {
  if (!is_integral(divisor.dtype, true)) return;
  const int64_t size = item_size(divisor.dtype);
  if (divisor.host) {
    static constexpr char kZero[16] = {};
    TESSERA_CHECK(std::memcmp(divisor.data, kZero, static_cast<size_t>(size)) != 0, "ZeroDivisionError");
    return;
  }
  Walk<1> walk = make_walk<1>(shape, {divisor.strides}, false);
  if (walk.numel == 0) return;
  int rank = 0;
  for (int d = 0; d < walk.rank; ++d) {  // a broadcast dimension repeats what has been seen
    if (walk.strides[d][0] == 0) {
      walk.numel /= walk.sizes[d];
    } else {
      walk.sizes[rank] = walk.sizes[d];
      walk.strides[rank++][0] = walk.strides[d][0];
    }
  }
  walk.rank = rank;
  const char* const data = static_cast<const char*>(divisor.data);
  Report* const slot = report_slot();
  for_each(walk.numel, [=] __device__(int64_t i) {
    int64_t at[1];
    walk.offsets(i, at);
    const void* const p = data + at[0];
    const bool zero = size == 1   ? *static_cast<const uint8_t*>(p) == 0
                      : size == 2 ? *static_cast<const uint16_t*>(p) == 0
                      : size == 4 ? *static_cast<const uint32_t*>(p) == 0
                                  : *static_cast<const uint64_t*>(p) == 0;
    if (zero) report(slot, ReportKind::kIntegerDivisionByZero);
  });
}

}  // namespace tessera::cuda
