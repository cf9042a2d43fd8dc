// Values brought to places that an index names: scatter, index_put, index_add. Several values may go to one place; they
// meet there in the order of the values, as if one after the other, so that results are the same on every run and on
// every device. There are four ways:
//   * each line of such values is a thread's (scatter_lines): many lines, or short ones, or values that cannot meet;
//   * the places are sorted, and each run of equal ones is a thread's (scatter_runs); long runs are brought together in
//     two steps, segments first (segment_sums), in an order that the sorted places alone decide;
//   * of assigned values the last is found by an integer maximum (AssignWinner);
//   * integers are added by atomic functions.
#include <algorithm>
#include <bit>
#include <numeric>

#include "tensor/cuda/index/engines.h"
#include "tensor/cuda/index/index_plan.h"
#include "tensor/cuda/sort/sort_radix.h"

namespace tessera::cuda {
namespace {

using cpu::ScatterMode;

constexpr int kAtOnce = 4;            // values of a line under way at a time
constexpr int kOfRun = 8;             // and of a run of equal places
constexpr int64_t kSegment = 256;     // sorted places, whose values meet in a step of their own if all are one place
constexpr int64_t kFewPlaces = 8192;  // of fewer none is worth that step

// ---- what happens at a place: Value read(p), void put(p, value)

template <class T>
struct Assign {
  using Value = T;
  __device__ Value read(const char* p) const { return *reinterpret_cast<const T*>(p); }
  __device__ void put(char* p, const Value& v) const { *reinterpret_cast<T*>(p) = v; }
};

// No contraction with a following addition.
template <class A>
__device__ inline A product(A a, A b) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<A, float>) return __fmul_rn(a, b);
  if constexpr (std::is_same_v<A, double>) return __dmul_rn(a, b);
#endif
  return a * b;
}

template <class T>
__device__ inline Compute<T> rounded(Compute<T> v) {
  T t;
  store(&t, v);
  return load(&t);
}

// Arithmetic of a dtype, rounded to it at each step. Integers wrap; bool adds as "or", multiplies as "and".
template <class T>
struct Meet {
  using Value = Compute<T>;
  ScatterMode mode;
  bool scaled;
  KernelParam alpha;

  __device__ Value factor() const {
    if constexpr (is_complex_type<Value>)
      return rounded<T>(Value(static_cast<Real<Value>>(alpha.c[0]), static_cast<Real<Value>>(alpha.c[1])));
    else if constexpr (std::is_floating_point_v<Value>)
      return rounded<T>(static_cast<Value>(alpha.f));
    else
      return static_cast<Value>(alpha.i);
  }
  __device__ static Value multiply(Value a, Value b) {
    if constexpr (std::is_same_v<T, bool>)
      return a && b;
    else if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    else
      return rounded<T>(product(a, b));
  }
  __device__ Value read(const char* p) const {
    const Value v = load(reinterpret_cast<const T*>(p));
    return scaled ? multiply(v, factor()) : v;
  }
  __device__ Value meet(Value a, Value b) const {
    switch (mode) {
      case ScatterMode::kMultiply:
        return multiply(a, b);
      case ScatterMode::kMax:
        if constexpr (std::is_same_v<T, bool>)
          return a || b;
        else if constexpr (!is_complex_type<Value>)
          return a >= b || a != a ? a : b;
        else
          break;
      case ScatterMode::kMin:
        if constexpr (std::is_same_v<T, bool>)
          return a && b;
        else if constexpr (!is_complex_type<Value>)
          return a <= b || a != a ? a : b;
        else
          break;
      default:
        if constexpr (std::is_same_v<T, bool>)
          return a || b;
        else if constexpr (std::is_integral_v<T>)
          return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
        else
          return rounded<T>(a + b);
    }
    return a;
  }
  // a / (1 + number of values met). Integers round down.
  __device__ static Value mean(Value a, int64_t count) {
    const int64_t n = count + 1;
    if constexpr (std::is_same_v<T, bool>) {
      return a;
    } else if constexpr (std::is_integral_v<T>) {
      const T d = static_cast<T>(n);
      if (d == 0) return a;
      T q = static_cast<T>(a / d);
      if (std::is_signed_v<T> && a % d != 0 && (a < 0) != (d < 0)) q = static_cast<T>(q - 1);
      return q;
    } else {
      return rounded<T>(a / static_cast<Real<Value>>(n));
    }
  }
  __device__ void put(char* p, const Value& v) const {
    T* t = reinterpret_cast<T*>(p);
    store(t, meet(load(t), v));
  }
};

// U: unsigned or unsigned long long, of an integer dtype's size.
template <class U>
struct AtomicAdd {
  using Value = U;
  U factor;
  __device__ Value read(const char* p) const { return *reinterpret_cast<const U*>(p) * factor; }
  __device__ void put(char* p, const Value& v) const { atomicAdd(reinterpret_cast<U*>(p), v); }
};

// ---- lines. Operands of walks: self, src, index.

// Values that may meet, in their order: a walk over all but the innermost dimension, and that one.
struct Line {
  Walk<3> outer;
  int64_t length = 1;
  int64_t step[3] = {0, 0, 0};
  explicit Line(const Walk<3>& w) {
    outer = w;
    if (w.rank == 0) return;
    length = w.sizes[0];
    for (int k = 0; k < 3; ++k) step[k] = w.strides[0][k];
    outer.rank = w.rank - 1;
    outer.numel = length == 0 ? 0 : w.numel / length;
    for (int d = 0; d < outer.rank; ++d) {
      outer.sizes[d] = w.sizes[d + 1];
      for (int k = 0; k < 3; ++k) outer.strides[d][k] = w.strides[d + 1][k];
    }
  }
};

template <class Op>
__global__ void scatter_lines(Walk<3> free, Line line, char* self, const char* src, Index index, Op op) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < free.numel; i += step) {
    int64_t start[3], more[3];
    free.offsets(i, start);
    for (int64_t o = 0; o < line.outer.numel; ++o) {
      line.outer.offsets(o, more);
      for (int k = 0; k < 3; ++k) more[k] += start[k];
      for (int64_t first = 0; first < line.length; first += kAtOnce) {
        int64_t to[kAtOnce];
        typename Op::Value v[kAtOnce];
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u) {
          const int64_t j = first + u;
          to[u] = j < line.length ? index.offset(more[2] + j * line.step[2]) : kNowhere;
          if (to[u] == kNowhere) continue;
          to[u] += more[0] + j * line.step[0];
          v[u] = op.read(src + more[1] + j * line.step[1]);
        }
#pragma unroll
        for (int u = 0; u < kAtOnce; ++u)
          if (to[u] != kNowhere) op.put(self + to[u], v[u]);
      }
    }
  }
}

// ---- places as numbers

// Numbers of places: byte offsets into self divided by what all of them are multiples of. Bad indices go to the number
// `places`. Operands: self, index.
template <class Key>
struct NumberPlaces {
  Walk<2> keyed;
  Index index;
  int64_t unit, places;
  Key* keys;
  __device__ void operator()(int64_t i) const {
    int64_t at[2];
    keyed.offsets(i, at);
    const int64_t offset = index.offset(at[1]);
    keys[i] = static_cast<Key>(offset == kNowhere ? places : (offset + at[0]) / unit);
  }
};

// ---- runs of equal places

// Where the values of positions lie, in the order of their sorted places. Operand: src.
template <class Pos>
struct ValueOffsets {
  Walk<1> keyed;
  const Pos* positions;
  int64_t* offsets;
  __device__ void operator()(int64_t j) const {
    int64_t at[1];
    keyed.offsets(static_cast<int64_t>(positions[j]), at);
    offsets[j] = at[0];
  }
};

// `inner`: what belongs to each position (operands: self, src).
struct Runs {
  Walk<2> inner;
  int64_t positions;
  const void* keys;  // numbers of places, sorted; uint64_t if wide, else uint32_t
  bool wide;
  const int64_t* offsets;  // of the values
  int64_t unit, places;
  char* self;
  const char* src;
  __device__ int64_t place(int64_t j) const {
    return wide ? static_cast<int64_t>(static_cast<const uint64_t*>(keys)[j]) : static_cast<const uint32_t*>(keys)[j];
  }
  // Whether the segment that begins at j, in a run of place `number` or behind it, is of that place alone.
  __device__ bool is_whole(int64_t j, int64_t number) const {
    return j + kSegment <= positions && place(j + kSegment - 1) == number;
  }
};

// sum = sum and up to kOfRun values, which are under way together. Returns how many there were: the first ones that are
// `mine`.
template <class T, class Mine, class Value>
__device__ inline int meet_some(const Meet<T>& op, Compute<T>& sum, Mine mine, Value value) {
  Compute<T> v[kOfRun];
  bool is_mine[kOfRun];
#pragma unroll
  for (int u = 0; u < kOfRun; ++u) {
    is_mine[u] = mine(u);
    if (is_mine[u]) v[u] = value(u);
  }
  int found = 0;
#pragma unroll
  for (int u = 0; u < kOfRun; ++u) {
    if (!is_mine[u]) continue;
    sum = op.meet(sum, v[u]);
    ++found;
  }
  return found;
}

// The values of each segment that is one place, for all that belongs to a position.
template <class T>
__global__ void segment_sums(Runs runs, Meet<T> op, Compute<T>* sums) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x, n = runs.positions / kSegment * runs.inner.numel;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t segment = quotient(i, runs.inner.numel), first = segment * kSegment, number = runs.place(first);
    if (number == runs.places || !runs.is_whole(first, number)) continue;
    int64_t at[2];
    runs.inner.offsets(i - segment * runs.inner.numel, at);
    const auto value = [&](int64_t j) { return op.read(runs.src + runs.offsets[j] + at[1]); };
    Compute<T> sum = value(first);
    for (int64_t j = 1; j < kSegment;)
      j += meet_some(
          op, sum, [&](int u) { return j + u < kSegment; }, [&](int u) { return value(first + j + u); });
    sums[i] = sum;
  }
}

// sums: of segments, or null.
template <class T>
__global__ void scatter_runs(Runs runs, Meet<T> op, const Compute<T>* sums) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x, n = runs.positions * runs.inner.numel;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t first = quotient(i, runs.inner.numel), number = runs.place(first);
    if (number == runs.places || (first > 0 && runs.place(first - 1) == number)) continue;  // not the first of its run
    const int64_t inner = i - first * runs.inner.numel;
    int64_t at[2];
    runs.inner.offsets(inner, at);
    T* place = reinterpret_cast<T*>(runs.self + number * runs.unit + at[0]);
    Compute<T> sum = load(place);
    int64_t j = first;
    for (bool more = true; more;) {
      if (sums && j % kSegment == 0) {
        const int found = meet_some(
            op, sum, [&](int u) { return runs.is_whole(j + u * kSegment, number); },
            [&](int u) { return sums[(j / kSegment + u) * runs.inner.numel + inner]; });
        j += found * kSegment;
        if (found == kOfRun) continue;
      }
      const int64_t next = sums ? (j / kSegment + 1) * kSegment : runs.positions,
                    end = next < runs.positions ? next : runs.positions;
      const int found = meet_some(
          op, sum, [&](int u) { return j + u < end && runs.place(j + u) == number; },
          [&](int u) { return op.read(runs.src + runs.offsets[j + u] + at[1]); });
      j += found;
      more = found == kOfRun || (j == end && j < runs.positions);
    }
    store(place, op.mode == ScatterMode::kMean ? op.mean(sum, j - first) : sum);
  }
}

template <class T>
__global__ void assign_last(Runs runs) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x, n = runs.positions * runs.inner.numel;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const int64_t j = quotient(i, runs.inner.numel), number = runs.place(j);
    if (number == runs.places || (j + 1 < runs.positions && runs.place(j + 1) == number)) continue;
    int64_t at[2];
    runs.inner.offsets(i - j * runs.inner.numel, at);
    *reinterpret_cast<T*>(runs.self + number * runs.unit + at[0]) =
        *reinterpret_cast<const T*>(runs.src + runs.offsets[j] + at[1]);
  }
}

// ---- winners

struct FindWinners {
  const uint32_t* keys;
  int* winners;
  __device__ void operator()(int64_t i) const { atomicMax(winners + keys[i], static_cast<int>(i)); }
};

// Operands of keyed: src; of inner: self, src.
template <class T>
struct AssignWinner {
  Walk<1> keyed;
  Walk<2> inner;
  const uint32_t* keys;
  const int* winners;
  int64_t unit, places;
  char* self;
  const char* src;
  __device__ void operator()(int64_t i) const {
    const int64_t j = quotient(i, inner.numel), key = keys[j];
    if (key == places || winners[key] != static_cast<int>(j)) return;
    int64_t at[2], from[1];
    inner.offsets(i - j * inner.numel, at);
    keyed.offsets(j, from);
    *reinterpret_cast<T*>(self + key * unit + at[0]) = *reinterpret_cast<const T*>(src + from[0] + at[1]);
  }
};

// ---- the plan

// Some dimensions of the iteration, with the strides of self, src and index.
struct Dims {
  int64_t shape[kMaxDims];
  int64_t strides[3][kMaxDims];
  size_t n = 0;
  void push(int64_t size, int64_t self, int64_t src, int64_t index) {
    TESSERA_CHECK(n < kMaxDims, "tensors have at most ", kMaxDims, " dimensions");
    shape[n] = size;
    strides[0][n] = self;
    strides[1][n] = src;
    strides[2][n++] = index;
  }
  int64_t count() const {
    int64_t c = 1;
    for (size_t d = 0; d < n; ++d) c *= shape[d];
    return c;
  }
  Walk<3> walk(bool keep_order) const {
    return make_walk<3>({shape, n}, {strides[0], strides[1], strides[2]}, keep_order);
  }
  Walk<2> walk_of(int a, int b, bool keep_order) const {
    return make_walk<2>({shape, n}, {strides[a], strides[b]}, keep_order);
  }
  Walk<1> walk_of(int a) const { return make_walk<1>({shape, n}, {strides[a]}); }
};

struct Scatter {
  ScatterMode mode;
  Operand self, src;
  Index index;
  Dims all;
  Dims free, ordered;  // dimensions along which two iterations never meet at a place, and the others
  Dims inner, keyed;   // those that index and ordered dimensions do not depend on, and the others
  int64_t unit = 0, places = 1;
  int64_t reach = 0;  // bytes from the first place to the last
  bool sortable = true;
  bool scaled = false;
  KernelParam alpha = {};

  // orders[d]: two iterations that differ in dimension d may meet. self_strides: 0 where the index leads.
  void add(int64_t size, int64_t self_stride, int64_t src_stride, int64_t index_stride, bool orders) {
    if (size == 1) return;
    all.push(size, self_stride, src_stride, index_stride);
    (orders ? ordered : free).push(size, self_stride, src_stride, index_stride);
    const bool keys = index_stride != 0 || orders;
    (keys ? keyed : inner).push(size, self_stride, src_stride, index_stride);
    if (keys) extend(size, self_stride);
  }
  // Places reach `stride` * (size - 1) bytes further.
  void extend(int64_t size, int64_t stride) {
    if (stride < 0) sortable = false;
    if (size <= 1) return;
    unit = std::gcd(unit, stride);
    reach += (size - 1) * stride;
  }
  void finish() {
    if (unit == 0) unit = 1;
    places = reach / unit + 1;
  }
  // What addresses of values and places are multiples of, but for the steps of inner (or free) dimensions.
  uint64_t alignment() const {
    uint64_t bits = address(self.data) | address(src.data) | static_cast<uint64_t>(unit);
    for (size_t d = 0; d < keyed.n; ++d) bits |= static_cast<uint64_t>(keyed.strides[1][d]);
    return bits;
  }
};

// Is a thread for each line faster than sorting? In nanoseconds: a step of a line waits for memory, with at most so
// many lines under way; a sort takes some launches, and time for each key.
bool lines_are_faster(const Scatter& s) {
  constexpr double kStep = 300, kLinesAtOnce = 200000, kSort = 100000, kKey = 0.7;
  const double lines = static_cast<double>(s.free.count()), length = static_cast<double>(s.ordered.count()),
               keys = static_cast<double>(s.keyed.count());
  return length * kStep * std::max(1.0, lines / kLinesAtOnce) <= kSort + keys * kKey;
}

template <class Op>
void by_lines(const Scatter& s, const Walk<3>& free, const Dims& ordered, const Op& op) {
  launch(scatter_lines<Op>, blocks_for(free.numel), dim3(kThreads), free, Line(ordered.walk(true)),
         static_cast<char*>(s.self.data), static_cast<const char*>(s.src.data), s.index, op);
}

template <class Key>
Buffer number_places(const Scatter& s) {
  const int64_t n = s.keyed.count();
  Buffer keys(n * sizeof(Key));
  for_each(n, NumberPlaces<Key>{s.keyed.walk_of(0, 2, true), s.index, s.unit, s.places, keys.as<Key>()});
  return keys;
}

// f(runs) after the places were sorted.
template <class Key, class Pos, class F>
void with_runs(const Scatter& s, const Walk<2>& inner, F&& f) {
  const Sorted<Key, Pos> sorted =
      radix_sort<Key, Pos>(number_places<Key>(s), 1, s.keyed.count(), std::bit_width(static_cast<uint64_t>(s.places)));
  const int64_t n = s.keyed.count();
  const Buffer offsets(n * sizeof(int64_t));
  for_each(n, ValueOffsets<Pos>{s.keyed.walk_of(1), sorted.positions.template as<Pos>(), offsets.as<int64_t>()});
  f(Runs{inner, n, sorted.keys.get(), sizeof(Key) == 8, offsets.as<int64_t>(), s.unit, s.places,
         static_cast<char*>(s.self.data), static_cast<const char*>(s.src.data)});
}
template <class F>
void by_runs(const Scatter& s, const Walk<2>& inner, F&& f) {
  if (s.keyed.count() > INT64_C(0xffffffff))
    with_runs<uint64_t, uint64_t>(s, inner, f);
  else if (s.places > INT64_C(0xffffffff))
    with_runs<uint64_t, uint32_t>(s, inner, f);
  else
    with_runs<uint32_t, uint32_t>(s, inner, f);
}

void assign_by_lines(const Scatter& s, const Dims& free, const Dims& ordered) {
  Walk<3> walk = free.walk(false);
  visit_size(widen(walk, item_size(s.self.dtype), 0b011, s.alignment()),
             [&](auto tag) { by_lines(s, walk, ordered, Assign<typename decltype(tag)::type>()); });
}

void assign(const Scatter& s) {
  bool one_value = true;
  for (size_t d = 0; d < s.all.n; ++d) one_value = one_value && s.all.strides[1][d] == 0;
  if (one_value || s.ordered.count() == 1) return assign_by_lines(s, s.all, Dims());
  if (!s.sortable || lines_are_faster(s)) return assign_by_lines(s, s.free, s.ordered);
  const int64_t positions = s.keyed.count();
  const bool winners_fit =
      positions <= INT32_MAX && s.places < INT64_C(0xffffffff) && s.places <= 4 * positions + 65536;
  Walk<2> inner = s.inner.walk_of(0, 1, false);
  visit_size(widen(inner, item_size(s.self.dtype), 0b11, s.alignment()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    if (winners_fit) {
      const Buffer keys = number_places<uint32_t>(s), winners((s.places + 1) * sizeof(int));
      fill_bytes(winners.get(), 0xff, (s.places + 1) * sizeof(int));
      for_each(positions, FindWinners{keys.as<uint32_t>(), winners.as<int>()});
      for_each(positions * inner.numel,
               AssignWinner<T>{s.keyed.walk_of(1), inner, keys.as<uint32_t>(), winners.as<int>(), s.unit, s.places,
                               static_cast<char*>(s.self.data), static_cast<const char*>(s.src.data)});
      return;
    }
    by_runs(s, inner, [&](const Runs& runs) {
      launch(assign_last<T>, blocks_for(runs.positions * runs.inner.numel), dim3(kThreads), runs);
    });
  });
}

template <class T>
void meet(const Scatter& s) {
  const Meet<T> op{s.mode, s.scaled, s.alpha};
  if constexpr (std::is_integral_v<T> && sizeof(T) >= 4) {
    using U = std::conditional_t<sizeof(T) == 4, unsigned, unsigned long long>;
    if (s.mode == ScatterMode::kAdd)
      return by_lines(s, s.all.walk(false), Dims(), AtomicAdd<U>{static_cast<U>(s.scaled ? s.alpha.i : 1)});
  }
  // Only sorting tells how many values met at a place.
  if (s.mode != ScatterMode::kMean && (!s.sortable || lines_are_faster(s)))
    return by_lines(s, s.free.walk(false), s.ordered, op);
  TESSERA_CHECK(s.sortable,
                "scatter with reduce='mean' into a tensor with negative strides is not supported on CUDA devices");
  by_runs(s, s.inner.walk_of(0, 1, false), [&](const Runs& runs) {
    const int64_t segments = runs.positions < kFewPlaces ? 0 : runs.positions / kSegment,
                  n = segments * runs.inner.numel;
    const Buffer sums(static_cast<size_t>(n) * sizeof(Compute<T>));
    if (n > 0) launch(segment_sums<T>, blocks_for(n), dim3(kThreads), runs, op, sums.template as<Compute<T>>());
    launch(scatter_runs<T>, blocks_for(runs.positions * runs.inner.numel), dim3(kThreads), runs, op,
           n > 0 ? sums.template as<Compute<T>>() : nullptr);
  });
}

const char* name_of_mode(ScatterMode mode) {
  static constexpr const char* kNames[] = {
      "scatter_gather_base_kernel_func",          "scatter_gather_base_kernel_func_add",
      "scatter_gather_base_kernel_func_multiply", "scatter_gather_base_kernel_func_mean",
      "scatter_gather_base_kernel_func_amax",     "scatter_gather_base_kernel_func_amin"};
  return kNames[static_cast<int>(mode)];
}

void run(const Scatter& s) {
  if (s.mode == ScatterMode::kAssign) {
    if (s.all.count() > 0) assign(s);
    return;
  }
  const char* name = name_of_mode(s.mode);
  if (is_complex(s.self.dtype) && (s.mode == ScatterMode::kMax || s.mode == ScatterMode::kMin))
    tessera::internal::raise<NotImplementedError>("\"", name, "\" not implemented for '", type_name_of(s.self.dtype),
                                                  "'");
  visit<kBools | kNumbers | kWideInts | kComplexHalves>(s.self.dtype, name, [&](auto tag) {
    if (s.all.count() > 0) meet<typename decltype(tag)::type>(s);
  });
}

// Along one dimension. scale: bytes of self from one number of the index to the next.
Scatter scatter_along(ScatterMode mode, std::span<const int64_t> shape, int dim, const Operand& self,
                      const Operand& src, const int64_t* index_strides, const Index& index) {
  Scatter s{mode, self, src, index};
  for (int d = 0; d < static_cast<int>(shape.size()); ++d)
    s.add(shape[d], d == dim ? 0 : self.strides[d], src.strides[d], index_strides[d], d == dim);
  s.extend(index.size, index.scale);
  s.finish();
  return s;
}

}  // namespace

void run_scatter(ScatterMode mode, std::span<const int64_t> index_shape, int dim, int64_t self_dim_size,
                 const Operand& self, const Operand& src, const Operand& index) {
  const Index x{static_cast<const char*>(index.data),
                self_dim_size,
                index_shape.empty() ? 0 : self.strides[dim],
                dim,
                ReportKind::kScatterIndex,
                false,
                false,
                report_slot()};
  run(scatter_along(mode, index_shape, dim, self, src, index.strides, x));
}

void run_index_add(std::span<const int64_t> shape, int dim, const Operand& self, const Operand& src,
                   const int64_t* index, int64_t n, KernelParam alpha) {
  const size_t rank = shape.size();
  Strides sizes(shape.data(), rank), along;
  sizes.of[dim] = n;
  along.of[dim] = sizeof(int64_t);
  Index x{reinterpret_cast<const char*>(index), 1, 0, dim, ReportKind::kIndexOutOfBounds, false, false, report_slot()};
  Scatter s;
  if (rank == 0) {  // one element, n additions
    const Strides none;
    s = scatter_along(ScatterMode::kAdd, {sizes.of, 1}, 0, {self.data, self.dtype, none.of},
                      {src.data, src.dtype, none.of}, along.of, x);
  } else {
    x.size = shape[dim];
    x.scale = self.strides[dim];
    s = scatter_along(ScatterMode::kAdd, {sizes.of, rank}, dim, self, src, along.of, x);
  }
  const Category c = category_of(self.dtype);
  s.scaled = !(c == Category::kComplex ? alpha.c[0] == 1 && alpha.c[1] == 0
               : c == Category::kFloat ? alpha.f == 1
                                       : alpha.i == 1);
  s.alpha = alpha;
  run(s);
}

void run_index_put(std::span<const int64_t> shape, const Operand& self, const Operand& values,
                   std::span<const Operand> indices, std::span<const int64_t> indexed_sizes,
                   std::span<const int64_t> indexed_strides, bool accumulate, std::span<const int64_t> dim_numbers) {
  const IndexPlan plan(shape, indices, indexed_sizes, indexed_strides, dim_numbers);
  if (plan.count == 0) return;
  Scatter s{accumulate ? ScatterMode::kAdd : ScatterMode::kAssign, self, values, plan.index};
  // A dimension that neither self nor the indices walk writes the same place each time.
  for (size_t d = 0; d < shape.size(); ++d)
    s.add(shape[d], self.strides[d], values.strides[d], plan.strides.of[d],
          plan.strides.of[d] != 0 || self.strides[d] == 0);
  for (size_t k = 0; k < indexed_sizes.size(); ++k) s.extend(indexed_sizes[k], indexed_strides[k]);
  s.finish();
  run(s);
}

}  // namespace tessera::cuda
