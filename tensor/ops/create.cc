// Making tensors: memory, constants, ranges.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <limits>

#include "tensor/core/device_hooks.h"
#include "tensor/core/layouts/sparse.h"
#include "tensor/core/warning.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/engine/functions.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_extra.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/inference_writes.h"
#include "tensor/ops/options.h"
#include "tensor/ops/pointwise.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/result_memory.h"

namespace tessera::kernels {

DType factory_dtype(std::optional<DType> dtype) { return dtype.value_or(default_dtype()); }
Device factory_device(std::optional<Device> device) { return device ? complete_device(*device) : Device(); }

namespace {

IntVector strides_for(MemoryFormat format, IntList sizes) {
  if (format == MemoryFormat::kChannelsLast) {
    TESSERA_CHECK(sizes.size() == 4, "required rank 4 tensor to use channels_last format");
    return channels_last_strides(sizes);
  }
  if (format == MemoryFormat::kChannelsLast3d) {
    TESSERA_CHECK(sizes.size() == 5, "required rank 5 tensor to use channels_last_3d format");
    return channels_last_strides(sizes);
  }
  return {};
}

// Uninitialised, in pinned memory if that is wanted.
Tensor new_tensor(IntList sizes, IntList strides, DType dtype, Device device, std::optional<bool> pin) {
  if (!pin.value_or(false)) return empty_tensor(sizes, strides, dtype, device);
  TESSERA_CHECK(device.is_cpu(), "Only dense CPU tensors can be pinned");
  const Tensor shape = empty_tensor(sizes, strides, dtype, Device(DeviceType::kMeta));
  return tensor_from_storage(allocate_pinned(shape.storage()->nbytes()), sizes, shape.strides(), 0, dtype);
}

// Null, or what fills memory that nothing was written to. (A pointer, so that programs that don't ask for it don't link
// it.)
std::atomic<void (*)(const Tensor&)> g_fill_uninitialized{nullptr};

Tensor uninitialized(Tensor t) {
  if (auto* fill = g_fill_uninitialized.load(std::memory_order_relaxed)) [[unlikely]]
    fill(t);
  return t;
}

Tensor like(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device,
            std::optional<MemoryFormat> format, std::optional<bool> pin = {}) {
  const MemoryFormat f = format.value_or(MemoryFormat::kPreserve);
  const IntVector strides = f == MemoryFormat::kPreserve
                                ? (self.is_contiguous() ? IntVector() : preserved_strides(self))
                                : strides_for(f, self.sizes());
  return new_tensor(self.sizes(), strides, dtype.value_or(self.dtype()),
                    factory_device(device ? device : self.device()), pin);
}

void fill_raw(const Tensor& t, const Scalar& value, bool check) {
  alignas(16) char element[16];
  store_scalar(value, t.dtype(), element, check);
  if (t.is_meta() || t.numel() == 0) return;
  int64_t strides[64];
  pointwise::broadcast_strides(t, t.sizes(), strides);
  TESSERA_ON(t.device(), fill_strided)(t.sizes(), {t.data_ptr(), t.dtype(), strides}, element);
}

// f(contiguous memory of out's size, dtype and device), then its elements to out.
template <class F>
void write_through(const Tensor& out, F f) {
  if (out.is_meta() || out.numel() == 0) return;
  const ResultMemory memory(out);
  f(memory.data());
  memory.finish();
}
void write_sequence(const Tensor& out, const cpu::Sequence& s) {
  write_through(out, [&](void* p) { TESSERA_ON(out.device(), run_sequence)(s, out.dtype(), p); });
}

// What no result should look like: nan, else the largest number.
void fill_conspicuous(const Tensor& t) {
  if (t.is_floating_point() || t.is_complex())
    fill_raw(t, std::numeric_limits<double>::quiet_NaN(), false);
  else if (t.dtype() == DType::kBool)
    fill_raw(t, int64_t{1}, false);
  else
    fill_raw(t, static_cast<int64_t>(~uint64_t{0} >> (64 - 8 * t.item_size() + (is_signed(t.dtype()) ? 1 : 0))), false);
}

}  // namespace

void set_fill_uninitialized_memory(bool on) { g_fill_uninitialized = on ? &fill_conspicuous : nullptr; }

void fill_new_memory(const Tensor& t, int64_t known_bytes) {
  auto* fill = g_fill_uninitialized.load(std::memory_order_relaxed);
  if (!fill || !t.is_cpu()) return;
  const int64_t size = t.item_size(), first = (known_bytes + size - 1) / size;
  const int64_t all = static_cast<int64_t>(t.storage()->nbytes()) / size;
  if (first < all) fill(tensor_from_storage(t.storage(), IntVector{all - first}, IntVector{1}, first, t.dtype()));
}

Tensor make_filled(IntList sizes, const Scalar& value, DType dtype, Device device) {
  const Tensor r = empty_tensor(sizes, {}, dtype, factory_device(device));
  fill_raw(r, value, false);
  return r;
}
Tensor make_filled_like(const Tensor& self, const Scalar& value, std::optional<DType> dtype,
                        std::optional<Device> device, std::optional<MemoryFormat> format) {
  const Tensor r = like(self, dtype, device, format);
  fill_raw(r, value, false);
  return r;
}

namespace {
// Whether a sparse layout is asked for; NotImplementedError for those that there are no tensors of.
bool wants_sparse(const char* op, std::optional<Layout> layout) {
  if (!layout || *layout == Layout::kStrided) return false;
  if (*layout < Layout::kSparseCoo || *layout > Layout::kSparseBsc || !&sparse::empty_of)
    options::check_layout(op, layout);
  return true;
}
}  // namespace

Tensor zeros_any(SymIntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                 std::optional<Device> device, std::optional<bool> pin) {
  if (wants_sparse("zeros", layout))
    return sparse::empty_of(*layout, size.ints(), factory_dtype(dtype), factory_device(device));
  return filled<0>(size, dtype, layout, device, pin);
}
Tensor zeros_like_any(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                      std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  if (wants_sparse("zeros_like", layout))
    return sparse::empty_of(*layout, self.sizes(), dtype.value_or(self.dtype()),
                            factory_device(device ? device : self.device()));
  return filled_like<0>(self, dtype, layout, device, pin, format);
}

Tensor empty_memory_format_kernel(SymIntList size, std::optional<DType> dtype, std::optional<Layout> layout,
                                  std::optional<Device> device, std::optional<bool> pin,
                                  std::optional<MemoryFormat> format) {
  if (wants_sparse("empty", layout))
    return sparse::empty_of(*layout, size.ints(), factory_dtype(dtype), factory_device(device));
  TESSERA_CHECK(format.value_or(MemoryFormat::kContiguous) != MemoryFormat::kPreserve,
                "empty(): preserve_format is only for the functions that end in _like");
  return uninitialized(new_tensor(size.ints(), strides_for(format.value_or(MemoryFormat::kContiguous), size.ints()),
                                  factory_dtype(dtype), factory_device(device), pin));
}
Tensor empty_strided_kernel(SymIntList size, SymIntList stride, std::optional<DType> dtype, std::optional<Layout>,
                            std::optional<Device> device, std::optional<bool> pin) {
  TESSERA_CHECK(size.size() == stride.size(), "mismatch in length of strides and shape: ", stride.size(), " and ",
                size.size());
  return uninitialized(new_tensor(size.ints(), stride.ints(), factory_dtype(dtype), factory_device(device), pin));
}
Tensor empty_permuted_kernel(SymIntList size, IntList order, std::optional<DType> dtype, std::optional<Layout>,
                             std::optional<Device> device, std::optional<bool>) {
  TESSERA_CHECK(size.size() == order.size(),
                "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = ",
                size.size(), " is not equal to len(physical_layout) = ", order.size());
  IntVector strides(order.size(), 0);
  std::vector<bool> seen(order.size());
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    TESSERA_CHECK(order[k] >= 0 && order[k] < static_cast<int64_t>(order.size()),
                  "Dimension out of range (expected to be between 0 and ", static_cast<int64_t>(order.size()) - 1,
                  ", but got ", order[k], " at index ", k, "). NB: negative dims not currently supported");
    TESSERA_CHECK(!seen[order[k]], "Duplicate dim not allowed");
    seen[order[k]] = true;
    strides[order[k]] = stride;
    stride *= std::max<int64_t>(size.ints()[order[k]], 1);
  }
  return uninitialized(empty_tensor(size.ints(), strides, factory_dtype(dtype), factory_device(device)));
}
Tensor empty_like_kernel(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                         std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  if (wants_sparse("empty_like", layout))
    return sparse::empty_of(*layout, self.sizes(), dtype.value_or(self.dtype()),
                            factory_device(device ? device : self.device()));
  return uninitialized(like(self, dtype, device, format, pin));
}
Tensor full_like_kernel(const Tensor& self, const Scalar& value, std::optional<DType> dtype, std::optional<Layout>,
                        std::optional<Device> device, std::optional<bool>, std::optional<MemoryFormat> format) {
  const Tensor r = like(self, dtype, device, format);
  fill_scalar(r, value);
  return r;
}
Tensor full_value(SymIntList size, const Scalar& value, std::optional<DType> dtype, std::optional<Layout>,
                  std::optional<Device> device, std::optional<bool>) {
  const DType t = dtype                                ? *dtype
                  : value.is_floating_point()          ? default_dtype()
                  : !value.is_complex()                ? value.raw_dtype()
                  : default_dtype() == DType::kFloat64 ? DType::kComplex128
                                                       : DType::kComplex64;  // never of halves
  const Tensor r = empty_tensor(size.ints(), {}, t, factory_device(device));
  fill_raw(r, value, true);
  return r;
}
Tensor new_empty_kernel(const Tensor& self, SymIntList size, std::optional<DType> dtype, std::optional<Layout>,
                        std::optional<Device> device, std::optional<bool>) {
  return uninitialized(
      empty_tensor(size.ints(), {}, dtype.value_or(self.dtype()), factory_device(device ? device : self.device())));
}
Tensor new_empty_strided_kernel(const Tensor& self, SymIntList size, SymIntList stride, std::optional<DType> dtype,
                                std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  TESSERA_CHECK(size.size() == stride.size(), "mismatch in length of strides and shape: ", stride.size(), " and ",
                size.size());
  return uninitialized(empty_tensor(size.ints(), stride.ints(), dtype.value_or(self.dtype()),
                                    factory_device(device ? device : self.device())));
}
Tensor new_full_kernel(const Tensor& self, SymIntList size, const Scalar& value, std::optional<DType> dtype,
                       std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  const Tensor r =
      empty_tensor(size.ints(), {}, dtype.value_or(self.dtype()), factory_device(device ? device : self.device()));
  fill_raw(r, value, true);
  return r;
}
Tensor scalar_tensor_value(const Scalar& s, std::optional<DType> dtype, std::optional<Layout>,
                           std::optional<Device> device, std::optional<bool>) {
  return make_filled({}, s, factory_dtype(dtype), factory_device(device));
}

void resize_factory_out(const Tensor& out, SymIntList size) {
  checked_numel(size.ints());
  resize_output(out, size.ints());
}
void fill_factory_out(const Tensor& out, SymIntList size, const Scalar& value) {
  resize_factory_out(out, size);
  fill_raw(out, value, true);
}

// --- ranges ---

namespace {

// How many numbers start, start + step ... there are before end.
int64_t range_length(const Scalar& start, const Scalar& end, const Scalar& step, bool integral) {
  if (integral) {
    const int64_t a = start.to_int(), b = end.to_int(), s = step.to_int();
    TESSERA_CHECK(s != 0, "step must be nonzero");
    TESSERA_CHECK((s > 0 && b >= a) || (s < 0 && b <= a), "upper bound and lower bound inconsistent with step sign");
    const __int128 span = static_cast<__int128>(b) - a;
    const __int128 n = (span + s + (s > 0 ? -1 : 1)) / s;
    TESSERA_CHECK(n <= INT64_MAX, "invalid size, possible overflow?");
    return static_cast<int64_t>(n);
  }
  const double a = start.to_double(), b = end.to_double(), s = step.to_double();
  TESSERA_CHECK(s != 0, "step must be nonzero");
  TESSERA_CHECK(std::isfinite(a) && std::isfinite(b), "unsupported range: ", a, " -> ", b);
  TESSERA_CHECK((s > 0 && b >= a) || (s < 0 && b <= a), "upper bound and lower bound inconsistent with step sign");
  const double n = std::ceil((b - a) / s);
  TESSERA_CHECK(n >= 0 && n < 9.2e18, "invalid size, possible overflow?");
  return static_cast<int64_t>(n);
}

void fill_range(const Tensor& out, const Scalar& start, const Scalar& step) {
  cpu::Sequence s{.kind = cpu::SequenceKind::kSteps, .count = out.numel()};
  if (is_integral(out.dtype(), true)) {
    s.kind = cpu::SequenceKind::kIntegers;
    s.first = start.to_int();
    s.step = step.to_int();
  } else {
    s.a = start.to_double();
    s.b = step.to_double();
  }
  write_sequence(out, s);
}

Tensor arange_of(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
                 std::optional<Device> device) {
  const bool all_integral = start.is_integral(true) && end.is_integral(true) && step.is_integral(true);
  const DType t = dtype ? *dtype : all_integral ? DType::kInt64 : default_dtype();
  TESSERA_CHECK_NOT_IMPLEMENTED(!is_complex(t) && t != DType::kBool, "\"arange_cpu\" not implemented for '",
                                type_name_of(t), "'");
  const int64_t n[1] = {range_length(start, end, step, t == DType::kInt64 || (all_integral && is_integral(t, false)))};
  const Tensor r = empty_tensor(n, {}, t, factory_device(device));
  fill_range(r, start, step);
  return r;
}

}  // namespace

Tensor arange_end(const Scalar& end, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                  std::optional<bool>) {
  return arange_of(0, end, 1, dtype, device);
}
Tensor arange_start(const Scalar& start, const Scalar& end, std::optional<DType> dtype, std::optional<Layout>,
                    std::optional<Device> device, std::optional<bool>) {
  return arange_of(start, end, 1, dtype, device);
}
Tensor arange_step(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
                   std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  return arange_of(start, end, step, dtype, device);
}
void arange_into(const Tensor& out, const Scalar& start, const Scalar& end, const Scalar& step) {
  const bool integral =
      start.is_integral(true) && end.is_integral(true) && step.is_integral(true) && is_integral(out.dtype(), false);
  const int64_t n[1] = {range_length(start, end, step, integral)};
  if (out.numel() != n[0]) resize_output(out, n);
  fill_range(out, start, step);
}
namespace {
// How many numbers torch.range has from start to end, both included.
int64_t closed_range_length(const Scalar& start, const Scalar& end, const Scalar& step) {
  warn(
      "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
      "Python's range builtin. Instead, use torch.arange, which produces values in "
      "[start, end).");
  const double a = start.to_double(), b = end.to_double(), s = step.to_double();
  TESSERA_CHECK(s != 0, "step must be nonzero");
  TESSERA_CHECK(std::isfinite(a) && std::isfinite(b), "unsupported range: ", a, " -> ", b);
  TESSERA_CHECK((s > 0 && b >= a) || (s < 0 && b <= a), "upper bound and lower bound inconsistent with step sign");
  return static_cast<int64_t>((b - a) / s) + 1;
}
}  // namespace

Tensor range_step(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
                  std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  const int64_t n[1] = {closed_range_length(start, end, step)};
  const Tensor r = empty_tensor(n, {}, factory_dtype(dtype), factory_device(device));
  fill_range(r, start, step);
  return r;
}
void range_into(const Tensor& out, const Scalar& start, const Scalar& end, const Scalar& step) {
  const int64_t n[1] = {closed_range_length(start, end, step)};
  if (out.numel() != n[0]) resize_output(out, n);
  fill_range(out, start, step);
}

namespace {
// Both ends exact: the second half counts back from the end.
cpu::Sequence between(double start, double end, int64_t steps) {
  cpu::Sequence s{.kind = cpu::SequenceKind::kBetween, .count = steps};
  s.a = start;
  s.b = (end - start) / static_cast<double>(steps - 1);
  s.end = end;
  return s;
}
void fill_linspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps) {
  if (steps == 1) {
    fill_raw(out, start, false);
    return;
  }
  cpu::Sequence s;
  if (is_complex(out.dtype())) {
    const std::complex<double> a = start.to_complex(), b = end.to_complex(),
                               step = (b - a) / static_cast<double>(steps - 1);
    s = {.kind = cpu::SequenceKind::kBetween,
         .count = steps,
         .a = a.real(),
         .b = step.real(),
         .end = b.real(),
         .a_imag = a.imag(),
         .b_imag = step.imag(),
         .end_imag = b.imag()};
  } else if (is_integral(out.dtype(), true)) {
    s = between(static_cast<double>(start.to_int()), static_cast<double>(end.to_int()), steps);
  } else if (out.dtype() == DType::kFloat32) {
    const float a = static_cast<float>(start.to_double()), b = static_cast<float>(end.to_double());
    s = {.kind = cpu::SequenceKind::kFloats,
         .count = steps,
         .a = a,
         .b = (b - a) / static_cast<float>(steps - 1),
         .end = b};
  } else {
    s = between(start.to_double(), end.to_double(), steps);
  }
  write_sequence(out, s);
}
// Integers: the exponents at both ends drop their fractions, those between them do not.
void fill_logspace(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps, double base) {
  const auto exponent = [&](const Scalar& s) {
    return is_integral(out.dtype(), true) ? static_cast<double>(s.to_int()) : s.to_double();
  };
  const double a = exponent(start);
  cpu::Sequence s = between(a, steps > 1 ? exponent(end) : a, std::max<int64_t>(steps, 2));
  s.kind = cpu::SequenceKind::kPowers;
  s.count = steps;
  s.base = base;
  write_sequence(out, s);
}
DType linspace_dtype(const Scalar& start, const Scalar& end, std::optional<DType> dtype) {
  const bool complex = start.is_complex() || end.is_complex();
  TESSERA_CHECK(!complex || !dtype || is_complex(*dtype), "linspace(): inferred dtype ",
                name_of(default_complex_dtype()), " can't be safely cast to passed dtype ", name_of(*dtype));
  return dtype ? *dtype : complex ? default_complex_dtype() : default_dtype();
}
Tensor room_for_steps(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                      std::optional<Device> device) {
  TESSERA_CHECK(steps >= 0, "number of steps must be non-negative");
  const int64_t n[1] = {steps};
  return empty_tensor(n, {}, linspace_dtype(start, end, dtype), factory_device(device));
}
void resize_for_steps(const Tensor& out, int64_t steps) {
  TESSERA_CHECK(steps >= 0, "number of steps must be non-negative");
  const int64_t n[1] = {steps};
  if (out.numel() != steps) resize_output(out, n);
}
}  // namespace

Tensor linspace_numbers(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                        std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  const Tensor r = room_for_steps(start, end, steps, dtype, device);
  fill_linspace(r, start, end, steps);
  return r;
}
Tensor linspace_of_tensors(const Scalar& start, const Scalar& end, int64_t steps, std::optional<DType> dtype,
                           std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin) {
  return linspace(start, end, steps, dtype, layout, device, pin);
}
void linspace_into(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps) {
  resize_for_steps(out, steps);
  fill_linspace(out, start, end, steps);
}
Tensor logspace_numbers(const Scalar& start, const Scalar& end, int64_t steps, double base, std::optional<DType> dtype,
                        std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  const Tensor r = room_for_steps(start, end, steps, dtype, device);
  fill_logspace(r, start, end, steps, base);
  return r;
}
Tensor logspace_of_tensors(const Scalar& start, const Scalar& end, int64_t steps, double base,
                           std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                           std::optional<bool> pin) {
  return logspace(start, end, steps, base, dtype, layout, device, pin);
}
void logspace_into(const Tensor& out, const Scalar& start, const Scalar& end, int64_t steps, double base) {
  resize_for_steps(out, steps);
  fill_logspace(out, start, end, steps, base);
}

namespace {
void check_eye(int64_t n, int64_t m) {
  TESSERA_CHECK(n >= 0, "n must be greater or equal to 0, got ", n);
  TESSERA_CHECK(m >= 0, "m must be greater or equal to 0, got ", m);
}
void fill_eye(const Tensor& out) {
  // Below dispatch: a fresh tensor is at version 0.
  fill_raw(out, int64_t{0}, false);
  if (out.numel()) fill_raw(diagonal(out, 0, 0, 1), int64_t{1}, false);
}
}  // namespace
Tensor eye_matrix(SymInt n, SymInt m, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                  std::optional<bool>) {
  check_eye(n.guard_int(), m.guard_int());
  const int64_t size[2] = {n.guard_int(), m.guard_int()};
  const Tensor r = empty_tensor(size, {}, factory_dtype(dtype), factory_device(device));
  fill_eye(r);
  return r;
}
Tensor eye_square(SymInt n, std::optional<DType> dtype, std::optional<Layout> layout, std::optional<Device> device,
                  std::optional<bool> pin) {
  return eye_matrix(n, n, dtype, layout, device, pin);
}
void eye_into(const Tensor& out, SymInt n, SymInt m) {
  check_eye(n.guard_int(), m.guard_int());
  const int64_t size[2] = {n.guard_int(), m.guard_int()};
  if (std::ranges::equal(out.sizes(), IntList(size))) check_no_internal_overlap(out);
  resize_output(out, size);
  fill_eye(out);
}

namespace {
// Row r holds the columns from max(0, r + offset) on, or up to r + offset. Rows without any are left out before
// anything is counted: sizes may be absurd.
struct Triangle {
  using Wide = __int128;
  Wide row, col, offset;
  bool upper;
  Wide clamp(Wide v, Wide top) const { return v < 0 ? 0 : v > top ? top : v; }
  Wide first_row() const { return upper ? 0 : clamp(-offset, row); }
  Wide end_row() const { return upper ? clamp(col - offset, row) : row; }
  // Elements in all: rows of full width, and a slope.
  unsigned __int128 count() const {
    const Wide b = first_row(), e = end_row();
    if (e <= b || col == 0) return 0;
    Wide turn = upper ? -offset : col - offset - 1;  // where the slope begins or ends
    turn = turn < b ? b : turn > e ? e : turn;
    const Wide full = upper ? turn - b : e - turn, slope = upper ? e - turn : turn - b;
    const Wide ends =
        slope ? (upper ? (col - turn - offset) + (col - (e - 1) - offset) : (b + offset + 1) + (turn + offset)) : 0;
    return static_cast<unsigned __int128>(full) * static_cast<unsigned __int128>(col) +
           static_cast<unsigned __int128>(ends) * static_cast<unsigned __int128>(slope) / 2;
  }
};

Tensor triangle_indices(int64_t row, int64_t col, int64_t offset, bool upper, std::optional<DType> dtype,
                        std::optional<Device> device) {
  TESSERA_CHECK(row >= 0 && col >= 0, "row and col must be non-negative, got ", row, " and ", col);
  const Triangle t{row, col, offset, upper};
  const auto count = t.count();
  TESSERA_CHECK(count <= INT64_MAX / 64, upper ? "triu" : "tril", "_indices: a triangle of ", row, " rows and ", col,
                " columns has too many elements");
  const int64_t n = static_cast<int64_t>(count), size[2] = {2, n};
  const Tensor out = empty_tensor(size, {}, dtype.value_or(DType::kInt64), factory_device(device));
  if (out.is_meta() || n == 0) return out;
  const cpu::TriangleRows rows{
      static_cast<int64_t>(t.first_row()), static_cast<int64_t>(t.end_row()), col, offset, n, upper};
  write_through(out, [&](void* p) { TESSERA_ON(out.device(), run_triangle_indices)(rows, out.dtype(), p); });
  return out;
}
}  // namespace
Tensor tril_indices_matrix(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype, std::optional<Layout>,
                           std::optional<Device> device, std::optional<bool>) {
  return triangle_indices(row, col, offset, false, dtype, device);
}
Tensor triu_indices_matrix(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype, std::optional<Layout>,
                           std::optional<Device> device, std::optional<bool>) {
  return triangle_indices(row, col, offset, true, dtype, device);
}

const Tensor& fill_scalar(const Tensor& self, const Scalar& value) {
  TESSERA_CHECK(
      self.is_complex() || self.dtype() == DType::kBool || !value.is_complex() || value.to_complex().imag() == 0,
      "value cannot be converted to type ", name_of(self.dtype()), " without overflow");
  fill_raw(self, value, true);
  check_inference_write(self);
  return self;
}
const Tensor& fill_tensor(const Tensor& self, const Tensor& value) {
  TESSERA_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
  if (self.is_meta() || value.is_meta()) return self;
  // As copy_: converted, not checked.
  Scalar s = value.item_scalar();
  fill_raw(self, !self.is_complex() && s.is_complex() ? Scalar(s.to_double()) : s, false);
  check_inference_write(self);
  return self;
}
Tensor fill_scalar_copy(const Tensor& self, const Scalar& value) {
  const Tensor r = like(self, std::nullopt, std::nullopt, std::nullopt);
  fill_scalar(r, value);
  return r;
}
Tensor fill_tensor_copy(const Tensor& self, const Tensor& value) {
  const Tensor r = like(self, std::nullopt, std::nullopt, std::nullopt);
  fill_tensor(r, value);
  return r;
}
const Tensor& zero__kernel(const Tensor& self) {
  fill_raw(self, int64_t{0}, false);
  check_inference_write(self);
  return self;
}

}  // namespace tessera::kernels
