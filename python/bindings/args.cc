#include "python/bindings/args.h"

#include <bit>
#include <cstring>

#include "python/bindings/convert/storage.h"
#include "python/bindings/jit/jit.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"
#include "tensor/dispatch/argument_names.h"

namespace tessera::python {
namespace {

PyObject* intern(std::string_view s) { return PyUnicode_InternFromString(std::string(s).c_str()); }

ParamKind kind_of(const SchemaType& t) {
  switch (t.kind) {
    case TypeKind::kTensor:
      return ParamKind::kTensor;
    case TypeKind::kInt:
    case TypeKind::kSymInt:
      return ParamKind::kInt;
    case TypeKind::kFloat:
    case TypeKind::kSymFloat:
      return ParamKind::kFloat;
    case TypeKind::kBool:
    case TypeKind::kSymBool:
      return ParamKind::kBool;
    case TypeKind::kScalar:
    case TypeKind::kComplex:
      return ParamKind::kScalar;
    case TypeKind::kStr:
    case TypeKind::kDimname:
      return ParamKind::kString;
    case TypeKind::kScalarType:
      return ParamKind::kDType;
    case TypeKind::kLayout:
      return ParamKind::kLayout;
    case TypeKind::kMemoryFormat:
      return ParamKind::kMemoryFormat;
    case TypeKind::kDevice:
      return ParamKind::kDevice;
    case TypeKind::kGenerator:
      return ParamKind::kGenerator;
    case TypeKind::kStorage:
      return ParamKind::kStorage;
    case TypeKind::kList:
      switch (t.elements[0].without_optional().kind) {
        case TypeKind::kTensor:
          return ParamKind::kTensorList;
        case TypeKind::kInt:
        case TypeKind::kSymInt:
          return ParamKind::kIntList;
        case TypeKind::kFloat:
          return ParamKind::kFloatList;
        case TypeKind::kBool:
          return ParamKind::kBoolList;
        case TypeKind::kScalar:
          return ParamKind::kScalarList;
        default:
          return ParamKind::kObject;
      }
    default:
      return ParamKind::kObject;
  }
}

Value default_of(const SchemaValue& v, ParamKind kind, int64_t list_size) {
  using K = SchemaValue::Kind;
  switch (v.kind) {
    case K::kNone:
      return Value::none();
    case K::kBool:
      return Value::of(v.b);
    case K::kInt:
      if (kind == ParamKind::kFloat) return Value::of(static_cast<double>(v.i));
      if (kind == ParamKind::kIntList)
        return Value::of(IntVector(static_cast<size_t>(list_size > 0 ? list_size : 1), v.i));
      return Value::of(v.i);
    case K::kFloat:
      return Value::of(v.f);
    case K::kComplex:
      return Value::of(std::complex<double>(v.f, v.imag));
    case K::kString:
      return Value::of(std::string(v.s));
    case K::kDevice:
      return Value::of(Device(v.s));
    case K::kEnum:
      if (kind == ParamKind::kMemoryFormat)
        return Value::of(static_cast<MemoryFormat>(v.s == "preserve_format"    ? 1
                                                   : v.s == "channels_last"    ? 2
                                                   : v.s == "channels_last_3d" ? 3
                                                                               : 0));
      if (kind == ParamKind::kDType) return Value::of(parse_dtype(v.s).value_or(DType::kFloat32));
      if (kind == ParamKind::kLayout) return Value::of(Layout::kStrided);
      return Value::of(v.i);
    case K::kList: {
      if (kind == ParamKind::kFloatList) {
        std::vector<double> l;
        for (const auto& e : v.list) l.push_back(e.kind == K::kInt ? static_cast<double>(e.i) : e.f);
        return Value::doubles(std::move(l));
      }
      if (kind == ParamKind::kTensorList) return Value::of(std::vector<Tensor>());
      IntVector l;
      for (const auto& e : v.list) l.push_back(e.kind == K::kBool ? e.b : e.i);
      return Value::of(std::move(l));
    }
  }
  return Value::none();
}

// A default for calls: its lists and strings live as long as the plan, so that its bytes may be copied.
Value borrowed_default(const Value& v) {
  switch (v.tag()) {
    case Value::Tag::kIntList:
      return Value::borrow(v.int_list());
    case Value::Tag::kDoubleList:
      return Value::borrow(v.double_list());
    case Value::Tag::kTensorList:
      return Value::borrow(v.tensor_list());
    case Value::Tag::kString:
      return Value::borrow(v.string());
    default:
      return v;
  }
}

const char* numpy_alias(std::string_view name) {
  if (name == "dim") return "axis";
  if (name == "keepdim") return "keepdims";
  if (name == "self") return "x";
  if (name == "other") return "x2";
  return nullptr;
}

}  // namespace

const char* kind_name(ParamKind k) {
  switch (k) {
    case ParamKind::kTensor:
      return "Tensor";
    case ParamKind::kScalar:
      return "Number";
    case ParamKind::kInt:
      return "int";
    case ParamKind::kFloat:
      return "float";
    case ParamKind::kBool:
      return "bool";
    case ParamKind::kIntList:
      return "tuple of ints";
    case ParamKind::kTensorList:
      return "tuple of Tensors";
    case ParamKind::kDType:
      return "torch.dtype";
    case ParamKind::kLayout:
      return "torch.layout";
    case ParamKind::kMemoryFormat:
      return "torch.memory_format";
    case ParamKind::kDevice:
      return "torch.device";
    case ParamKind::kGenerator:
      return "torch.Generator";
    case ParamKind::kString:
      return "str";
    case ParamKind::kFloatList:
      return "tuple of floats";
    case ParamKind::kBoolList:
      return "tuple of bools";
    case ParamKind::kScalarList:
      return "tuple of Numbers";
    case ParamKind::kStorage:
      return "Storage";
    case ParamKind::kObject:
      return "object";
  }
  return "object";
}

ParsePlan::ParsePlan(const OpInfo& info) : info_(&info), schema_(parse_schema(info.schema())) {
  TESSERA_CHECK(schema_.arguments.size() <= kMaxArgs, info.schema(), ": too many arguments");
  bool has_dtype = false;
  for (size_t i = 0; i < schema_.arguments.size(); ++i) {
    const SchemaArgument& a = schema_.arguments[i];
    Param p;
    p.schema = &a;
    const SchemaType& type = a.type.without_optional();
    p.kind = kind_of(type);
    if (p.kind == ParamKind::kObject) p.type = jit::from_schema(a.type);
    p.optional = a.type.is_optional();
    p.optional_elements = type.is_list() && type.elements[0].is_optional();
    p.kwarg_only = a.kwarg_only;
    if (type.is_list()) p.list_size = type.size;
    const std::string_view function = documented_name(info, a.name, false),
                           method = documented_name(info, a.name, true);
    p.name = intern(!function.empty() ? std::string(function) : a.name == "self" ? "input" : a.name);
    if (!method.empty()) p.method = intern(std::string(method));
    if (a.name == function || a.name == method) p.kwarg_only = false;  // documented as one that may go by its place
    if (const char* alias = numpy_alias(a.name)) p.alias = intern(alias);
    if (a.default_value) {
      p.has_default = true;
      p.default_value = default_of(*a.default_value, p.kind, p.list_size);
    }
    p.is_out = a.is_write() && a.kwarg_only && (info.op->flags & kIsOut);
    if (p.is_out) {
      if (first_out_ < 0) first_out_ = static_cast<int>(i);
      ++num_outs_;
    }
    if (!p.kwarg_only) ++num_positional_;
    has_dtype |= p.kind == ParamKind::kDType;
    if (a.name == "pin_memory") pin_ = static_cast<int>(i);
    params_.push_back(std::move(p));
  }
  for (size_t i = 0; i < params_.size(); ++i) {
    defaults_.push_back(borrowed_default(params_[i].default_value));
    if (!params_[i].has_default) required_ |= uint64_t{1} << i;
    if (params_[i].is_out) outs_ |= uint64_t{1} << i;
  }
  factory_ = has_dtype && pin_ >= 0;
  const int self = !params_.empty() && schema_.arguments[0].name == "self" ? 1 : 0;
  varargs_ = num_positional_ == self + 1 && params_[self].kind == ParamKind::kIntList;
}

std::string ParsePlan::signature() const {
  std::string s = "(";
  bool star = false;
  for (const Param& p : params_) {
    if (p.is_out && &p != &params_[first_out_]) continue;
    if (s.size() > 1) s += ", ";
    if (p.kwarg_only && !star) {
      s += "*, ";
      star = true;
    }
    s += p.is_out && num_outs_ > 1 ? "tuple of Tensors" : kind_name(p.kind);
    s += " ";
    s += p.is_out ? "out" : PyUnicode_AsUTF8(p.name);
    if (p.has_default && !p.is_out) s += p.default_value.is_none() ? " = None" : "";
  }
  return s + ")";
}

namespace {
// As Python code; lists as what a user would write: 0 for [0, 0], (0, 1) for [0, 1], () for [].
std::string shown_default(const SchemaValue& v) {
  if (v.kind != SchemaValue::Kind::kList) return v.str();
  std::string all;
  bool same = !v.list.empty();
  for (const SchemaValue& e : v.list) {
    all += (all.empty() ? "" : ", ") + e.str();
    same = same && e.str() == v.list[0].str();
  }
  return same ? v.list[0].str() : str_cat("(", all, ")");
}
}  // namespace

std::string ParsePlan::python_signature(bool method, bool has_out) const {
  std::string s;
  bool star = false;
  auto add = [&](const std::string& text, bool by_name) {
    if (by_name && !star)
      s += s.empty() ? "*, " : ", *, ";
    else if (!s.empty())
      s += ", ";
    star = star || by_name;
    s += text;
  };
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& p = params_[i];
    if (p.is_out || (method && p.schema->name == "self")) continue;
    const std::string name = !method    ? PyUnicode_AsUTF8(p.name)
                             : p.method ? PyUnicode_AsUTF8(p.method)
                                        : p.schema->name;
    if ((method ? !p.method : s.empty()) && static_cast<int>(i) == varargs_position()) {
      add("*" + name, false);
      star = true;  // what follows is by name
    } else {
      add(p.has_default ? str_cat(name, "=", shown_default(*p.schema->default_value)) : name, p.kwarg_only);
    }
  }
  if (has_out) add("out=None", true);
  if (factory_) add("requires_grad=False", true);
  std::string returns;
  for (const SchemaArgument& r : schema_.returns)
    returns += (returns.empty() ? "" : ", ") +
               (r.type.without_optional().is_list() ? "tuple of Tensors" : r.type.str_without_alias());
  return str_cat("(", s, ") -> ", schema_.returns.size() == 1 ? returns : str_cat("(", returns, ")"));
}

int ParsePlan::find(PyObject* name) const {
  for (size_t i = 0; i < params_.size(); ++i)
    if (params_[i].name == name || params_[i].alias == name) return static_cast<int>(i);
  for (size_t i = 0; i < params_.size(); ++i) {
    const Param& p = params_[i];
    for (PyObject* known : {p.name, p.alias, p.method})
      if (known && PyUnicode_Compare(known, name) == 0) return static_cast<int>(i);
    if (PyUnicode_CompareWithASCIIString(name, p.schema->name.c_str()) == 0) return static_cast<int>(i);
  }
  // Other names of the first, where no other argument has one of these (geqrf's result a).
  if (!params_.empty() && (params_[0].schema->name == "self" || params_[0].schema->name == "input"))
    for (const char* also : {"input", "self", "a", "x1"})
      if (PyUnicode_CompareWithASCIIString(name, also) == 0) return 0;
  return -1;
}

namespace {
thread_local constinit IntScratch* t_scratch = nullptr;
}  // namespace
IntScratch::IntScratch() : outer_(t_scratch) { t_scratch = this; }
void IntScratch::stop() {
  if (active_) t_scratch = outer_;
  active_ = false;
}
int64_t* IntScratch::take(size_t n) {
  IntScratch* s = t_scratch;
  if (!s || s->used_ + n > kRoom) return nullptr;
  s->used_ += n;
  return s->room_ + s->used_ - n;
}

namespace {
// n ints, get(i, &value) each: in the call's scratch where there is room, else on the heap. False if one does not
// convert.
template <class Get>
bool make_int_list(size_t n, Get get, Value* out) {
  int64_t* room = IntScratch::take(n);
  IntVector heap(room ? 0 : n);
  int64_t* to = room ? room : heap.data();
  for (size_t i = 0; i < n; ++i)
    if (!get(i, to + i)) return false;
  *out = room ? Value::borrow(IntList(room, n)) : Value::of(std::move(heap));
  return true;
}

bool fill_outs(const std::vector<Param>& params, int first, int count, PyObject* o, Value* values) {
  if (count == 1) return convert_arg(params[first], o, &values[first]);
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  if (PySequence_Fast_GET_SIZE(o) != count) return false;
  for (int i = 0; i < count; ++i)
    if (!convert_arg(params[first + i], PySequence_Fast_GET_ITEM(o, i), &values[first + i])) return false;
  return true;
}
bool is_name(PyObject* name, const char* text) { return PyUnicode_CompareWithASCIIString(name, text) == 0; }
}  // namespace

bool ParsePlan::parse(PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames, Value* values,
                      bool* extra_requires_grad, std::string* why, bool outs_by_name) const {
  uint64_t given = 0;
  Py_ssize_t used = num_positional;
  if (varargs_) {
    // view(2, 3): all integers from the list's place on.
    const int at = num_positional_ - 1;
    if (num_positional > at && (num_positional > at + 1 || !params_[at].list_size || params_[at].list_size < 0)) {
      int64_t first;
      if (!PyTuple_Check(args[at]) && !PyList_Check(args[at]) && to_int64(args[at], &first)) {
        if (!make_int_list(
                static_cast<size_t>(num_positional - at),
                [&](size_t i, int64_t* v) { return to_int64(args[at + static_cast<Py_ssize_t>(i)], v); }, &values[at]))
          return false;
        given |= uint64_t{1} << at;
        used = at;
      }
    }
  }
  if (used > num_positional_ || (used < num_positional && !given)) return false;
  for (Py_ssize_t i = 0; i < used; ++i) {
    const Param& p = params_[static_cast<size_t>(i)];
    if (p.kind == ParamKind::kTensor && is_exact_tensor(args[i])) [[likely]] {
      values[i] = Value::borrow(reinterpret_cast<PyTensor*>(args[i])->impl);
    } else if (!convert_arg(p, args[i], &values[i])) {
      if (why) *why = PyUnicode_AsUTF8(p.name);
      return false;
    }
  }
  given |= (uint64_t{1} << used) - 1;
  if (kwnames && !parse_keywords(args + num_positional, kwnames, values, &given, extra_requires_grad, outs_by_name))
    return false;
  uint64_t left = ((uint64_t{1} << params_.size()) - 1) & ~given;
  if (left & (outs_by_name ? required_ : required_ | outs_)) return false;
  for (; left; left &= left - 1) {
    const int i = std::countr_zero(left);
    std::memcpy(static_cast<void*>(&values[i]), static_cast<const void*>(&defaults_[static_cast<size_t>(i)]),
                sizeof(Value));
  }
  if (jit::Tracer* trace = jit::current_trace()) [[unlikely]]
    note_sources(*trace, {args, static_cast<size_t>(num_positional)}, static_cast<size_t>(used), kwnames);
  return true;
}

// Tells a recording which tensors the numbers of a call were; `used`: positional arguments that are no varargs.
void ParsePlan::note_sources(jit::Tracer& trace, std::span<PyObject* const> args, size_t used,
                             PyObject* kwnames) const {
  std::vector<jit::NumberSource> sources;
  const auto add = [&](int i, PyObject* o) {
    const ParamKind kind = params_[static_cast<size_t>(i)].kind;
    if (kind != ParamKind::kTensor && kind != ParamKind::kTensorList) add_sources(i, o, &sources);
  };
  for (size_t i = 0; i < used; ++i) add(static_cast<int>(i), args[i]);
  for (size_t i = used; i < args.size(); ++i)
    if (is_tensor(args[i])) sources.push_back({num_positional_ - 1, static_cast<int>(i - used), unwrap(args[i])});
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
    if (const int i = find(PyTuple_GET_ITEM(kwnames, k)); i >= 0)
      add(i, args.data()[args.size() + static_cast<size_t>(k)]);
  trace.expect(*info_->op, std::move(sources));
}

bool ParsePlan::parse_keywords(PyObject* const* values_given, PyObject* kwnames, Value* values, uint64_t* given,
                               bool* extra_requires_grad, bool outs_by_name) const {
  for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    PyObject* value = values_given[k];
    const bool no_parameter = num_outs_ > 0 || find(name) < 0;  // an operator of a program may have one of that name
    if (is_name(name, "out") && no_parameter && !(outs_by_name && num_outs_ > 1 && is_tensor(value))) {
      if (value == Py_None && num_outs_ == 0) continue;
      if (num_outs_ == 0 || !fill_outs(params_, first_out_, num_outs_, value, values)) return false;
      *given |= outs_;
      continue;
    }
    const int i = find(name);
    if (i < 0 || (params_[i].is_out && !outs_by_name)) {
      if (factory_ && is_name(name, "requires_grad")) {
        const int truth = value == Py_None ? 0 : PyObject_IsTrue(value);
        if (truth < 0) {
          PyErr_Clear();
          return false;
        }
        *extra_requires_grad = truth;
        continue;
      }
      if (factory_ && is_name(name, "names") && value == Py_None) continue;
      return false;
    }
    if (*given >> i & 1) return false;
    if (!convert_arg(params_[i], value, &values[i])) return false;
    *given |= uint64_t{1} << i;
  }
  return true;
}

bool is_python_number(PyObject* o) {
  if (PyLong_Check(o) || PyFloat_Check(o) || PyComplex_Check(o)) return true;
  Scalar s;
  return !is_tensor(o) && to_scalar(o, &s);
}

bool to_int64(PyObject* o, int64_t* out) {
  if (PyLong_CheckExact(o)) {
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (overflow) { throw OverflowError("Overflow when unpacking long long"); }
    return true;
  }
  if (PyFloat_Check(o) || PyUnicode_Check(o) || o == Py_None) return false;
  if (is_tensor(o)) {
    const Tensor& t = unwrap(o);
    if (t.numel() != 1 || !is_integral(t.dtype(), false) || t.requires_grad() || t.is_meta()) return false;
    *out = t.item<int64_t>();
    return true;
  }
  if (!PyIndex_Check(o)) return false;
  Ref index = Ref::steal(PyNumber_Index(o));
  if (!index) {
    PyErr_Clear();
    return false;
  }
  int overflow;
  *out = PyLong_AsLongLongAndOverflow(index.get(), &overflow);
  if (overflow) throw OverflowError("Overflow when unpacking long long");
  return true;
}

bool to_scalar(PyObject* o, Scalar* out) {
  if (PyBool_Check(o)) {
    *out = Scalar(o == Py_True);
    return true;
  }
  if (PyFloat_Check(o)) {
    *out = Scalar(PyFloat_AS_DOUBLE(o));
    return true;
  }
  if (PyLong_Check(o)) {
    int overflow;
    const long long v = PyLong_AsLongLongAndOverflow(o, &overflow);
    if (!overflow) {
      *out = Scalar(static_cast<int64_t>(v));
      return true;
    }
    const unsigned long long u = PyLong_AsUnsignedLongLong(o);
    if (PyErr_Occurred()) {
      PyErr_Clear();
      throw OverflowError("int too big to convert");
    }
    *out = Scalar(static_cast<uint64_t>(u));
    return true;
  }
  if (PyComplex_Check(o)) {
    const Py_complex c = PyComplex_AsCComplex(o);
    *out = Scalar(std::complex<double>(c.real, c.imag));
    return true;
  }
  if (PyUnicode_Check(o) || PyBytes_Check(o) || PySequence_Check(o) || is_tensor(o) || o == Py_None) return false;
  // NumPy scalars: by their kind.
  const char* type = Py_TYPE(o)->tp_name;
  if (std::strncmp(type, "numpy.", 6) != 0) {
    if (PyIndex_Check(o)) {
      int64_t v;
      if (to_int64(o, &v)) {
        *out = Scalar(v);
        return true;
      }
    }
    return false;
  }
  if (std::strncmp(type + 6, "bool", 4) == 0) {
    *out = Scalar(PyObject_IsTrue(o) == 1);
    return true;
  }
  if (PyIndex_Check(o)) {
    Ref i = Ref::steal(PyNumber_Index(o));
    if (i) return to_scalar(i.get(), out);
    PyErr_Clear();
    return false;
  }
  if (std::strncmp(type + 6, "complex", 7) == 0) {
    const Py_complex c = PyComplex_AsCComplex(o);
    *out = Scalar(std::complex<double>(c.real, c.imag));
    return true;
  }
  const double d = PyFloat_AsDouble(o);
  if (PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  *out = Scalar(d);
  return true;
}

namespace {

// 0-dim tensors that stand for numbers.
bool scalar_of_tensor(PyObject* o, Scalar* out) {
  const Tensor& t = unwrap(o);
  if (t.dim() != 0 || t.requires_grad() || t.is_meta()) return false;
  *out = value_of(t);
  return true;
}

template <class T, class Get>
bool list_of(PyObject* o, std::vector<T>* out, Get get) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
  out->reserve(static_cast<size_t>(n));
  for (Py_ssize_t i = 0; i < n; ++i) {
    T v;
    if (!get(PySequence_Fast_GET_ITEM(o, i), &v)) return false;
    out->push_back(std::move(v));
  }
  return true;
}

bool get_double(PyObject* o, double* out) {
  if (PyFloat_Check(o)) {
    *out = PyFloat_AS_DOUBLE(o);
    return true;
  }
  Scalar s;
  if (is_tensor(o) ? !scalar_of_tensor(o, &s) : !to_scalar(o, &s)) return false;
  if (s.is_complex()) return false;
  *out = s.to_double();
  return true;
}

bool convert_int_list(const Param& p, PyObject* o, Value* out) {
  int64_t one;
  const bool sequence = PyTuple_Check(o) || PyList_Check(o);
  if (p.list_size > 0 && !sequence) {
    if (PyBool_Check(o) || !to_int64(o, &one)) return false;
    *out = Value::of(IntVector(static_cast<size_t>(p.list_size), one));
    return true;
  }
  Py_ssize_t n;
  auto element = [&](size_t i, int64_t* v) {
    if (!sequence) {
      const Tensor& t = unwrap(o);
      *v = load_scalar(t.dtype(),
                       static_cast<char*>(t.data_ptr()) + static_cast<int64_t>(i) * t.strides()[0] * t.item_size())
               .to_int();
      return true;
    }
    if (static_cast<Py_ssize_t>(i) >= PySequence_Fast_GET_SIZE(o))
      return false;  // an element's __index__ made the list shorter
    PyObject* e = PySequence_Fast_GET_ITEM(o, static_cast<Py_ssize_t>(i));
    return !PyBool_Check(e) && to_int64(e, v);
  };
  if (sequence)
    n = PySequence_Fast_GET_SIZE(o);
  else if (is_tensor(o) && unwrap(o).dim() == 1 && is_integral(unwrap(o).dtype(), false) && unwrap(o).is_cpu())
    n = unwrap(o).numel();
  else
    return false;
  // int[2] given as (3,): the documents allow a single element for all.
  if (p.list_size > 1 && n == 1) {
    if (!element(0, &one)) return false;
    *out = Value::of(IntVector(static_cast<size_t>(p.list_size), one));
    return true;
  }
  return make_int_list(static_cast<size_t>(n), element, out);
}

// *out = v, if it was converted.
template <class T>
bool give(bool converted, T&& v, Value* out) {
  if (converted) *out = Value::of(std::forward<T>(v));
  return converted;
}

bool get_scalar(PyObject* o, Scalar* out) { return is_tensor(o) ? scalar_of_tensor(o, out) : to_scalar(o, out); }

bool convert_scalar(PyObject* o, Value* out) {
  Scalar s;
  return give(get_scalar(o, &s), s, out);
}
bool convert_int(PyObject* o, Value* out) {
  int64_t v = o == Py_True;
  return give(PyBool_Check(o) || to_int64(o, &v), v, out);
}
bool convert_float(PyObject* o, Value* out) {
  double d = 0;
  return give(get_double(o, &d), d, out);
}
bool convert_bool(PyObject* o, Value* out) {
  if (PyBool_Check(o)) return give(true, o == Py_True, out);
  Scalar s;
  if (!get_scalar(o, &s) || !(is_tensor(o) ? unwrap(o).dtype() == DType::kBool : s.is_bool())) return false;
  return give(true, s.to_bool(), out);
}
bool convert_dtype(PyObject* o, Value* out) {
  DType t;
  return give(to_dtype(o, &t), t, out);
}
bool convert_storage(PyObject* o, Value* out) {
  Storage s = storage_of(o);
  const bool found = static_cast<bool>(s);
  return give(found, std::move(s), out);
}

bool convert_tensor_list(const Param& p, PyObject* o, Value* out) {
  std::vector<Tensor> l;
  const bool nullable = p.optional_elements;
  const bool all = list_of<Tensor>(o, &l, [nullable](PyObject* e, Tensor* t) {
    if (nullable && e == Py_None) return true;
    if (!is_tensor(e)) return false;
    *t = unwrap(e);
    return true;
  });
  return give(all, std::move(l), out);
}
bool convert_float_list(PyObject* o, Value* out) {
  std::vector<double> l;
  if (!list_of<double>(o, &l, &get_double)) return false;
  *out = Value::doubles(std::move(l));
  return true;
}
bool convert_scalar_list(PyObject* o, Value* out) {
  std::vector<Scalar> l;
  if (!list_of<Scalar>(o, &l, &get_scalar)) return false;
  *out = Value::scalars(std::move(l));
  return true;
}
bool convert_bool_list(PyObject* o, Value* out) {
  if (!PyTuple_Check(o) && !PyList_Check(o)) return false;
  const size_t n = static_cast<size_t>(PySequence_Fast_GET_SIZE(o));
  std::unique_ptr<bool[]> l(new bool[n ? n : 1]);
  for (size_t i = 0; i < n; ++i) {
    PyObject* e = PySequence_Fast_GET_ITEM(o, static_cast<Py_ssize_t>(i));
    if (!PyBool_Check(e)) return false;
    l[i] = e == Py_True;
  }
  *out = Value(Value::borrow(std::span<const bool>(l.get(), n)));
  Value copy(*out);  // copying takes borrowed lists over
  *out = std::move(copy);
  return true;
}

}  // namespace

bool convert_arg(const Param& p, PyObject* o, Value* out) {
  if (o == Py_None && p.kind != ParamKind::kObject) {
    // stride=None of pooling: documented for what the schema spells [].
    const bool empty = p.default_value.tag() == Value::Tag::kIntList && p.default_value.int_list().empty();
    if (!p.optional && !empty) return false;
    *out = p.optional ? Value::none() : Value::of(IntVector());
    return true;
  }
  switch (p.kind) {
    case ParamKind::kTensor:
      if (!is_tensor(o)) return false;
      *out = Value::borrow(reinterpret_cast<PyTensor*>(o)->impl);
      return true;
    case ParamKind::kScalar:
      return convert_scalar(o, out);
    case ParamKind::kInt:
      return convert_int(o, out);
    case ParamKind::kFloat:
      return convert_float(o, out);
    case ParamKind::kBool:
      return convert_bool(o, out);
    case ParamKind::kIntList:
      return convert_int_list(p, o, out);
    case ParamKind::kTensorList:
      return convert_tensor_list(p, o, out);
    case ParamKind::kFloatList:
      return convert_float_list(o, out);
    case ParamKind::kBoolList:
      return convert_bool_list(o, out);
    case ParamKind::kScalarList:
      return convert_scalar_list(o, out);
    case ParamKind::kDType:
      return convert_dtype(o, out);
    case ParamKind::kStorage:
      return convert_storage(o, out);
    case ParamKind::kLayout:
      return is_layout(o) && give(true, unwrap_layout(o), out);
    case ParamKind::kMemoryFormat:
      return is_memory_format(o) && give(true, unwrap_memory_format(o), out);
    case ParamKind::kDevice:
      return is_device_like(o) && give(true, to_device(o), out);
    case ParamKind::kString:
      return PyUnicode_Check(o) && give(true, from_python_string(o), out);
    case ParamKind::kGenerator:
      if (!is_generator(o)) return false;
      *out = Value::borrow(unwrap_generator(o));
      return true;
    case ParamKind::kObject:
      return jit_from_python(o, p.type, out);
  }
  return false;
}

namespace {
template <class L, class F>
PyObject* list_to_python(const L& l, F f) {
  Ref r = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(l.size()))));
  for (size_t i = 0; i < l.size(); ++i) PyList_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(f(l[i])));
  return r.release();
}
PyObject* scalar_to_python(const Scalar& s) {
  switch (s.kind()) {
    case Scalar::Kind::kBool:
      return PyBool_FromLong(s.to_bool());
    case Scalar::Kind::kInt:
      return PyLong_FromLongLong(s.to_int());
    case Scalar::Kind::kUInt:
      return PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.to_int()));
    case Scalar::Kind::kDouble:
      return PyFloat_FromDouble(s.to_double());
    default:
      return PyComplex_FromDoubles(s.to_complex().real(), s.to_complex().imag());
  }
}
}  // namespace

PyObject* to_python(const Value& v) {
  using T = Value::Tag;
  switch (v.tag()) {
    case T::kNone:
      return none();
    case T::kBool:
    case T::kInt:
    case T::kUInt:
    case T::kDouble:
    case T::kComplex:
      return check(scalar_to_python(v.scalar()));
    case T::kTensor:
      return wrap_or_none(v.tensor());
    case T::kTensorList:
      return list_to_python(v.tensor_list(), [](const Tensor& t) { return wrap_or_none(t); });
    case T::kIntList:
      return list_to_python(v.int_list(), [](int64_t i) { return PyLong_FromLongLong(i); });
    case T::kDoubleList:
      return list_to_python(v.double_list(), [](double d) { return PyFloat_FromDouble(d); });
    case T::kBoolList:
      return list_to_python(v.bool_list(), [](bool b) { return PyBool_FromLong(b); });
    case T::kScalarList:
      return list_to_python(v.scalar_list(), &scalar_to_python);
    case T::kString:
      return to_python_string(v.string()).release();
    case T::kDType:
      return wrap(v.dtype());
    case T::kLayout:
      return wrap(v.layout());
    case T::kMemoryFormat:
      return wrap(v.memory_format());
    case T::kDevice:
      return wrap(v.device());
    case T::kStorage:
      return wrap(v.storage());
    case T::kGenerator:
      return v.generator().defined() ? wrap(v.generator()) : none();
    default:
      return jit_to_python(v);
  }
}

Value to_value(PyObject* o) {
  if (o == Py_None) return Value::none();
  if (is_tensor(o)) return Value::of(Tensor(unwrap(o)));
  Scalar s;
  if (to_scalar(o, &s)) return Value::of(s);
  if (PyUnicode_Check(o)) return Value::of(from_python_string(o));
  if (is_dtype(o)) return Value::of(unwrap_dtype(o));
  if (is_device(o)) return Value::of(to_device(o));
  if (is_layout(o)) return Value::of(unwrap_layout(o));
  if (is_memory_format(o)) return Value::of(unwrap_memory_format(o));
  if (is_generator(o)) return Value::of(Generator(unwrap_generator(o)));
  std::vector<Tensor> tensors;
  auto tensor = [](PyObject* e, Tensor* t) {
    if (e == Py_None) return true;
    if (!is_tensor(e)) return false;
    *t = unwrap(e);
    return true;
  };
  if (list_of<Tensor>(o, &tensors, tensor)) return Value::of(std::move(tensors));
  IntVector ints;
  if (list_of<int64_t>(o, &ints, &to_int64)) return Value::of(std::move(ints));
  std::vector<double> doubles;
  if (list_of<double>(o, &doubles, &get_double)) return Value::doubles(std::move(doubles));
  throw TypeError(str_cat("a Python object of type ", Py_TYPE(o)->tp_name, " can't be passed to an operator"));
}

Value to_value(PyObject* o, const SchemaType& type) {
  Param p;
  p.kind = kind_of(type.without_optional());
  p.optional = type.is_optional();
  if (type.without_optional().is_list()) {
    p.list_size = type.without_optional().size;
    p.optional_elements = type.without_optional().elements[0].is_optional();
  }
  Value v;
  if (p.kind == ParamKind::kObject) p.type = jit::from_schema(type);
  if (!convert_arg(p, o, &v))
    throw TypeError(str_cat("expected a value of type ", type.str(), ", got ", Py_TYPE(o)->tp_name));
  if (p.kind == ParamKind::kTensor && !v.is_none()) return Value::of(Tensor(v.tensor()));  // owned
  return v;
}

}  // namespace tessera::python
