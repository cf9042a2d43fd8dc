// Random tensors: shapes, checks and strides; the numbers are tensor/cpu/random/random.h's.
#include <cmath>

#include "tensor/core/device_hooks.h"
#include "tensor/core/transforms.h"
#include "tensor/core/visit.h"
#include "tensor/core/warning.h"
#include "tensor/cpu/math/math_scalar.h"
#include "tensor/cpu/random/random.h"
#include "tensor/engine/functions.h"
#include "tensor/engine/random.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_extra.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/plain.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/random_extra.h"
#include "tensor/ops/random_kernels.h"
#include "tensor/ops/structured.h"
#include "tensor/ops/strided.h"

namespace tessera::kernels {
namespace {

// Runs a sampler over self as it lies in memory; a Meta tensor passes the checks alone.
template <class F>
const Tensor& fill_with(const Tensor& self, F sampler) {
  check_no_internal_overlap(self);
  if (self.is_meta()) return self;
  Strided out(self);
  sampler(self.sizes(), out.operand);
  return self;
}

// What to draw from for a tensor: the given generator, or its device's. (The CPU's samplers look for theirs
// themselves.)
const Generator& source_for(const Tensor& t, const Generator& g) {
  if (t.is_cpu()) return g;
  if (!g.defined()) return device_hooks(t.device().type).default_generator(t.device());
  TESSERA_CHECK(g->device().type == t.device().type, "Expected a '", device_type_name(t.device().type),
                "' device type for generator but found '", device_type_name(g->device().type), "'");
  return g;
}

// New tensors are filled below the dispatcher where that is possible: they have had no other version.
template <class Cpu, class Other>
Tensor filled_new(const Tensor& t, Cpu cpu, Other other) {
  if ((t.is_cpu() || t.is_cuda() || t.is_meta()) && !inside_transform() && !t.keys().has(DispatchKey::kPython))
    cpu(t);
  else
    other(t);
  return t;
}

// What the samplers themselves say of other dtypes; a Meta tensor does not come to them.
void continuous(const Tensor& self, const char* name) {
  TESSERA_CHECK(
      !self.is_meta() || self.is_floating_point(), name,
      " distribution is a continuous probability distribution. dtype must be a floating point but you specified ",
      type_name_of(self.dtype()));
}

DType floating_or_default(const Tensor& t) { return t.is_floating_point() ? t.dtype() : default_dtype(); }

}  // namespace

// --- samplers that fill a tensor ---

const Tensor& uniform__kernel(const Tensor& self, double from, double to, const Generator& g) {
  if (self.is_complex()) {
    uniform__kernel(view_as_real(self), from, to, g);
    return self;
  }
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_uniform)(shape, out, from, to, source_for(self, g));
  });
}
const Tensor& normal__kernel(const Tensor& self, double mean, double std, const Generator& g) {
  TESSERA_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  if (self.is_complex()) {
    // Half of the variance for each part.
    normal__kernel(view_as_real(self), mean, std / std::sqrt(2.0), g);
    return self;
  }
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_normal)(shape, out, mean, std, source_for(self, g));
  });
}
const Tensor& log_normal__kernel(const Tensor& self, double mean, double std, const Generator& g) {
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_log_normal)(shape, out, mean, std, source_for(self, g));
  });
}
const Tensor& exponential__kernel(const Tensor& self, double lambd, const Generator& g) {
  continuous(self, "Exponential");
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_exponential)(shape, out, lambd, source_for(self, g));
  });
}
const Tensor& cauchy__kernel(const Tensor& self, double median, double sigma, const Generator& g) {
  continuous(self, "Cauchy");
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_cauchy)(shape, out, median, sigma, source_for(self, g));
  });
}
const Tensor& geometric__kernel(const Tensor& self, double p, const Generator& g) {
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_geometric)(shape, out, p, source_for(self, g));
  });
}
const Tensor& random_between(const Tensor& self, int64_t from, std::optional<int64_t> to, const Generator& g) {
  const cpu::RandomRange range = cpu::random_range(self.dtype(), from, to);
  if (!range.warning.empty()) warn(range.warning);
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_integers)(shape, out, range, source_for(self, g));
  });
}
const Tensor& random_below(const Tensor& self, int64_t to, const Generator& g) {
  return random_between(self, 0, to, g);
}
const Tensor& random_all(const Tensor& self, const Generator& g) {
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_full)(shape, out, source_for(self, g));
  });
}
const Tensor& bernoulli_all(const Tensor& self, double p, const Generator& g) {
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_bernoulli)(shape, out, p, source_for(self, g));
  });
}
const Tensor& bernoulli_each(const Tensor& self, const Tensor& p, const Generator& g) {
  const Tensor probabilities = memory_sharing(self, p) == Sharing::kNone ? p : p.clone();
  const Tensor expanded = expand(probabilities, self.sizes());
  return fill_with(self, [&](IntList shape, const cpu::Operand& out) {
    TESSERA_ON(self.device(), random_bernoulli_tensor)(shape, out, Strided(expanded, shape), source_for(self, g));
  });
}

// --- factories ---

Tensor new_tensor(SymIntList size, std::optional<DType> dtype, std::optional<Device> device, DType fallback) {
  return empty_tensor(size.ints(), {}, dtype.value_or(fallback), factory_device(device));
}
Tensor new_uniform(const Tensor& t, const Generator& g) {
  return filled_new(
      t, [&](const Tensor& x) { uniform__kernel(x, 0, 1, g); }, [&](const Tensor& x) { uniform_(x, 0, 1, g); });
}
Tensor new_normal(const Tensor& t, double mean, double std, const Generator& g) {
  TESSERA_CHECK(std >= 0, "normal expects std >= 0.0, but found std ", std);
  return filled_new(
      t, [&](const Tensor& x) { normal__kernel(x, mean, std, g); }, [&](const Tensor& x) { normal_(x, mean, std, g); });
}
Tensor new_integers(const Tensor& t, int64_t low, int64_t high, const Generator& g) {
  return filled_new(
      t, [&](const Tensor& x) { random_between(x, low, high, g); }, [&](const Tensor& x) { random_(x, low, high, g); });
}
Tensor new_permutation(int64_t n, const Generator& g, DType dtype, Device device) {
  TESSERA_CHECK(n >= 0, "n must be non-negative, got", n);
  const int64_t size[1] = {n};
  const Tensor r = empty_tensor(size, {}, dtype, factory_device(device));
  if (r.is_meta()) return r;
  if (r.is_cpu() || r.is_cuda()) {
    TESSERA_ON(r.device(), random_permutation)(n, Strided(r), source_for(r, g));
    return r;
  }
  // Elsewhere: in the order of random keys.
  const Tensor keys = new_normal(empty_tensor(size, {}, DType::kFloat32, r.device()), 0, 1, g);
  copy_(r, argsort(keys));
  return r;
}
Tensor rand_like_generator_kernel(const Tensor& self, const Generator& g, std::optional<DType> dtype,
                                  std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin,
                                  std::optional<MemoryFormat> format) {
  return new_uniform(empty_like_kernel(self, dtype, layout, device, pin, format), g);
}
Tensor randn_like_generator_kernel(const Tensor& self, const Generator& g, std::optional<DType> dtype,
                                   std::optional<Layout> layout, std::optional<Device> device, std::optional<bool> pin,
                                   std::optional<MemoryFormat> format) {
  return new_normal(empty_like_kernel(self, dtype, layout, device, pin, format), 0, 1, g);
}
Tensor randint_like_low_generator_dtype_kernel(const Tensor& self, SymInt low, SymInt high, const Generator& g,
                                               std::optional<DType> dtype, std::optional<Layout> layout,
                                               std::optional<Device> device, std::optional<bool> pin,
                                               std::optional<MemoryFormat> format) {
  return new_integers(empty_like_kernel(self, dtype, layout, device, pin, format), low.guard_int(), high.guard_int(),
                      g);
}
Tensor randint_like_generator_kernel(const Tensor& self, SymInt high, const Generator& g, std::optional<DType> dtype,
                                     std::optional<Layout> layout, std::optional<Device> device,
                                     std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return randint_like_low_generator_dtype_kernel(self, 0, high, g, dtype, layout, device, pin, format);
}
Tensor rand_like_kernel(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                        std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return rand_like_generator_kernel(self, {}, dtype, layout, device, pin, format);
}
Tensor randn_like_kernel(const Tensor& self, std::optional<DType> dtype, std::optional<Layout> layout,
                         std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return randn_like_generator_kernel(self, {}, dtype, layout, device, pin, format);
}
Tensor randint_like_low_dtype_kernel(const Tensor& self, SymInt low, SymInt high, std::optional<DType> dtype,
                                     std::optional<Layout> layout, std::optional<Device> device,
                                     std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return randint_like_low_generator_dtype_kernel(self, low, high, {}, dtype, layout, device, pin, format);
}
Tensor randint_like_kernel(const Tensor& self, SymInt high, std::optional<DType> dtype, std::optional<Layout> layout,
                           std::optional<Device> device, std::optional<bool> pin, std::optional<MemoryFormat> format) {
  return randint_like_low_generator_dtype_kernel(self, 0, high, {}, dtype, layout, device, pin, format);
}
Tensor normal_float_float_kernel(double mean, double std, SymIntList size, const Generator& g,
                                 std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                                 std::optional<bool>) {
  return new_normal(new_tensor(size, dtype, device, default_dtype()), mean, std, g);
}
const Tensor& sized(const Tensor& out, SymIntList size) {
  resize_factory_out(out, size);
  return out;
}
void permutation_into(const Tensor& out, SymInt n, const Generator& g) {
  TESSERA_CHECK(n.guard_int() >= 0, "n must be non-negative, got", n.guard_int());
  resize_factory_out(out, {n.guard_int()});
  check_no_internal_overlap(out);
  if (out.is_cpu() || out.is_cuda())
    TESSERA_ON(out.device(), random_permutation)(n.guard_int(), Strided(out), source_for(out, g));
  else if (!out.is_meta())
    copy_(out, new_permutation(n.guard_int(), g, out.dtype(), out.device()));
}
int64_t scalar_of(const Tensor& high) {
  TESSERA_CHECK(high.numel() == 1 && high.dim() == 0, "high must be a scalar tensor and on CPU, but got shape ",
                shape_string(high.sizes()));
  return high.item_scalar().to_int();
}

// --- numbers by the elements of other tensors ---

namespace {
void check_std(const Tensor& std) {
  TESSERA_CHECK(!std.is_complex(), "normal expects standard deviation to be non-complex");
  TESSERA_CHECK(std.numel() == 0 || values_unknown(std) || item(all(ge(std, 0))).to_bool(),
                "normal expects all elements of std >= 0.0");
}
Tensor fresh(const Tensor& like, IntList sizes) { return empty_tensor(sizes, {}, like.dtype(), like.device()); }
}  // namespace

Tensor normal_Tensor_float_kernel(const Tensor& mean, double std, const Generator& g) {
  const Tensor r = fresh(mean, mean.sizes());
  normal__kernel(r, 0, std, g);
  copy__kernel(r, add(r, mean), false);
  return r;
}
Tensor normal_float_Tensor_kernel(double mean, const Tensor& std, const Generator& g) {
  check_std(std);
  const Tensor r = fresh(std, std.sizes());
  normal__kernel(r, 0, 1, g);
  copy__kernel(r, add(mul(r, std), Scalar(mean)), false);
  return r;
}
Tensor normal_Tensor_Tensor_kernel(const Tensor& mean, const Tensor& std, const Generator& g) {
  check_std(std);
  const Tensor r = fresh(mean, infer_broadcast(mean.sizes(), std.sizes()));
  normal__kernel(r, 0, 1, g);
  copy__kernel(r, add(mul(r, std), mean), false);
  return r;
}

Tensor bernoulli_of(const Tensor& self, const Generator& g) {
  const Tensor r = empty_like_kernel(self, {}, {}, {}, {}, {});
  bernoulli_each(r, self, g);
  return r;
}
Tensor bernoulli_like(const Tensor& self, double p, const Generator& g) {
  return new_bernoulli(empty_like(self), p, g);
}
Tensor new_bernoulli(const Tensor& t, double p, const Generator& g) {
  return filled_new(
      t, [&](const Tensor& x) { bernoulli_all(x, p, g); }, [&](const Tensor& x) { bernoulli_(x, p, g); });
}

Tensor multinomial_meta(const Tensor& self, SymInt num_samples, bool replacement, const Generator&) {
  const int64_t n = num_samples.guard_int();
  TESSERA_CHECK(self.dim() == 1 || self.dim() == 2, "prob_dist must be 1 or 2 dim");
  TESSERA_CHECK(self.is_floating_point(),
                "multinomial only supports floating-point dtypes for input, got: ", type_name_of(self.dtype()));
  TESSERA_CHECK(n > 0, "cannot sample n_sample <= 0 samples");
  TESSERA_CHECK(replacement || n <= self.size(-1),
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  TESSERA_CHECK(self.size(-1) <= (int64_t{1} << 24), "number of categories cannot exceed 2^24");
  IntVector sizes = to_vector(self.sizes());
  sizes.back() = n;
  return empty_tensor(sizes, {}, DType::kInt64, self.device());
}
Tensor multinomial_kernel(const Tensor& self, SymInt num_samples, bool replacement, const Generator& g) {
  const Tensor out = multinomial_meta(self, num_samples, replacement, g);
  if (out.numel() == 0) return out;
  const Tensor weights = self.dim() == 1 ? unsqueeze(self, 0) : self, rows = self.dim() == 1 ? unsqueeze(out, 0) : out;
  TESSERA_ON(self.device(), random_multinomial)
  (weights.sizes()[0], weights.sizes()[1], Strided(weights), num_samples.guard_int(), replacement, Strided(rows),
   source_for(self, g));
  return out;
}
void multinomial_into(const Tensor& out, const Tensor& self, SymInt num_samples, bool replacement, const Generator& g) {
  check_out_device(out, self.device());
  TESSERA_CHECK(out.dtype() == DType::kInt64, "multinomial expects Long tensor out, got: ", type_name_of(out.dtype()));
  structured::store_out(out, multinomial(self, num_samples, replacement, g), OutDtype::kSame);
}

// The fillings as operators that write to nothing.
Tensor uniform_kernel(const Tensor& self, double from, double to, const Generator& g) {
  return empty_like(self).uniform_(from, to, g);
}
Tensor normal_functional_kernel(const Tensor& self, double mean, double std, const Generator& g) {
  return empty_like(self).normal_(mean, std, g);
}
Tensor exponential_kernel(const Tensor& self, double lambd, const Generator& g) {
  return empty_like(self).exponential_(lambd, g);
}

Tensor poisson_kernel(const Tensor& self, const Generator& g) {
  const Tensor rate = contiguous(self), r = fresh(self, self.sizes());
  if (r.is_meta()) return r;
  TESSERA_ON(r.device(), random_poisson)(r.sizes(), Strided(r), Strided(rate), source_for(r, g));
  return r;
}
Tensor binomial_kernel(const Tensor& count, const Tensor& prob, const Generator& g) {
  TESSERA_CHECK_VALUE(is_floating_point(count.dtype()),
                      "binomial only supports floating-point dtypes for count, got: ", type_name_of(count.dtype()));
  TESSERA_CHECK_VALUE(is_floating_point(prob.dtype()),
                      "binomial only supports floating-point dtypes for prob, got: ", type_name_of(prob.dtype()));
  TESSERA_CHECK(count.dtype() == prob.dtype(), "Found dtype ", type_name_of(prob.dtype()), " but expected ",
                type_name_of(count.dtype()));
  const Tensor r = fresh(count, count.sizes()), n = contiguous(count), p = contiguous(expand(prob, count.sizes()));
  if (r.is_meta()) return r;
  TESSERA_ON(r.device(), random_binomial)(r.sizes(), Strided(r), Strided(n), Strided(p), source_for(r, g));
  return r;
}
Tensor _standard_gamma_kernel(const Tensor& self, const Generator& g) {
  const Tensor a = contiguous(self), r = fresh(self, self.sizes());
  if (r.is_meta()) return r;
  TESSERA_ON(r.device(), random_gamma)(r.sizes(), Strided(r), Strided(a), source_for(r, g));
  return r;
}

Tensor _standard_gamma_grad_kernel(const Tensor& self, const Tensor& output) {
  TESSERA_CHECK_NOT_IMPLEMENTED(floating_or_default(self) == self.dtype(),
                                "\"_standard_gamma_grad_cpu\" not implemented for '", type_name_of(self.dtype()), "'");
  TESSERA_CHECK(output.device() == self.device(), "_standard_gamma_grad: expected output to be on ",
                self.device().str(), " like self, but got ", output.device().str());
  if (self.is_meta()) return fresh(self, expand(output, self.sizes()).sizes());
  const Tensor a = contiguous(to(self, DType::kFloat64)),
               x = contiguous(to(expand(output, self.sizes()), DType::kFloat64)), r = fresh(a, self.sizes());
  TESSERA_ON(r.device(), run_gamma_gradient)
  (r.numel(), r.data_ptr<double>(), a.data_ptr<double>(), x.data_ptr<double>());
  return to(r, self.dtype());
}

// --- dropout ---

namespace {
bool drops_at_once(const Tensor& input) {
  return is_plain(input) && is_floating_point(input.dtype()) && item_size(input.dtype()) > 1 &&
         RandomEngines::of(input.device().type).random_dropout;
}
Tensor copy_of(const Tensor& t) {
  const Tensor r = empty_like(t);
  copy__kernel(r, t, false);
  return r;
}
}  // namespace

std::tuple<Tensor, Tensor> native_dropout_kernel(const Tensor& input, double p, std::optional<bool> train) {
  TESSERA_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (!train.value_or(true)) return {clone(input), ones_like(input, DType::kBool)};
  if (drops_at_once(input)) {
    const Tensor y = empty_like(input), mask = empty_like(input, DType::kBool);
    // Dense memory in any order of the dimensions.
    const Tensor x = to_vector(y.strides()) == to_vector(input.strides()) ? input : copy_of(input);
    internal::select_device(x.device(), "random_dropout");
    RandomEngines::of(x.device().type)
        .random_dropout(x.dtype(), x.numel(), p, kept_scale(p, train), x.data_ptr(), y.data_ptr(),
                        mask.data_ptr<bool>(), source_for(x, {}));
    return {y, mask};
  }
  const Tensor mask = new_bernoulli(empty_like(input, DType::kBool), 1 - p, {});
  return {mul(mul(input, mask), Scalar(kept_scale(p, train))), mask};
}

// By operators, so that layers which watch them see where the numbers come from. Where a device drops elements by one
// operator, and no layer watches, its result is the shift of a noise without a scale.
DropNoise make_drop_noise(const Tensor& input, double p, bool train, bool features, bool alpha) {
  TESSERA_CHECK(p >= 0 && p <= 1, "dropout probability has to be between 0 and 1, but got ", p);
  if (p == 0 || !train || input.numel() == 0) return {};
  const DType t = alpha ? input.dtype() : to_real(input.dtype());  // complex numbers stay or go as a whole
  if (p == 1) return {zeros(IntList(), t, std::nullopt, input.device()), {}};
  if (!features && !alpha && plain_on_device({&input}) && drops_at_once(input))
    if (DropAtOnce* drop = RandomEngines::of(input.device().type).drop_at_once) return {{}, drop(input, p)};
  Tensor noise;
  if (features) {
    TESSERA_CHECK(input.dim() >= 2, "Feature dropout requires at least 2 dimensions in the input");
    IntVector sizes(static_cast<size_t>(input.dim()), 1);
    sizes[0] = input.sizes()[0];
    sizes[1] = input.sizes()[1];
    noise = new_empty(input, IntList(sizes), t).bernoulli_(1 - p);
  } else {
    noise = empty_like(input, t).bernoulli_(1 - p);
  }
  if (!alpha) return {noise.div_(Scalar(1 - p)), {}};
  // The value that selu has far below zero takes the place of what is dropped; a and b restore mean and variance.
  constexpr double kAlpha = 1.7580993408473766;
  const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
  const Tensor shift = add(noise, -1).mul_(Scalar(kAlpha * a)).add_(Scalar(kAlpha * a * p));
  return {noise.mul_(Scalar(a)), shift};
}
Tensor apply_drop(const Tensor& input, const DropNoise& noise) {
  if (!noise.scale.defined()) return noise.shift.defined() ? noise.shift : input;
  const Tensor r = mul(input, noise.scale);
  return noise.shift.defined() ? add(r, noise.shift) : r;
}
const Tensor& apply_drop_inplace(const Tensor& self, const DropNoise& noise) {
  if (!noise.scale.defined()) {
    if (noise.shift.defined()) copy_(self, noise.shift);
    return self;
  }
  mul_(self, noise.scale);
  if (noise.shift.defined()) add_(self, noise.shift);
  return self;
}

}  // namespace tessera::kernels
