// Recurrent layers. A step of all directions is one launch: a block multiplies some sequences with what makes some
// units, of all their gates, and goes on to these gates. Where the product is large cuBLAS makes it in a launch before;
// where the layer is small a block takes its sequences through all steps. The sum of a gate is in the order of its
// terms whichever tiles are taken, so that a layer has the same bits on any device, but for cuBLAS's.
#include <algorithm>
#include <cmath>

#include "nn/cuda/rnn_engines.h"
#include "tensor/cuda/gemm/engines.h"
#include "tensor/cuda/support/math.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

using cpu::RnnGradients;
using cpu::RnnInputs;
using cpu::RnnKind;
using cpu::RnnLayer;
using cpu::RnnTrace;

namespace {

constexpr int kUnits = 16, kGroups = 16;  // a thread has one unit of a few sequences
constexpr int kStepThreads = kUnits * kGroups;
constexpr int kTerms = 32;  // of a product, that are in shared memory at a time

// What a launch does behind its product, and with what.
enum class Task : uint8_t {
  kForward,   // state before times w_hh, then the gates
  kProject,   // of the forward: the state before its projection times w_hr
  kBackward,  // gradients of the gates of the step behind times w_hh, then those of this step's gates
  kState,     // the same, but only the gradients of the projected states
  kUnproject  // these times w_hr, then the gates
};

// The sequences of a step in the order of computation.
struct Step {
  int64_t rows, row;      // of the step itself, and the first of them
  int64_t known, before;  // those whose state comes from the step before, and its first row
  int64_t due, behind;    // those that the step behind has, and its first row
};

struct Times {
  int64_t steps, batch;
  const int64_t *sizes, *begins;  // in host memory: null where a kernel asks
  __host__ __device__ int64_t size(int64_t t) const { return sizes ? sizes[t] : batch; }
  __host__ __device__ int64_t row(int64_t t) const { return begins ? begins[t] : t * batch; }
  // Step s: from 0 to steps - 1 in the order of computation; -1 is before all of them.
  __host__ __device__ Step at(int64_t s, bool reverse) const {
    const auto time = [&](int64_t i) { return reverse ? steps - 1 - i : i; };
    Step r{};
    if (s >= 0) r.rows = size(time(s)), r.row = row(time(s));
    if (s > 0) r.before = row(time(s - 1)), r.known = size(time(s - 1)) < r.rows ? size(time(s - 1)) : r.rows;
    if (s + 1 < steps) r.due = size(time(s + 1)), r.behind = row(time(s + 1));
    return r;
  }
};

// A launch. Arrays and their sizes: nn/cpu/rnn.h.
template <class T>
struct Pass {
  Task task;
  RnnKind kind;
  bool reverse;  // the first direction
  int directions;
  int64_t hidden, outputs, gates, all_rows;  // all_rows: of all steps
  Times times;
  Step step[2];          // of each direction
  int64_t first, count;  // steps that a block takes through, if not one; the backward's go down
  const T* w;            // element (term, gate, unit) of a direction's
  int64_t w_direction, w_gate, w_unit, w_term;
  int64_t terms, units;
  const T* sums;  // the product where it has been made: (directions, batch, all gates' units)
  const T *projected, *h0, *c0, *bias, *grad_output;
  T *values, *output, *extra, *room;  // room: (directions, batch, hidden), states before their projection
  T *grad_state, *grad_cell, *grad_gates, *grad_hidden;

  __host__ __device__ bool backward() const { return task >= Task::kBackward; }
  __host__ __device__ bool projects() const { return outputs != hidden; }
  // The rows that a step has a product for, and all that it is for.
  __host__ __device__ int64_t multiplied(const Step& s) const {
    return task == Task::kBackward || task == Task::kState ? s.due : s.rows;
  }
  __host__ __device__ int64_t rows(const Step& s) const {
    return backward() && s.due > s.rows && task != Task::kUnproject ? s.due : s.rows;
  }
  __device__ T* out(int64_t d, int64_t row) const { return output + (row * directions + d) * outputs; }
  __device__ const T* state_before(const Step& s, int64_t d, int64_t r) const {
    return r < s.known ? out(d, s.before + r) : h0 + (d * times.batch + r) * outputs;
  }
  __device__ const T* cell_before(const Step& s, int64_t d, int64_t r) const {
    return r < s.known ? extra + (d * all_rows + s.before + r) * hidden : c0 + (d * times.batch + r) * hidden;
  }
  __host__ __device__ int64_t hidden_width() const { return kind == RnnKind::kGru ? gates : outputs; }
  // What sequence r is multiplied with, or null.
  __device__ const T* operand(const Step& s, int64_t d, int64_t r) const {
    if (r >= multiplied(s)) return nullptr;
    if (task == Task::kForward) return state_before(s, d, r);
    if (task == Task::kProject) return room + (d * times.batch + r) * hidden;
    if (task == Task::kUnproject) return grad_hidden + (d * all_rows + s.row + r) * outputs;
    if (kind == RnnKind::kGru) return grad_hidden + (d * all_rows + s.behind + r) * gates;
    return grad_gates + ((s.behind + r) * directions + d) * gates;
  }
};

template <class T, int kGates, int kRows>
struct Tiles {
  T w[kGates][kTerms][kUnits + 1];
  T x[kTerms][kGroups * kRows + 1];
};

// sum[g][i]: of sequence row0 + kRows * group + i and this thread's unit. The next terms are read while those in shared
// memory are multiplied.
template <class T, int kGates, int kRows>
__device__ void multiply(const Pass<T>& p, const Step& s, int64_t d, int64_t row0, int64_t unit0,
                         Tiles<T, kGates, kRows>& tiles, T (&sum)[kGates][kRows]) {
  constexpr int kX = kGroups * kRows * kTerms / kStepThreads, kW = kUnits * kTerms / kStepThreads;
  const int tid = static_cast<int>(threadIdx.x), unit = tid % kUnits, group = tid / kUnits;
  const T* rows[kX];
  for (int j = 0; j < kX; ++j) rows[j] = p.operand(s, d, row0 + tid / kTerms + j * (kStepThreads / kTerms));
  const bool along = p.w_term == 1;  // neighbouring threads read along the weight's smaller stride
  T x[kX], w[kGates][kW];
  const auto place = [&](int j, int& term, int& column) {
    const int i = tid + j * kStepThreads;
    term = along ? i % kTerms : i / kUnits, column = along ? i / kTerms : i % kUnits;
  };
  const auto read = [&](int64_t from) {
    for (int j = 0; j < kX; ++j) {
      const int64_t k = from + tid % kTerms;
      x[j] = rows[j] && k < p.terms ? rows[j][k] : T{0};
    }
    for (int j = 0; j < kW; ++j) {
      int term, column;
      place(j, term, column);
      const bool inside = from + term < p.terms && unit0 + column < p.units;
      const T* const at = p.w + d * p.w_direction + (unit0 + column) * p.w_unit + (from + term) * p.w_term;
      for (int g = 0; g < kGates; ++g) w[g][j] = inside ? at[g * p.w_gate] : T{0};
    }
  };
  read(0);
  for (int64_t from = 0; from < p.terms; from += kTerms) {
    __syncthreads();
    for (int j = 0; j < kX; ++j) tiles.x[tid % kTerms][tid / kTerms + j * (kStepThreads / kTerms)] = x[j];
    for (int j = 0; j < kW; ++j) {
      int term, column;
      place(j, term, column);
      for (int g = 0; g < kGates; ++g) tiles.w[g][term][column] = w[g][j];
    }
    __syncthreads();
    if (from + kTerms < p.terms) read(from + kTerms);
#pragma unroll 4
    for (int k = 0; k < kTerms; ++k)
      for (int i = 0; i < kRows; ++i) {
        const T y = tiles.x[k][group * kRows + i];
        for (int g = 0; g < kGates; ++g) sum[g][i] += y * tiles.w[g][k][unit];
      }
  }
}

template <class T>
__device__ inline T logistic_slope(T y) {
  return y * (1 - y);
}
template <class T>
__device__ inline T tanh_slope(T y) {
  return 1 - y * y;
}

// The gates of unit u of sequence r; sum[g]: of the product.
template <class T, int kGates>
__device__ void forward_unit(const Pass<T>& p, const Step& s, int64_t d, int64_t r, int64_t u, const T (&sum)[kGates]) {
  const int64_t row = s.row + r, at = (d * p.all_rows + row) * p.hidden + u;
  const T* const x = p.projected + (row * p.directions + d) * p.gates + u;
  T* const v = p.values ? p.values + (d * p.all_rows + row) * p.gates + u : nullptr;
  T* const h = p.projects() ? p.room + (d * p.times.batch + r) * p.hidden + u : p.out(d, row) + u;
  T value[kGates];
  const auto from_state = [&](int g) { return p.bias ? p.bias[d * p.gates + g * p.hidden + u] + sum[g] : sum[g]; };
  if constexpr (kGates == 4) {
    for (int g = 0; g < 4; ++g) {
      const T y = x[g * p.hidden] + from_state(g);
      value[g] = g == 2 ? std::tanh(y) : math::logistic(y);
    }
    const T c = value[1] * p.cell_before(s, d, r)[u] + value[0] * value[2];
    p.extra[at] = c;
    *h = value[3] * std::tanh(c);
  } else if constexpr (kGates == 3) {
    for (int g = 0; g < 2; ++g) value[g] = math::logistic(x[g * p.hidden] + from_state(g));
    const T recurrent = from_state(2);
    value[2] = std::tanh(value[0] * recurrent + x[2 * p.hidden]);
    p.extra[at] = recurrent;
    *h = (p.state_before(s, d, r)[u] - value[2]) * value[1] + value[2];
  } else {
    value[0] = x[0] + from_state(0);
    *h = p.kind == RnnKind::kTanh ? std::tanh(value[0]) : value[0] < 0 ? T{0} : value[0];  // keeps NaN
  }
  if (!v) return;
  for (int g = 0; g < kGates; ++g) v[g * p.hidden] = value[g];
}

// The gradients of the gates of unit u, of that of its state.
template <class T>
__device__ void backward_unit(const Pass<T>& p, const Step& s, int64_t d, int64_t r, int64_t u, T grad) {
  const int64_t row = s.row + r, n = p.hidden;
  const T* const v = p.values + (d * p.all_rows + row) * p.gates + u;
  T* const to = p.grad_gates + (row * p.directions + d) * p.gates + u;
  if (p.kind == RnnKind::kLstm) {
    T& grad_c = p.grad_cell[(d * p.times.batch + r) * n + u];
    const T in = v[0], forget = v[n], candidate = v[2 * n], out = v[3 * n],
            squashed = std::tanh(p.extra[(d * p.all_rows + row) * n + u]);
    const T cell = grad * out * tanh_slope(squashed) + grad_c;
    to[0] = cell * candidate * logistic_slope(in);
    to[n] = cell * p.cell_before(s, d, r)[u] * logistic_slope(forget);
    to[2 * n] = cell * in * tanh_slope(candidate);
    to[3 * n] = grad * squashed * logistic_slope(out);
    grad_c = cell * forget;
  } else if (p.kind == RnnKind::kGru) {
    const T reset = v[0], update = v[n], candidate = v[2 * n],
            to_candidate = grad * (1 - update) * tanh_slope(candidate);
    T* const hidden = p.grad_hidden + (d * p.all_rows + row) * p.gates + u;
    hidden[0] = to[0] = to_candidate * p.extra[(d * p.all_rows + row) * n + u] * logistic_slope(reset);
    hidden[n] = to[n] = grad * (p.state_before(s, d, r)[u] - candidate) * logistic_slope(update);
    hidden[2 * n] = to_candidate * reset;
    to[2 * n] = to_candidate;
    p.grad_state[(d * p.times.batch + r) * p.outputs + u] = grad * update;
  } else {
    const T h = p.out(d, row)[u];
    to[0] = p.kind == RnnKind::kTanh ? grad * tanh_slope(h) : h > 0 ? grad : T{0};
  }
}

// What follows the product for unit u of sequence r.
template <class T, int kGates>
__device__ void finish(const Pass<T>& p, const Step& s, int64_t d, int64_t r, int64_t u, const T (&sum)[kGates]) {
  if (p.task == Task::kForward) return forward_unit(p, s, d, r, u, sum);
  if constexpr (kGates == 1) {
    const int64_t row = s.row + r;
    if (p.task == Task::kProject) {
      p.out(d, row)[u] = sum[0];
    } else if (p.task == Task::kUnproject) {
      backward_unit(p, s, d, r, u, sum[0]);
    } else {
      // A GRU's state has a way back without a product; a sequence that ends here has what was given for its end.
      T& state = p.grad_state[(d * p.times.batch + r) * p.outputs + u];
      T grad = r >= s.due ? state : p.kind == RnnKind::kGru ? sum[0] + state : sum[0];
      if (r >= s.rows) {  // it began at the step behind
        state = grad;
        return;
      }
      if (p.grad_output) grad += p.grad_output[(row * p.directions + d) * p.outputs + u];
      if (p.task == Task::kState)
        p.grad_hidden[(d * p.all_rows + row) * p.outputs + u] = grad;
      else
        backward_unit(p, s, d, r, u, grad);
    }
  }
}

// Blocks: sequences, units, directions. A block that takes many steps has all units.
template <class T, int kGates, int kRows>
__global__ void __launch_bounds__(kStepThreads, 2) step_kernel(Pass<T> p) {
  __shared__ Tiles<T, kGates, kRows> tiles;
  const int64_t d = blockIdx.z, row0 = int64_t{blockIdx.x} * kGroups * kRows;
  const int unit = static_cast<int>(threadIdx.x) % kUnits, group = static_cast<int>(threadIdx.x) / kUnits;
  for (int64_t i = 0; i < p.count; ++i) {
    const Step s = p.count == 1 ? p.step[d] : p.times.at(p.backward() ? p.first - i : p.first + i, p.reverse || d == 1);
    if (i > 0) __syncthreads();  // what the step before wrote
    if (row0 >= p.rows(s)) continue;
    for (int64_t unit0 = int64_t{blockIdx.y} * kUnits; unit0 < p.units; unit0 += int64_t{gridDim.y} * kUnits) {
      T sum[kGates][kRows] = {};
      if (!p.sums && row0 < p.multiplied(s)) multiply(p, s, d, row0, unit0, tiles, sum);
      const int64_t u = unit0 + unit;
      for (int j = 0; j < kRows; ++j) {
        const int64_t r = row0 + group * kRows + j;
        if (u >= p.units || r >= p.rows(s)) continue;
        T own[kGates];
        for (int g = 0; g < kGates; ++g)
          own[g] = !p.sums               ? sum[g][j]
                   : r < p.multiplied(s) ? p.sums[(d * p.times.batch + r) * kGates * p.units + g * p.units + u]
                                         : T{0};
        finish(p, s, d, r, u, own);
      }
    }
  }
}

// ---- Launches ----

constexpr int64_t kLargeProduct = int64_t{1} << 25;  // multiplications of a step from which on cuBLAS is worth a launch
constexpr int64_t kSmallLayer = 64;                  // units up to which a block takes its sequences through all steps

int64_t tiles_of(int64_t n, int64_t tile) { return (n + tile - 1) / tile; }

KernelParam real(double v) {
  KernelParam p;
  p.f = v;
  return p;
}

template <class T, int kGates, int kRows>
void start(const Pass<T>& p, int64_t rows) {
  const int64_t across = p.count > 1 ? 1 : tiles_of(p.units, kUnits);
  launch_blocks(step_kernel<T, kGates, kRows>,
                dim3(static_cast<unsigned>(tiles_of(rows, kGroups * kRows)),
                     static_cast<unsigned>(std::min<int64_t>(across, 65535)), static_cast<unsigned>(p.directions)),
                dim3(kStepThreads), 0, p);
}
template <class T, int kGates>
void start(const Pass<T>& p) {
  const int64_t rows = p.count > 1 ? p.times.batch : std::max(p.rows(p.step[0]), p.rows(p.step[p.directions - 1]));
  if (rows == 0 || p.units == 0) return;
  // Tiles of many rows read the weights less often, but need enough of them to fill the device.
  if constexpr (sizeof(T) == 4)
    if (!p.sums && tiles_of(rows, 64) * tiles_of(p.units, kUnits) * p.directions >= properties().multi_processor_count)
      return start<T, kGates, 4>(p, rows);
  start<T, kGates, 1>(p, rows);
}
template <class T>
void start(const Pass<T>& p) {
  if (p.task != Task::kForward || p.kind == RnnKind::kTanh || p.kind == RnnKind::kRelu) return start<T, 1>(p);
  p.kind == RnnKind::kLstm ? start<T, 4>(p) : start<T, 3>(p);
}

// rows of x, a row apart each, times the weight of a direction, into `sums` from sequence `first` on.
template <class T>
void product(const Pass<T>& p, int64_t d, const T* x, int64_t x_row, int64_t first, int64_t rows, T* sums) {
  if (rows <= 0) return;
  const bool gates = p.task == Task::kForward;  // their units follow each other
  const int64_t width = gates ? p.gates : p.units;
  const T* const w = p.w + d * p.w_direction;
  cuda::gemm(sizeof(T) == 8 ? DType::kFloat64 : DType::kFloat32, rows, width, p.terms, real(1),
             {const_cast<T*>(x), x_row, 1}, {const_cast<T*>(w), p.w_term, p.w_unit}, real(0),
             {sums + (d * p.times.batch + first) * width, width, 1}, false, false);
}
// The products of a step by cuBLAS.
template <class T>
void products(const Pass<T>& p, T* sums) {
  for (int64_t d = 0; d < p.directions; ++d) {
    const Step& s = p.step[d];
    const int64_t out_row = p.directions * p.outputs, gates_row = p.directions * p.gates;
    if (p.task == Task::kForward) {
      product(p, d, p.output + s.before * out_row + d * p.outputs, out_row, 0, s.known, sums);
      product(p, d, p.h0 + (d * p.times.batch + s.known) * p.outputs, p.outputs, s.known, s.rows - s.known, sums);
    } else if (p.task == Task::kProject) {
      product(p, d, p.room + d * p.times.batch * p.hidden, p.hidden, 0, s.rows, sums);
    } else if (p.task == Task::kUnproject) {
      product(p, d, p.grad_hidden + (d * p.all_rows + s.row) * p.outputs, p.outputs, 0, s.rows, sums);
    } else if (p.kind == RnnKind::kGru) {
      product(p, d, p.grad_hidden + (d * p.all_rows + s.behind) * p.gates, p.gates, 0, s.due, sums);
    } else {
      product(p, d, p.grad_gates + s.behind * gates_row + d * p.gates, gates_row, 0, s.due, sums);
    }
  }
}

template <class T>
Pass<T> pass_of(const RnnLayer& l, const RnnInputs& in, const RnnTrace& trace) {
  Pass<T> p{};
  p.kind = l.kind, p.reverse = l.reverse, p.directions = static_cast<int>(l.directions);
  p.hidden = l.hidden, p.outputs = l.outputs, p.gates = l.gates(), p.all_rows = l.rows();
  p.times = {l.steps, l.batch, l.sizes, l.begins};
  p.count = 1;
  p.h0 = static_cast<const T*>(in.h0), p.c0 = static_cast<const T*>(in.c0), p.bias = static_cast<const T*>(in.b_hh);
  p.values = static_cast<T*>(trace.gates), p.output = static_cast<T*>(trace.output);
  p.extra = static_cast<T*>(trace.extra);
  return p;
}

// The pass with what it multiplies with.
template <class T>
Pass<T> with(Pass<T> p, Task task, const RnnInputs& in) {
  p.task = task;
  const bool by_projection = task == Task::kProject || task == Task::kUnproject;
  p.w = static_cast<const T*>(by_projection ? in.w_hr : in.w_hh);
  p.w_direction = by_projection ? p.outputs * p.hidden : p.gates * p.outputs;
  p.w_gate = p.hidden * p.outputs;
  const int64_t row = by_projection ? p.hidden : p.outputs;  // w_hh: gates x outputs, w_hr: outputs x hidden
  if (p.backward())
    p.w_unit = 1, p.w_term = row, p.units = row, p.terms = by_projection ? p.outputs : p.gates;
  else
    p.w_unit = row, p.w_term = 1, p.terms = row, p.units = by_projection ? p.outputs : p.hidden;
  return p;
}

// The steps of passes of the same kind, one behind the other at each step, from `first` on.
template <class T, int kPasses>
void run_steps(Pass<T> (&passes)[kPasses], int used, int64_t first, int64_t count, T* sums, int64_t batch) {
  const bool backward = passes[0].backward();
  if (used == 1 && !passes[0].times.sizes && !sums && passes[0].hidden <= kSmallLayer && count > 1) {
    passes[0].first = first, passes[0].count = count;
    return start(passes[0]);
  }
  for (int64_t i = 0; i < count; ++i)
    for (int k = 0; k < used; ++k) {
      Pass<T>& p = passes[k];
      for (int d = 0; d < p.directions; ++d)
        p.step[d] = p.times.at(backward ? first - i : first + i, p.reverse || d == 1);
      p.sums = nullptr;
      if (sums && batch * p.terms * (p.task == Task::kForward ? p.gates : p.units) >= kLargeProduct) {
        products(p, sums);
        p.sums = sums;
      }
      start(p);
    }
}

bool is_large(const RnnLayer& l) { return l.batch * l.gates() * l.outputs >= kLargeProduct; }

template <class T>
void forward(const RnnLayer& l, const void* projected, const RnnInputs& in, const RnnTrace& trace) {
  const size_t row = static_cast<size_t>(l.directions * l.batch) * sizeof(T);
  const Buffer room(l.projects() ? row * static_cast<size_t>(l.hidden) : 0),
      sums(is_large(l) ? row * static_cast<size_t>(l.gates()) : 0);
  Pass<T> p = pass_of<T>(l, in, trace);
  p.projected = static_cast<const T*>(projected), p.room = room.as<T>();
  Pass<T> passes[] = {with(p, Task::kForward, in), with(p, Task::kProject, in)};
  run_steps(passes, l.projects() ? 2 : 1, 0, l.steps, sums.as<T>(), l.batch);
}

template <class T>
void backward(const RnnLayer& l, const RnnInputs& in, const RnnTrace& trace, const void* grad_output,
              const RnnGradients& g) {
  const Buffer sums(is_large(l) ? static_cast<size_t>(l.directions * l.batch * l.hidden) * sizeof(T) : 0);
  Pass<T> p = pass_of<T>(l, in, trace);
  p.grad_output = static_cast<const T*>(grad_output), p.grad_state = static_cast<T*>(g.grad_state);
  p.grad_cell = static_cast<T*>(g.grad_cell), p.grad_gates = static_cast<T*>(g.grad_gates);
  p.grad_hidden = static_cast<T*>(g.grad_hidden);
  // One more step behind the first: the gradients of the states that it started from.
  Pass<T> passes[] = {with(p, l.projects() ? Task::kState : Task::kBackward, in), with(p, Task::kUnproject, in)};
  run_steps(passes, l.projects() ? 2 : 1, l.steps - 1, l.steps + 1, sums.as<T>(), l.batch);
}

}  // namespace

void rnn_forward(const RnnLayer& l, const void* projected, const RnnInputs& inputs, const RnnTrace& trace) {
  l.dtype == DType::kFloat64 ? forward<double>(l, projected, inputs, trace)
                             : forward<float>(l, projected, inputs, trace);
}

void rnn_backward(const RnnLayer& l, const RnnInputs& inputs, const RnnTrace& trace, const void* grad_output,
                  const RnnGradients& gradients) {
  l.dtype == DType::kFloat64 ? backward<double>(l, inputs, trace, grad_output, gradients)
                             : backward<float>(l, inputs, trace, grad_output, gradients);
}

}  // namespace tessera::cuda
