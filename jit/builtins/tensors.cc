// Operators that ask a tensor something or make one of numbers, and what programs ask of their surroundings.
#include <algorithm>
#include <cstring>

#include "jit/builtins/builtins.h"
#include "tensor/core/warning.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

// Null where a program is linked without derivatives.
namespace tessera::autograd {
[[gnu::weak]] void backward(TensorList, TensorList, std::optional<bool>, bool, TensorList);
[[gnu::weak]] std::vector<Tensor> grad(TensorList, TensorList, TensorList, std::optional<bool>, bool, bool);
[[gnu::weak]] void retain_grad(const Tensor&);
}  // namespace tessera::autograd

namespace tessera::jit {
namespace {

using Tag = Value::Tag;

const char* cpu_capability() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl"))
    return "AVX512";
  if (__builtin_cpu_supports("avx2")) return "AVX2";
#endif
  return "DEFAULT";
}

Value ints(IntList l) {
  std::vector<Value> v;
  for (int64_t i : l) v.push_back(Value::of(i));
  return make_value<List>(int_type(), std::move(v));
}
Scalar number_of(const Tensor& t, const char* to) {
  TESSERA_CHECK(t.numel() == 1, "only one element tensors can be converted to ", to, " scalars");
  return t.item_scalar();
}
Value bool_of(const Tensor& t) {
  TESSERA_CHECK(t.numel() == 1, t.numel() ? "Boolean value of Tensor with more than one value is ambiguous"
                                          : "Boolean value of Tensor with no values is ambiguous");
  return Value::of(t.item_scalar().to_bool());
}
// Numbers without a gradient alone stand for a scalar by themselves.
const Tensor& implicit(const Value& v, const char* what, bool integral = false) {
  const Tensor& t = v.tensor();
  TESSERA_CHECK(!t.requires_grad(), "Cannot input a tensor that requires grad as a scalar argument");
  TESSERA_CHECK(t.dim() == 0, "Cannot input a tensor of dimension other than 0 as a scalar argument");
  TESSERA_CHECK(!integral || is_integral(t.dtype(), false), "Cannot input a tensor of type ", name_of(t.dtype()),
                " as an integral argument (", what, "); int(x) rounds towards zero");
  return t;
}

struct Gather {
  IntVector shape;
  std::vector<Scalar> numbers;
  std::vector<Tensor> tensors;
  void walk(const Value& v, size_t depth) {
    const Object* o = object_of(v);
    if (o && (o->kind == ObjectKind::kList || o->kind == ObjectKind::kTuple)) {
      const auto& items = o->kind == ObjectKind::kList ? as<List>(v).items : as<Tuple>(v).items;
      if (depth == shape.size() && numbers.empty()) shape.push_back(static_cast<int64_t>(items.size()));
      TESSERA_CHECK_VALUE(depth < shape.size() && shape[depth] == static_cast<int64_t>(items.size()),
                          "Expected sequence of length ", depth < shape.size() ? shape[depth] : 0, " at dim ", depth,
                          " (got ", items.size(), ")");
      for (const Value& e : items) walk(e, depth + 1);
      return;
    }
    numbers.push_back(v.is_tensor() ? number_of(v.tensor(), "Python") : v.scalar());
  }
};

// What tolist() gives for annotations: lists as deep as the tensor; the last type is the elements'.
template <class T>
Value nested(const T* at, IntList sizes, IntList strides, TypePtr elem) {
  if (sizes.empty()) return Value::of(*at);
  TypePtr t = elem;
  for (size_t k = 1; k < sizes.size(); ++k) t = list_of(t);
  std::vector<Value> items;
  for (int64_t i = 0; i < sizes[0]; ++i)
    items.push_back(nested(at + i * strides[0], sizes.subspan(1), strides.subspan(1), elem));
  return make_value<List>(t, std::move(items));
}
Value to_list(const Tensor& given, int64_t dim, int64_t kind) {
  const struct {
    const char* name;
    bool fits;
    DType dtype;
  } kinds[] = {{"int", is_integral(given.dtype(), false), DType::kInt64},
               {"float", is_floating_point(given.dtype()), DType::kFloat64},
               {"bool", given.dtype() == DType::kBool, DType::kBool},
               {"complex", given.is_complex(), DType::kComplex128}};
  TESSERA_CHECK(kind >= 0 && kind < 4, "tolist(): there is no type of elements ", kind);
  TESSERA_CHECK(given.dim() == dim, "tolist(): the annotation has lists of depth ", dim,
                ", but the tensor has dimension ", given.dim());
  TESSERA_CHECK(kinds[kind].fits, "tolist(): the annotation has elements of type ", kinds[kind].name,
                ", but the tensor is of dtype ", name_of(given.dtype()));
  const Tensor t = given.detach().to(Device(), kinds[kind].dtype).contiguous();
  const auto walk = [&](auto* at, TypePtr elem) { return nested(at, t.sizes(), t.strides(), elem); };
  const void* p = t.data_ptr();
  return kind == 0   ? walk(static_cast<const int64_t*>(p), int_type())
         : kind == 1 ? walk(static_cast<const double*>(p), float_type())
         : kind == 2 ? walk(static_cast<const bool*>(p), bool_type())
                     : walk(static_cast<const std::complex<double>*>(p), simple_type(K::kComplex));
}

std::optional<bool> maybe(const Value& v) { return v.is_none() ? std::nullopt : std::optional(v.boolean()); }
std::vector<Tensor> tensors_of(const Value& list) {
  std::vector<Tensor> out;
  if (list.is_none()) return out;
  for (const Value& v : as<List>(list).items) out.push_back(v.is_none() ? Tensor() : v.tensor());
  return out;
}
void check_autograd() { TESSERA_CHECK(&autograd::grad, "this program is linked without derivatives (//autograd)"); }
void backward(const Value* a) {
  check_autograd();
  const Tensor seed = a[1].is_none() ? Tensor() : a[1].tensor();
  autograd::backward({&a[0].tensor(), 1}, {&seed, seed.defined() ? 1u : 0u}, maybe(a[2]), a[3].boolean(), {});
}
Value gradients(const Value* a) {
  check_autograd();
  std::vector<Value> out;
  for (Tensor& g : autograd::grad(tensors_of(a[0]), tensors_of(a[1]), tensors_of(a[2]), maybe(a[3]), a[4].boolean(),
                                  a[5].boolean()))
    out.push_back(g.defined() ? Value::of(std::move(g)) : Value());
  return make_value<List>(optional_of(tensor_type()), std::move(out));
}

// complex(a, b) of numbers, truth values and tensors.
void complex_of_two(const Value* a, size_t, Value* r, const Operator&) {
  const auto part = [](const Value& v) -> std::complex<double> {
    if (v.is_tensor()) return number_of(v.tensor(), "Python").to_complex();
    return v.tag() == Value::Tag::kBool ? v.number() : v.scalar().to_complex();
  };
  r[0] = Value::of(part(a[0]) + part(a[1]) * std::complex<double>(0, 1));
}

bool is_included(DispatchKey k) { return DispatchKeySet::from_bits(thread_state.included).has(k); }
int64_t sub_dim(const Value& v) { return v.integer(); }
Value device_of(const Value& v) { return Value::of(v.tensor().device()); }

bool is_set_to(const Value* a) {
  const Tensor &x = a[0].tensor(), &y = a[1].tensor();
  return x.storage().get() == y.storage().get() && x.storage_offset() == y.storage_offset() &&
         std::ranges::equal(x.sizes(), y.sizes()) && std::ranges::equal(x.strides(), y.strides());
}
uint64_t seed_of(const Value& v) { return static_cast<uint64_t>(v.integer()); }
DType of_category(Category c) {
  return c == Category::kBool                 ? DType::kBool
         : c == Category::kInt                ? DType::kInt64
         : c == Category::kFloat              ? default_dtype()
         : default_dtype() == DType::kFloat64 ? DType::kComplex128
                                              : DType::kComplex64;
}

constexpr BuiltinEntry kTensors[] = {
    {"aten::_written(Tensor(a!) out, Tensor value) -> Tensor(a!)",
     TESSERA_BUILTIN(const Tensor& to = a[0].tensor(); const Tensor& from = a[1].tensor();
                     if (!std::equal(to.sizes().begin(), to.sizes().end(), from.sizes().begin(), from.sizes().end()))
                         to.resize_(from.sizes());
                     to.copy_(from); r[0] = a[0]),
     false},
    {"aten::copy_.int(Tensor(a!) self, int other) -> Tensor(a!)",
     TESSERA_BUILTIN(a[0].tensor().fill_(a[1].scalar()); r[0] = a[0]), false},
    {"aten::copy_.float(Tensor(a!) self, float other) -> Tensor(a!)",
     TESSERA_BUILTIN(a[0].tensor().fill_(a[1].scalar()); r[0] = a[0]), false},
    {"aten::is_conj(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().is_conj()))},
    {"aten::is_neg(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().is_neg()))},
    {"aten::is_distributed(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"aten::is_set_to(Tensor self, Tensor tensor) -> bool", TESSERA_BUILTIN(r[0] = Value::of(is_set_to(a)))},
    {"aten::can_cast(int from, int to) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(can_cast(dtype_of_number(a[0].integer()), dtype_of_number(a[1].integer()))))},
    {"aten::result_type.Scalar_Tensor(Scalar scalar, Tensor tensor) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(dtype_number(result_type(a[1].tensor(), a[0].scalar()))))},
    {"aten::result_type.Scalar_Scalar(Scalar scalar1, Scalar scalar2) -> int",
     TESSERA_BUILTIN(const Category c = std::max(a[0].scalar().category(), a[1].scalar().category());
                     r[0] = Value::of(dtype_number(of_category(c))))},
    {"aten::Generator(*, Device? device=None, int? seed=None) -> Generator",
     TESSERA_BUILTIN(TESSERA_CHECK(a[0].is_none() || a[0].device().is_cpu(),
                                   "programs make generators of the CPU alone, got ", a[0].device().str());
                     r[0] = Value::of(a[1].is_none() ? make_cpu_generator() : make_cpu_generator(seed_of(a[1])))),
     false},
    {"aten::manual_seed(int seed) -> ()", TESSERA_BUILTIN(default_cpu_generator()->manual_seed(seed_of(a[0]))), false},
    {"aten::manual_seed.generator(Generator(a!) self, int seed) -> Generator(a!)",
     TESSERA_BUILTIN(a[0].generator()->manual_seed(seed_of(a[1])); r[0] = a[0]), false},
    {"aten::initial_seed(Generator self) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(a[0].generator()->initial_seed()))), false},
    {"aten::seed(Generator(a!) self) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(a[0].generator()->seed()))), false},
    {"aten::size(Tensor self) -> int[]", TESSERA_BUILTIN(r[0] = ints(a[0].tensor().sizes()))},
    {"aten::size.int(Tensor self, int dim) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().size(sub_dim(a[1]))))},
    {"aten::sym_size.int(Tensor self, int dim) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().size(sub_dim(a[1]))))},
    {"aten::stride(Tensor self) -> int[]", TESSERA_BUILTIN(r[0] = ints(a[0].tensor().strides()))},
    {"aten::stride.int(Tensor self, int dim) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().stride(sub_dim(a[1]))))},
    {"aten::storage_offset(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().storage_offset()))},
    {"aten::dim(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().dim()))},
    {"aten::ndimension(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().dim()))},
    {"aten::numel(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().numel()))},
    {"aten::nelement(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().numel()))},
    {"aten::len.Tensor(Tensor t) -> int",
     TESSERA_BUILTIN(TESSERA_CHECK_TYPE(a[0].tensor().dim() > 0, "len() of a 0-d tensor");
                     r[0] = Value::of(a[0].tensor().size(0)))},
    {"aten::is_contiguous(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().is_contiguous()))},
    {"aten::is_contiguous.memory_format(Tensor self, MemoryFormat memory_format) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().is_contiguous(static_cast<MemoryFormat>(a[1].integer()))))},
    {"aten::is_floating_point(Tensor self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(is_floating_point(a[0].tensor().dtype())))},
    {"aten::is_complex(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(is_complex(a[0].tensor().dtype())))},
    {"aten::is_signed(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(is_signed(a[0].tensor().dtype())))},
    {"aten::is_leaf(Tensor self) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().is_leaf()))},
    {"aten::is_inference(Tensor self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().impl()->is_inference()))},
    {"aten::element_size(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().item_size()))},
    {"prim::itemsize(Tensor self) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().item_size()))},
    {"prim::nbytes(Tensor self) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().item_size() * a[0].tensor().numel()))},
    {"aten::get_device(Tensor self) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(a[0].tensor().device().index)))},
    {"aten::is_same_size(Tensor self, Tensor other) -> bool",
     TESSERA_BUILTIN(const IntList x = a[0].tensor().sizes(); const IntList y = a[1].tensor().sizes();
                     r[0] = Value::of(std::equal(x.begin(), x.end(), y.begin(), y.end())))},
    {"aten::is_pinned(Tensor self, Device? device=None) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"aten::data_ptr(Tensor self) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(reinterpret_cast<intptr_t>(a[0].tensor().data_ptr()))))},
    {"prim::dtype(Tensor a) -> int", TESSERA_BUILTIN(r[0] = Value::of(dtype_number(a[0].tensor().dtype())))},
    {"prim::device(Tensor a) -> Device", TESSERA_BUILTIN(r[0] = device_of(a[0]))},
    {"prim::layout(Tensor a) -> Layout",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(a[0].tensor().layout())))},
    {"prim::shape(Tensor a) -> int[]", TESSERA_BUILTIN(r[0] = ints(a[0].tensor().sizes()))},
    {"prim::ndim(Tensor a) -> int", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().dim()))},
    {"prim::is_cuda(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().device().is_cuda()))},
    {"prim::is_cpu(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().device().is_cpu()))},
    {"prim::is_meta(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().device().is_meta()))},
    {"prim::is_sparse(Tensor a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().layout() == Layout::kSparseCoo))},
    {"prim::is_sparse_csr(Tensor a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().layout() == Layout::kSparseCsr))},
    {"prim::is_mkldnn(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_xpu(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_mps(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_mtia(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_hpu(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_ipu(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_xla(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_vulkan(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_maia(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_nested(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(false))},
    {"prim::is_quantized(Tensor a) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(category_of(a[0].tensor().dtype()) == Category::kQuantized))},
    {"prim::requires_grad(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().requires_grad()))},
    {"prim::grad(Tensor a) -> Tensor?",
     TESSERA_BUILTIN(const Tensor g = a[0].tensor().grad(); r[0] = g.defined() ? Value::of(g) : Value()), false},
    {"prim::data(Tensor(a) a) -> Tensor(a)", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().detach())), false},
    {"aten::Int.Tensor(Tensor a) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(a[0].tensor(), "Python").to_int()))},
    {"aten::Float.Tensor(Tensor a) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(a[0].tensor(), "Python").to_double()))},
    {"aten::Bool.Tensor(Tensor a) -> bool", TESSERA_BUILTIN(r[0] = bool_of(a[0].tensor()))},
    {"aten::Complex.Tensor(Tensor a) -> complex",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(a[0].tensor(), "Python").to_complex()))},
    {"aten::Complex.Tensor_Tensor(Tensor a, Tensor b) -> complex", &complex_of_two},
    {"aten::Complex.Tensor_Scalar(Tensor a, Scalar b) -> complex", &complex_of_two},
    {"aten::Complex.Scalar_Tensor(Scalar a, Tensor b) -> complex", &complex_of_two},
    {"aten::Complex.Tensor_bool(Tensor a, bool b) -> complex", &complex_of_two},
    {"aten::Complex.bool_Tensor(bool a, Tensor b) -> complex", &complex_of_two},
    {"aten::Complex.Scalar_bool(Scalar a, bool b) -> complex", &complex_of_two},
    {"aten::Complex.bool_Scalar(bool a, Scalar b) -> complex", &complex_of_two},
    {"aten::Complex.bool_bool(bool a, bool b) -> complex", &complex_of_two},
    {"aten::IntImplicit(Tensor a) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(implicit(a[0], "int", true), "Python").to_int()))},
    {"aten::FloatImplicit(Tensor a) -> float",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(implicit(a[0], "float"), "Python").to_double()))},
    {"aten::ComplexImplicit(Tensor a) -> complex",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(implicit(a[0], "complex"), "Python").to_complex()))},
    {"aten::ScalarImplicit(Tensor a) -> Scalar",
     TESSERA_BUILTIN(r[0] = Value::of(number_of(implicit(a[0], "Scalar"), "Python")))},
    {"prim::NumToTensor.Scalar(Scalar a) -> Tensor",
     TESSERA_BUILTIN(r[0] = Value::of(tensor_from(a[0], Value(), Value(), false)))},
    {"prim::abs.Tensor(Tensor a) -> Tensor", TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().abs()))},
    {"aten::tensor(t[] data, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     TESSERA_BUILTIN(r[0] = Value::of(tensor_from(a[0], a[1], a[2], a[3].boolean()))), false},
    {"aten::tensor.any(Any t, *, ScalarType? dtype=None, Device? device=None, bool requires_grad=False) -> Tensor",
     TESSERA_BUILTIN(r[0] = Value::of(tensor_from(a[0], a[1], a[2], a[3].boolean()))), false},
    {"aten::as_tensor(Tensor(a) data, *, ScalarType? dtype=None, Device? device=None) -> Tensor(a)",
     TESSERA_BUILTIN(Tensor t = a[0].tensor(); if (!a[1].is_none() && dtype_of_number(a[1].integer()) != t.dtype()) t =
                                                   t.to(dtype_of_number(a[1].integer()));
                     r[0] = Value::of(t)),
     false},
    {"aten::as_tensor.list(Any data, *, ScalarType? dtype=None, Device? device=None) -> Tensor",
     TESSERA_BUILTIN(r[0] = Value::of(tensor_from(a[0], a[1], a[2], false))), false},
    {"aten::requires_grad_(Tensor(a!) self, bool requires_grad=True) -> Tensor(a!)",
     TESSERA_BUILTIN(a[0].tensor().requires_grad_(a[1].boolean()); r[0] = a[0])},
    {"aten::is_grad_enabled() -> bool", TESSERA_BUILTIN(r[0] = Value::of(thread_state.grad_enabled)), false},
    {"prim::tolist(Tensor self, int dim, int ty) -> Any",
     TESSERA_BUILTIN(r[0] = to_list(a[0].tensor(), a[1].integer(), a[2].integer()))},
    {"aten::is_autocast_enabled() -> bool", TESSERA_BUILTIN(r[0] = Value::of(is_included(DispatchKey::kAutocastCUDA))),
     false},
    {"aten::is_autocast_cpu_enabled() -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(is_included(DispatchKey::kAutocastCPU))), false},
    {"aten::set_grad_enabled(bool val) -> ()", TESSERA_BUILTIN(thread_state.grad_enabled = a[0].boolean()), false},
    {"aten::result_type.Tensor(Tensor tensor, Tensor other) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(dtype_number(result_type(a[0].tensor(), a[1].tensor()))))},
    {"aten::result_type.Scalar(Tensor tensor, Scalar other) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(dtype_number(result_type(a[0].tensor(), a[1].scalar()))))},
    {"aten::promote_types(int type1, int type2) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(dtype_number(
                         promote_types(dtype_of_number(a[0].integer()), dtype_of_number(a[1].integer())))))},
    {"aten::retain_grad(Tensor self) -> ()",
     TESSERA_BUILTIN(if (&autograd::retain_grad) autograd::retain_grad(a[0].tensor())), false},
    {"aten::backward(Tensor self, Tensor? gradient=None, bool? retain_graph=None, bool create_graph=False) -> ()",
     TESSERA_BUILTIN(backward(a)), false},
    {"aten::grad(Tensor[] outputs, Tensor[] inputs, Tensor?[]? grad_outputs=None, bool? retain_graph=None, "
     "bool create_graph=False, bool allow_unused=False) -> Tensor?[]",
     TESSERA_BUILTIN(r[0] = gradients(a)), false},
    {"aten::is_scripting() -> bool", TESSERA_BUILTIN(r[0] = Value::of(true))},
    {"aten::_get_cpu_capability() -> str", TESSERA_BUILTIN(r[0] = Value::of(std::string(cpu_capability())))},
    {"aten::get_default_dtype() -> int", TESSERA_BUILTIN(r[0] = Value::of(dtype_number(default_dtype()))), false},
    {"aten::warn(str message, int stacklevel=2) -> ()", TESSERA_BUILTIN(warn(std::string(a[0].string()))), false},
    {"aten::__getitem__.Tensor(Tensor t, int i) -> Tensor",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].tensor().select(0, a[1].integer())))},
    {"prim::unchecked_unwrap_optional(t(a)? optional) -> t(a)", TESSERA_BUILTIN(r[0] = a[0])},
    {"aten::_unwrap_optional(t(a)? optional) -> t(a)",
     TESSERA_BUILTIN(TESSERA_CHECK(!a[0].is_none(), "Unwrapping null optional"); r[0] = a[0])},
    {"prim::rangelist(int n) -> int[]",
     TESSERA_BUILTIN(std::vector<Value> v; for (int64_t i = 0; i < a[0].integer(); ++i) v.push_back(Value::of(i));
                     r[0] = make_value<List>(int_type(), std::move(v)))},
};

}  // namespace

Tensor tensor_from(const Value& data, const Value& dtype, const Value& device, bool requires_grad) {
  Gather g;
  const bool from_tensor = data.is_tensor();
  Tensor t;
  if (from_tensor) {
    t = data.tensor().detach().clone();
  } else {
    g.walk(data, 0);
    Category c = Category::kBool;
    for (const Scalar& s : g.numbers) c = std::max(c, s.category());
    const DType own = of_category(g.numbers.empty() ? Category::kFloat : c);
    const DType kind = dtype.is_none() ? own : dtype_of_number(dtype.integer());
    t = empty_kernel(g.shape, kind);
    char* p = static_cast<char*>(t.data_ptr());
    for (const Scalar& s : g.numbers) store_scalar(s, kind, p), p += item_size(kind);
  }
  if (from_tensor && !dtype.is_none()) t = t.to(dtype_of_number(dtype.integer()));
  if (!device.is_none() && !(device.device() == t.device())) t = t.to(device.device(), t.dtype());
  if (requires_grad) t.requires_grad_();
  return t;
}

BuiltinTable tensor_builtins() { return {kTensors, std::size(kTensors)}; }

}  // namespace tessera::jit
