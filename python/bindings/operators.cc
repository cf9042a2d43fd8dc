#include "python/bindings/operators.h"

#include <structmember.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <new>
#include <string>
#include <string_view>
#include <unordered_map>

#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/convert/numpy.h"
#include "python/bindings/convert/tensor_convert.h"
#include "python/bindings/convert/names.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/torch_function.h"
#include "python/bindings/types.h"
#include "tensor/core/warning.h"

namespace tessera {
// Each linked library's list (generated).
OpInfoList all_registered_ops();
}  // namespace tessera

namespace tessera::python {
namespace {

constexpr int64_t kReleaseGilAbove = 16384;  // elements

// The values of one call, constructed as far as needed.
class ValueArray {
 public:
  explicit ValueArray(size_t n) : n_(n) {
    for (size_t i = 0; i < n; ++i) new (data() + i) Value();
  }
  ~ValueArray() {
    for (size_t i = 0; i < n_; ++i) data()[i].~Value();
  }
  Value* data() { return reinterpret_cast<Value*>(room_); }
  Value& operator[](size_t i) { return data()[i]; }
  void clear() {
    for (size_t i = 0; i < n_; ++i) data()[i] = Value();
  }

 private:
  size_t n_;
  alignas(Value) unsigned char room_[sizeof(Value) * kMaxArgs];
};

bool product_above(IntList sizes, int64_t limit) {
  int64_t n = 1;
  for (int64_t s : sizes)
    if (__builtin_mul_overflow(n, s, &n)) return true;
  return n > limit;
}

bool is_large(const ParsePlan& plan, const Value* values) {
  for (size_t i = 0; i < plan.params().size(); ++i) {
    const Value& v = values[i];
    if (v.is_tensor() && v.tensor().defined() && v.tensor().numel() > kReleaseGilAbove) return true;
    if (v.is_tensor_list())
      for (const Tensor& t : v.tensor_list())
        if (t.defined() && t.numel() > kReleaseGilAbove) return true;
    if (plan.is_factory() && v.tag() == Value::Tag::kIntList && product_above(v.int_list(), kReleaseGilAbove))
      return true;
  }
  return false;
}

std::string type_names(PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames) {
  std::string s;
  auto add = [&](PyObject* o) {
    if (is_tensor(o)) {
      s += Py_TYPE(o) == TensorType ? "Tensor" : Py_TYPE(o)->tp_name;
      return;
    }
    if ((PyTuple_Check(o) || PyList_Check(o)) && !PyObject_HasAttrString(o, "_fields")) {
      s += PyTuple_Check(o) ? "tuple of (" : "list of [";
      const Py_ssize_t n = PySequence_Fast_GET_SIZE(o);
      for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(n, 10); ++i)
        s += std::string(i ? ", " : "") +
             (is_tensor(PySequence_Fast_GET_ITEM(o, i)) ? "Tensor" : Py_TYPE(PySequence_Fast_GET_ITEM(o, i))->tp_name);
      s += PyTuple_Check(o) ? ")" : "]";
      return;
    }
    s += Py_TYPE(o)->tp_name;
  };
  for (Py_ssize_t i = 0; i < num_positional; ++i) {
    if (i) s += ", ";
    add(args[i]);
  }
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
    if (num_positional + k) s += ", ";
    s += std::string(PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k))) + "=";
    add(args[num_positional + k]);
  }
  return s;
}

[[noreturn]] void throw_no_match(OpFunction* f, PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames) {
  const std::string name = PyUnicode_AsUTF8(f->name);
  // One documented signature (an out= form belongs to it): say which argument is wrong.
  Overload* only = nullptr;
  int count = 0;
  for (auto& o : *f->overloads)
    if (!(o->info().op->flags & kIsOut)) {
      only = o.get();
      ++count;
    }
  if (count == 1) {
    const ParsePlan& plan = only->plan();
    const auto& params = plan.params();
    Py_ssize_t allowed = 0, required = 0;
    for (const Param& p : params) {
      if (!p.kwarg_only) ++allowed;
      if (!p.has_default) ++required;
    }
    const Py_ssize_t self = f->is_method ? 1 : 0;
    int64_t size;
    const int list = plan.varargs_position();
    const bool spread = list >= 0 && list < num_positional && to_int64(args[list], &size);  // zeros(2, 3)
    if (num_positional > allowed && !spread)
      throw TypeError(str_cat(name, "() takes ", allowed - self == 1 ? "" : "from ", allowed - self,
                              " positional argument", allowed - self == 1 ? "" : "s", " but ", num_positional - self,
                              num_positional - self == 1 ? " was" : " were", " given"));
    for (Py_ssize_t i = 0; i < num_positional; ++i) {
      const bool in_list = spread && i >= list;
      const Param& param = params[static_cast<size_t>(in_list ? list : i)];
      Value v;
      if (in_list ? to_int64(args[i], &size) : convert_arg(param, args[i], &v)) continue;
      throw TypeError(str_cat(name, "(): argument '", PyUnicode_AsUTF8(param.name), "' (position ", i + 1 - self,
                              ") must be ", in_list ? "int" : kind_name(param.kind), ", not ",
                              type_names(args + i, 1, nullptr)));
    }
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
      PyObject* kw = PyTuple_GET_ITEM(kwnames, k);
      const int where = plan.find(kw);
      const Param* found = where < 0 ? nullptr : &params[static_cast<size_t>(where)];
      if (!found && PyUnicode_CompareWithASCIIString(kw, "out") != 0 &&
          PyUnicode_CompareWithASCIIString(kw, "self") != 0)
        throw TypeError(str_cat(name, "() got an unexpected keyword argument '", PyUnicode_AsUTF8(kw), "'"));
      if (found && where < num_positional)
        throw TypeError(str_cat(name, "() got multiple values for argument '", PyUnicode_AsUTF8(kw), "'"));
      Value v;
      if (found && !convert_arg(*found, args[num_positional + k], &v))
        throw TypeError(str_cat(name, "(): argument '", PyUnicode_AsUTF8(kw), "' must be ", kind_name(found->kind),
                                ", not ", type_names(args + num_positional + k, 1, nullptr)));
    }
    std::string missing;
    int lacking = 0;
    for (size_t i = static_cast<size_t>(num_positional); i < params.size(); ++i) {
      if (params[i].has_default || params[i].is_out) continue;
      bool given = false;
      for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
        given = given || plan.find(PyTuple_GET_ITEM(kwnames, k)) == static_cast<int>(i);
      if (!given) {
        missing += std::string(missing.empty() ? "\"" : ", \"") + PyUnicode_AsUTF8(params[i].name) + "\"";
        ++lacking;
      }
    }
    if (lacking)
      throw TypeError(str_cat(name, "() missing ", lacking, " required positional argument", lacking > 1 ? "s" : "",
                              ": ", missing));
  }
  std::string message =
      str_cat(name, "() received an invalid combination of arguments - got (",
              type_names(args + (f->is_method ? 1 : 0), num_positional - (f->is_method ? 1 : 0), kwnames),
              "), but expected one of:\n");
  for (auto& o : *f->overloads) message += " * " + o->plan().signature() + "\n";
  throw TypeError(message);
}

// A tensor fits a parameter that wants one better than one that wants a number (0-dim tensors fit both): of two
// overloads, the one that has a tensor where they first differ is tried first. Otherwise the tables' order stays.
bool goes_before(const ParsePlan& a, const ParsePlan& b) {
  const size_t n = std::min(a.params().size(), b.params().size());
  for (size_t i = 0; i < n; ++i) {
    if (a.params()[i].kwarg_only || b.params()[i].kwarg_only) return false;
    const bool tensor_a = a.params()[i].kind == ParamKind::kTensor, tensor_b = b.params()[i].kind == ParamKind::kTensor;
    if (tensor_a != tensor_b) return tensor_a;
    // A list of ints may be spelled as single ints, so what wants one int comes first.
    if (a.params()[i].kind == ParamKind::kInt && b.params()[i].kind == ParamKind::kIntList) return true;
  }
  return false;
}
void order_overloads(OpFunction* f) {
  auto& list = *f->overloads;
  for (size_t i = 1; i < list.size(); ++i) {
    size_t to = i;
    for (size_t j = i; j-- > 0;)
      if (goes_before(list[i]->plan(), list[j]->plan())) to = j;
    std::rotate(list.begin() + static_cast<ptrdiff_t>(to), list.begin() + static_cast<ptrdiff_t>(i),
                list.begin() + static_cast<ptrdiff_t>(i) + 1);
  }
  f->ordered = true;
}

PyObject* try_overloads(OpFunction* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, bool* found) {
  for (auto& overload : *f->overloads) {
    const ParsePlan& plan = overload->plan();
    IntScratch ints;  // outlives the values that borrow from it
    ValueArray values(plan.params().size());
    bool requires_grad = false;
    const bool fits = plan.parse(args, n, kwnames, values.data(), &requires_grad, nullptr);
    ints.stop();  // what the call itself converts must own its lists
    if (fits) {
      *found = true;
      return call_overload(*overload, values.data(), requires_grad);
    }
  }
  *found = false;
  return nullptr;
}

// Arithmetic functions (not methods) take numbers for tensors: torch.mul(2, x).
bool takes_numbers(const OpFunction* f) {
  static const char* const names[] = {"add",      "div", "divide",   "floor_divide", "mul",
                                      "multiply", "sub", "subtract", "true_divide"};
  if (f->is_method) return false;
  for (const char* name : names)
    if (PyUnicode_CompareWithASCIIString(f->name, name) == 0) return true;
  return false;
}
PyObject* try_with_numbers(OpFunction* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, bool* found) {
  std::vector<PyObject*> converted(args, args + n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
  std::vector<Ref> owned;
  std::vector<Py_ssize_t> operands;
  for (Py_ssize_t i = 0; i < std::min<Py_ssize_t>(n, 2); ++i) operands.push_back(i);
  for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
    for (const char* name : {"input", "other"})
      if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), name) == 0) operands.push_back(n + i);
  const bool numbers_only = operands.size() > 1 && std::none_of(operands.begin(), operands.end(),
                                                                [&](Py_ssize_t i) { return is_tensor(args[i]); });
  for (const Py_ssize_t i : operands) {
    Scalar s;
    if (is_tensor(args[i]) || !to_scalar(args[i], &s)) continue;
    // Beside a tensor a number has the say of its kind; alone it is a tensor of the default dtype.
    owned.push_back(
        Ref::steal(check(wrap(numbers_only && s.is_floating_point() ? scalar_to_tensor(s, default_dtype())
                              : numbers_only && s.is_complex()      ? scalar_to_tensor(s, to_complex(default_dtype()))
                                                                    : wrapped_number(s)))));
    converted[static_cast<size_t>(i)] = owned.back().get();
  }
  *found = false;
  return owned.empty() ? nullptr : try_overloads(f, converted.data(), n, kwnames, found);
}

// Old programs have numbers before the tensors that they scale, x.add_(2, y) and addmm(beta, x, alpha, a, b), where
// keywords are now.
struct OldForm {
  std::string_view name;
  std::array<const char*, 2> keywords;
};
constexpr OldForm kOldForms[] = {
    {"add", {"alpha"}},
    {"sub", {"alpha"}},
    {"addcmul", {"value"}},
    {"addcdiv", {"value"}},
    {"addmm", {"beta", "alpha"}},
    {"addmv", {"beta", "alpha"}},
    {"addr", {"beta", "alpha"}},
    {"addbmm", {"beta", "alpha"}},
    {"baddbmm", {"beta", "alpha"}},
    {"sspaddmm", {"beta", "alpha"}},
};
const OldForm* old_form_of(std::string_view name) {
  if (name.ends_with('_')) name.remove_suffix(1);
  const auto* at = std::ranges::find(kOldForms, name, &OldForm::name);
  return at == std::end(kOldForms) ? nullptr : at;
}

bool has_keyword(PyObject* kwnames, const char* name) {
  for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
    if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), name) == 0) return true;
  return false;
}

PyObject* try_old_form(OpFunction* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, bool* found) {
  *found = false;
  const std::string name = PyUnicode_AsUTF8(f->name);
  const OldForm* form = old_form_of(name);
  if (!form || n < 3 || !is_tensor(args[n - 1])) return nullptr;
  const auto& params = f->overloads->front()->plan().params();
  std::vector<PyObject*> tensors, numbers;
  std::string given, wanted, keywords;
  const auto tell = [](std::string* text, std::string_view kind, std::string_view what) {
    *text += str_cat(text->empty() ? "" : ", ", kind, what);
  };
  const auto wanted_tensors = std::ranges::count(params, false, &Param::kwarg_only);
  const bool number_may_lead = std::string_view(form->keywords[0]) == "beta";
  // A tensor of no dimensions is a number as well, where more arguments are left than tensors are wanted.
  const auto is_number = [&](Py_ssize_t i) {
    if (!is_tensor(args[i])) return true;
    if (i == 0 && (f->is_method || !number_may_lead)) return false;
    return unwrap(args[i]).dim() == 0 && n - i + std::ssize(tensors) > wanted_tensors;
  };
  for (Py_ssize_t i = 0; i < n; ++i) {
    Scalar s;
    if (!is_number(i)) {
      if (tensors.size() == params.size()) return nullptr;
      const char* param = PyUnicode_AsUTF8(params[tensors.size()].name);
      tensors.push_back(args[i]);
      if (i == 0 && f->is_method) continue;
      tell(&given, "Tensor ", param);
      tell(&wanted, "Tensor ", param);
      continue;
    }
    const char* keyword = numbers.size() < form->keywords.size() ? form->keywords[numbers.size()] : nullptr;
    if (!keyword || has_keyword(kwnames, keyword) || !(is_tensor(args[i]) || to_scalar(args[i], &s))) return nullptr;
    numbers.push_back(args[i]);
    tell(&given, "Number ", keyword);
    keywords += str_cat(", Number ", keyword, " = 1");
  }
  if (numbers.empty()) return nullptr;
  const Py_ssize_t more = kwnames ? PyTuple_GET_SIZE(kwnames) : 0, old = static_cast<Py_ssize_t>(numbers.size());
  Ref names = Ref::steal(check(PyTuple_New(old + more)));
  for (Py_ssize_t i = 0; i < old; ++i)
    PyTuple_SET_ITEM(names.get(), i, check(PyUnicode_InternFromString(form->keywords[static_cast<size_t>(i)])));
  for (Py_ssize_t i = 0; i < more; ++i) PyTuple_SET_ITEM(names.get(), old + i, Py_NewRef(PyTuple_GET_ITEM(kwnames, i)));
  std::vector<PyObject*> all = tensors;
  all.insert(all.end(), numbers.begin(), numbers.end());
  all.insert(all.end(), args + n, args + n + more);
  warn_once(str_cat("This overload of ", name, " is deprecated:\n\t", name, "(", given,
                    ")\nConsider using one of the following signatures instead:\n\t", name, "(", wanted, ", *",
                    keywords, ")"));
  return try_overloads(f, all.data(), static_cast<Py_ssize_t>(tensors.size()), names.get(), found);
}

// Arguments whose documented default is None, and that the schemas leave out or have another default for.
constexpr std::string_view kNoneMeansAbsent[] = {
    "addmm.out_dtype", "baddbmm.out_dtype", "bmm.out_dtype", "mm.out_dtype", "cumulative_trapezoid.x",
    "kthvalue.dim",    "topk.dim",          "mode.dim",      "max.dim",      "cumulative_trapezoid.dx",
    "median.dim",      "nanmedian.dim",     "prod.dim",      "min.dim",      "trapezoid.x",
    "squeeze.dim",     "squeeze_.dim",      "random_.to",    "eye.m",        "trapezoid.dx",
    "scatter_.reduce"};

PyObject* try_without_nones(OpFunction* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, bool* found) {
  *found = false;
  const Py_ssize_t count = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  std::vector<PyObject*> left(args, args + n), names;
  for (Py_ssize_t k = 0; k < count; ++k) {
    PyObject* name = PyTuple_GET_ITEM(kwnames, k);
    if (args[n + k] == Py_None &&
        std::ranges::find(kNoneMeansAbsent, str_cat(PyUnicode_AsUTF8(f->name), ".", PyUnicode_AsUTF8(name))) !=
            std::end(kNoneMeansAbsent))
      continue;
    left.push_back(args[n + k]);
    names.push_back(name);
  }
  if (std::ssize(names) == count) return nullptr;
  Ref kept = Ref::steal(check(PyTuple_New(std::ssize(names))));
  for (size_t i = 0; i < names.size(); ++i)
    PyTuple_SET_ITEM(kept.get(), static_cast<Py_ssize_t>(i), Py_NewRef(names[i]));
  return try_overloads(f, left.data(), n, kept.get(), found);
}

// sort(x, 0, True, stable=True), as documented; the schemas with `stable` have all behind x by name.
PyObject* try_stable(OpFunction* f, PyObject* const* args, Py_ssize_t n, PyObject* kwnames, bool* found) {
  *found = false;
  const std::string_view name = PyUnicode_AsUTF8(f->name);
  if ((name != "sort" && name != "argsort") || n < 2 || n > 3 || !has_keyword(kwnames, "stable")) return nullptr;
  const Py_ssize_t named = PyTuple_GET_SIZE(kwnames);
  Ref names = Ref::steal(check(PyTuple_New(n - 1 + named)));
  const char* const places[] = {"dim", "descending"};
  for (Py_ssize_t i = 0; i < n - 1 + named; ++i)
    PyTuple_SET_ITEM(
        names.get(), i,
        i < n - 1 ? check(PyUnicode_InternFromString(places[i])) : Py_NewRef(PyTuple_GET_ITEM(kwnames, i - (n - 1))));
  return try_overloads(f, args, 1, names.get(), found);
}

PyObject* call_function(PyObject* callable, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
  OpFunction* f = reinterpret_cast<OpFunction*>(callable);
  const Py_ssize_t n = PyVectorcall_NARGS(nargsf);
  try {
    const Py_ssize_t all = n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
    if (needs_torch_function(args, all)) [[unlikely]]
      return call_torch_function(callable, args, n, kwnames);
    if (f->is_method && (n == 0 || !is_tensor(args[0]))) [[unlikely]]
      throw TypeError(str_cat(
          "descriptor '", PyUnicode_AsUTF8(f->name), "' for '", TensorType->tp_name, "' objects ",
          n == 0 ? "needs an argument" : str_cat("doesn't apply to a '", Py_TYPE(args[0])->tp_name, "' object")));
    if (!f->ordered) [[unlikely]]
      order_overloads(f);
    bool found;
    if (PyObject* r = try_overloads(f, args, n, kwnames, &found); found) return r;
    if (takes_numbers(f))
      if (PyObject* r = try_with_numbers(f, args, n, kwnames, &found); found) return r;
    if (PyObject* r = try_without_nones(f, args, n, kwnames, &found); found) return r;
    if (PyObject* r = try_stable(f, args, n, kwnames, &found); found) return r;
    if (PyObject* r = call_with_names(callable, args, n, kwnames)) return r;
    if (PyObject* r = try_old_form(f, args, n, kwnames, &found); found) return r;
    throw_no_match(f, args, n, kwnames);
  } catch (...) {
    translate_current_exception();
    return nullptr;
  }
}

void function_dealloc(PyObject* self) {
  OpFunction* f = reinterpret_cast<OpFunction*>(self);
  delete f->overloads;
  Py_XDECREF(f->name);
  Py_XDECREF(f->module);
  Py_XDECREF(f->dict);
  Py_TYPE(self)->tp_free(self);
}
PyObject* function_repr(PyObject* self) {
  OpFunction* f = reinterpret_cast<OpFunction*>(self);
  return f->is_method ? PyUnicode_FromFormat("<method '%U' of 'torch._C.TensorBase' objects>", f->name)
                      : PyUnicode_FromFormat("<built-in method %U of type object>", f->name);
}
PyObject* function_name(PyObject* self, void*) { return Py_NewRef(reinterpret_cast<OpFunction*>(self)->name); }
PyObject* function_qualname(PyObject* self, void*) {
  OpFunction* f = reinterpret_cast<OpFunction*>(self);
  return f->is_method ? PyUnicode_FromFormat("TensorBase.%U", f->name) : Py_NewRef(f->name);
}
PyObject* function_module(PyObject* self, void*) {
  OpFunction* f = reinterpret_cast<OpFunction*>(self);
  if (!f->module) return none();
  // The library may have got its name after this function was made.
  return guarded([&] {
    const std::string module = from_python_string(f->module);
    return to_python_string(display_name() + module.substr(std::min(module.size(), module.find('.')))).release();
  });
}
// Whether `out` is the out= form of `plan`: the same arguments, and the results'.
bool has_out_form(const ParsePlan& plan, const ParsePlan& out) {
  const auto &a = plan.schema().arguments, &b = out.schema().arguments;
  if (b.size() != a.size() + static_cast<size_t>(out.num_outs())) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (std::ranges::none_of(b, [&](const SchemaArgument& x) { return x.name == a[i].name; })) return false;
  return true;
}
// The name under which users find it: linalg.det for linalg_det of the module _C._linalg.
std::string shown_name(OpFunction* f) {
  const std::string name = PyUnicode_AsUTF8(f->name), module = f->module ? from_python_string(f->module) : "";
  const size_t dot = module.rfind("._");
  if (dot == std::string::npos) return name;
  const std::string area = module.substr(dot + 2);
  return name.starts_with(area + "_") ? str_cat(area, ".", name.substr(area.size() + 1)) : name;
}
PyObject* function_doc(PyObject* self, void*) {
  return guarded([&] {
    OpFunction* f = reinterpret_cast<OpFunction*>(self);
    std::string doc;
    for (auto& o : *f->overloads) {
      if (o->info().op->flags & kIsOut) continue;
      const std::string& name = o->plan().schema().name;
      const bool has_out = !f->is_method && std::ranges::any_of(*f->overloads, [&](auto& other) {
        return (other->info().op->flags & kIsOut) && other->plan().schema().name == name &&
               has_out_form(o->plan(), other->plan());
      });
      doc += (doc.empty() ? "" : "\n") + shown_name(f) + o->plan().python_signature(f->is_method, has_out);
    }
    for (auto& o : *f->overloads)
      if (o->info().doc() && o->info().doc()[0]) {
        doc += std::string("\n\n") + o->info().doc();
        break;
      }
    return to_python_string(doc).release();
  });
}
PyObject* function_overloads(PyObject* self, void*) {  // the qualified names of what this callable may call
  return guarded([&] {
    Ref l = Ref::steal(check(PyList_New(0)));
    for (auto& o : *reinterpret_cast<OpFunction*>(self)->overloads)
      check(PyList_Append(l.get(), to_python_string(o->plan().schema().qualified_name()).get()));
    return l.release();
  });
}
PyObject* function_result_types(PyObject* self, void*) {
  return guarded([&] {
    for (auto& o : *reinterpret_cast<OpFunction*>(self)->overloads) o->result_type();
    return none();
  });
}
PyObject* function_self(PyObject*, void*) { return none(); }
PyObject* function_reduce(PyObject* self, PyObject*) {
  // Pickled by name: getattr(module or Tensor, name).
  return guarded([&] {
    OpFunction* f = reinterpret_cast<OpFunction*>(self);
    Ref builtins = Ref::steal(check(PyImport_ImportModule("builtins")));
    Ref getattr = Ref::steal(check(PyObject_GetAttrString(builtins.get(), "getattr")));
    Ref owner;
    if (f->is_method) {
      owner = Ref::borrow(reinterpret_cast<PyObject*>(TensorType));
    } else {
      return Py_NewRef(f->name);  // a global of __module__
    }
    return Py_BuildValue("O(OO)", getattr.get(), owner.get(), f->name);
  });
}
PyObject* bind_method(PyObject* self, PyObject* object, PyObject*) {
  return object ? PyMethod_New(self, object) : Py_NewRef(self);
}

PyGetSetDef g_function_getset[] = {
    {"__name__", function_name, nullptr, nullptr, nullptr},
    {"__qualname__", function_qualname, nullptr, nullptr, nullptr},
    {"__module__", function_module, nullptr, nullptr, nullptr},
    {"__doc__", function_doc, nullptr, nullptr, nullptr},
    {"__self__", function_self, nullptr, nullptr, nullptr},
    {"_overloads", function_overloads, nullptr, "Qualified names of the overloads, in the order they are tried.",
     nullptr},
    {"_result_types", function_result_types, nullptr, "None; makes the named tuples that it returns.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_function_methods[] = {{"__reduce__", function_reduce, METH_NOARGS, nullptr},
                                    {nullptr, nullptr, 0, nullptr}};

void prepare(PyTypeObject& t, const char* name, bool method) {
  t.tp_name = name;
  t.tp_basicsize = sizeof(OpFunction);
  t.tp_dealloc = function_dealloc;
  t.tp_vectorcall_offset = offsetof(OpFunction, vectorcall);
  t.tp_dictoffset = offsetof(OpFunction, dict);
  t.tp_call = PyVectorcall_Call;
  t.tp_repr = function_repr;
  t.tp_getset = g_function_getset;
  t.tp_methods = g_function_methods;
  t.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | (method ? Py_TPFLAGS_METHOD_DESCRIPTOR : 0);
  if (method) t.tp_descr_get = bind_method;
  check(PyType_Ready(&t));
}

PyObject* g_return_types = nullptr;

}  // namespace

PyTypeObject OpFunctionType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject OpMethodType = {PyVarObject_HEAD_INIT(nullptr, 0)};

namespace {
// torch.return_types.max(
// values=tensor([2]),
// indices=tensor([1]))
PyObject* return_type_repr(PyObject* self) {
  return guarded([&] {
    Ref fields =
        Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__match_args__")));
    std::string text = std::string(Py_TYPE(self)->tp_name) + "(";
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      Ref value = Ref::steal(check(PyObject_Repr(PyTuple_GET_ITEM(self, i))));
      text += std::string(i ? ",\n" : "\n") + from_python_string(PyTuple_GET_ITEM(fields.get(), i)) + "=" +
              from_python_string(value.get());
    }
    return to_python_string(text + ")").release();
  });
}
}  // namespace

bool is_result_type(PyTypeObject* type) { return type->tp_repr == return_type_repr; }

PyTypeObject* Overload::result_type() {
  const auto& returns = plan().schema().returns;
  if (result_type_ || returns.size() < 2 || returns[0].name.empty()) return result_type_;
  // Overloads of one callable share a type, and its out= forms another one.
  std::string base(plan().schema().base_name());
  const auto& arguments = plan().schema().arguments;
  if (!arguments.empty() && arguments.back().kwarg_only && arguments.back().is_write()) base += "_out";
  if (Ref known = Ref::steal(PyObject_GetAttrString(g_return_types, base.c_str())))
    return result_type_ = reinterpret_cast<PyTypeObject*>(known.release());
  PyErr_Clear();
  auto* names = new std::vector<std::string>;  // live as long as the type: for ever
  auto* fields = new std::vector<PyStructSequence_Field>;
  for (const auto& r : returns) names->push_back(r.name);
  for (const auto& n : *names) fields->push_back({n.c_str(), nullptr});
  fields->push_back({nullptr, nullptr});
  auto* full = new std::string(std::string(display_name()) + ".return_types." + base);
  PyStructSequence_Desc desc = {full->c_str(), nullptr, fields->data(), static_cast<int>(names->size())};
  result_type_ = PyStructSequence_NewType(&desc);
  if (!result_type_) throw ErrorAlreadySet();
  result_type_->tp_repr = return_type_repr;
  Ref module_name = to_python_string(std::string(display_name()) + ".return_types");
  check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(result_type_), "__module__", module_name.get()));
  check(PyObject_SetAttrString(g_return_types, base.c_str(), reinterpret_cast<PyObject*>(result_type_)));
  return result_type_;
}

PyObject* results_to_python(Overload& overload, Value* rets, size_t count) {
  if (count == 0) return none();
  auto one = [](Value& v) -> PyObject* {
    if (v.is_tensor()) return wrap_or_none(v.take_tensor());
    if (v.is_tensor_list()) {
      TensorList l = v.tensor_list();
      Ref t = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(l.size()))));
      for (size_t i = 0; i < l.size(); ++i) PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), wrap_or_none(l[i]));
      return t.release();
    }
    return to_python(v);
  };
  if (count == 1) return one(rets[0]);
  PyTypeObject* named = overload.result_type();
  Ref t = Ref::steal(check(named ? PyStructSequence_New(named) : PyTuple_New(static_cast<Py_ssize_t>(count))));
  for (size_t i = 0; i < count; ++i) {
    PyObject* o = one(rets[i]);
    if (named)
      PyStructSequence_SetItem(t.get(), static_cast<Py_ssize_t>(i), o);
    else
      PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), o);
  }
  return t.release();
}

PyObject* call_overload(Overload& overload, Value* values, bool requires_grad) {
  const ParsePlan& plan = overload.plan();
  const OpInfo& info = overload.info();
  const size_t count = plan.num_returns();
  ValueArray rets(count);
  called_operator = info.op;
  {
    GilRelease unlocked(is_large(plan, values));
    info.adapter->call(*info.op, nullptr, values, rets.data());
  }
  if (requires_grad && count == 1 && rets[0].is_tensor()) rets[0].tensor().requires_grad_(true);
  return results_to_python(overload, rets.data(), count);
}

PyObject* make_op_function(const char* name, const char* module, bool is_method, std::vector<const OpInfo*> overloads) {
  PyTypeObject* type = is_method ? &OpMethodType : &OpFunctionType;
  OpFunction* f = reinterpret_cast<OpFunction*>(check(type->tp_alloc(type, 0)));
  f->vectorcall = call_function;
  f->name = check(PyUnicode_InternFromString(name));
  f->module = module ? to_python_string(module).release() : nullptr;
  f->is_method = is_method;
  f->ordered = overloads.size() < 2;
  f->dict = nullptr;
  f->overloads = new std::vector<std::unique_ptr<Overload>>;
  for (const OpInfo* o : overloads) f->overloads->push_back(std::make_unique<Overload>(o));
  return reinterpret_cast<PyObject*>(f);
}

const std::vector<const OpInfo*>& all_ops() {
  static const auto* list = [] {
    auto* l = new std::vector<const OpInfo*>;
    for (const OpInfo* i : all_registered_ops()) l->push_back(i);
    return l;
  }();
  return *list;
}

const OpInfo* find_op(std::string_view qualified_name) {
  static const auto* index = [] {
    auto* m = new std::unordered_map<std::string, const OpInfo*>;
    for (const OpInfo* i : all_ops())
      (*m)[i->op->overload[0] ? std::string(i->op->name) + "." + i->op->overload : std::string(i->op->name)] = i;
    return m;
  }();
  auto it = index->find(std::string(qualified_name));
  return it == index->end() ? nullptr : it->second;
}

namespace {

bool has_own(PyTypeObject* type, const std::string& name) {
  return PyDict_GetItemString(type->tp_dict, name.c_str()) != nullptr;
}

// __and__ and the like: on the type these names are wrappers of its slots, so the slots find the operators here.
PyObject* slot_methods() {
  static constinit MadeOnce dict;
  return dict.get([] { return Ref::steal(check(PyDict_New())); });
}

struct Group {
  std::vector<const OpInfo*> function, method;
};

PyObject* submodule(PyObject* module, const std::string& name) {
  if (name.empty()) return module;
  const std::string attr = "_" + name;
  if (Ref known = Ref::steal(PyObject_GetAttrString(module, attr.c_str()))) return known.get();
  PyErr_Clear();
  Ref full = to_python_string(std::string(PyModule_GetName(module)) + "." + attr);
  Ref m = Ref::steal(check(PyModule_NewObject(full.get())));
  check(PyModule_AddObjectRef(module, attr.c_str(), m.get()));
  check(PyDict_SetItem(PyImport_GetModuleDict(), full.get(), m.get()));
  return m.get();
}

}  // namespace

void init_operators(PyObject* module) {
  prepare(OpFunctionType, "builtin_function_or_method", false);
  prepare(OpMethodType, "method_descriptor", true);
  Ref rt_name = to_python_string(std::string(PyModule_GetName(module)) + "._return_types");
  g_return_types = check(PyModule_NewObject(rt_name.get()));
  check(PyModule_AddObjectRef(module, "_return_types", g_return_types));
  // By (module, name); tables list the overloads in the order they are to be tried.
  std::unordered_map<std::string, Group> groups;
  std::vector<std::string> order;
  for (const OpInfo* i : all_ops()) {
    if (!i->python_name() || !i->python_name()[0] || !i->variants) continue;
    const std::string key = std::string(i->python_module()) + "/" + i->python_name();
    auto [it, fresh] = groups.try_emplace(key);
    if (fresh) order.push_back(key);
    if (i->variants & kFunction) it->second.function.push_back(i);
    if (i->variants & kMethod) it->second.method.push_back(i);
  }
  PyObject* functions = submodule(module, "VariableFunctions");
  for (const std::string& key : order) {
    const size_t slash = key.find('/');
    const std::string where = key.substr(0, slash), name = key.substr(slash + 1);
    Group& g = groups[key];
    if (!g.function.empty()) {
      const std::string shown =
          where.empty() ? std::string(display_name()) : std::string(display_name()) + "._C._" + where;
      Ref f = Ref::steal(make_op_function(name.c_str(), shown.c_str(), false, g.function));
      check(PyModule_AddObjectRef(where.empty() ? functions : submodule(module, where), name.c_str(), f.get()));
      if (where.empty()) check(PyModule_AddObjectRef(module, name.c_str(), f.get()));
    }
    if (!g.method.empty()) {
      Ref f = Ref::steal(make_op_function(name.c_str(), nullptr, true, g.method));
      if (name.starts_with("__")) check(PyDict_SetItemString(slot_methods(), name.c_str(), f.get()));
      // A method written by hand wins, and so do the type's own wrappers of its slots.
      if (!has_own(TensorType, name))
        check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(TensorType), name.c_str(), f.get()));
    }
  }
}

// --- number slots ---

namespace {

// The callable of a method, looked up once.
PyObject* method_of(PyObject*& cache, const char* name) {
  if (!cache) cache = Py_XNewRef(PyDict_GetItemString(slot_methods(), name));
  if (!cache) cache = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), name));
  return cache;
}
// What overrides comes first: a symbolic number is asked for its number otherwise.
bool is_operand(PyObject* o) {
  return is_tensor(o) || PyLong_Check(o) || PyFloat_Check(o) || overrides_torch_function(o) || is_python_number(o);
}

template <size_t N>
struct Name {
  char text[N];
  constexpr Name(const char (&s)[N]) {
    for (size_t i = 0; i < N; ++i) text[i] = s[i];
  }
};

// A method that Python code has replaced is called as any object.
PyObject* call_any(PyObject* f, PyObject* const* args, size_t n) {
  return Py_TYPE(f) == &OpMethodType ? call_function(f, args, n, nullptr) : PyObject_Vectorcall(f, args, n, nullptr);
}
PyObject* call2(PyObject* f, PyObject* a, PyObject* b) {
  PyObject* args[] = {a, b};
  return call_any(f, args, 2);
}

// a op b. A non-tensor left operand takes the reflected method.
template <Name M, Name Reflected>
PyObject* binary(PyObject* a, PyObject* b) {
  static PyObject *direct = nullptr, *reflected = nullptr;
  return guarded([&]() -> PyObject* {
    const bool left = is_tensor(a);
    PyObject* other = left ? b : a;
    if (!is_operand(other)) return Py_NewRef(Py_NotImplemented);
    return left ? call2(method_of(direct, M.text), a, b) : call2(method_of(reflected, Reflected.text), b, a);
  });
}
template <Name M>
PyObject* unary(PyObject* a) {
  static PyObject* direct = nullptr;
  return guarded([&] {
    PyObject* args[] = {a};
    return call_any(method_of(direct, M.text), args, 1);
  });
}
template <Name M>
PyObject* inplace(PyObject* a, PyObject* b) {
  static PyObject* direct = nullptr;
  return guarded([&]() -> PyObject* {
    if (!is_operand(b)) return Py_NewRef(Py_NotImplemented);
    return call2(method_of(direct, M.text), a, b);
  });
}
template <Name M, Name Reflected>
PyObject* power(PyObject* a, PyObject* b, PyObject*) {
  return binary<M, Reflected>(a, b);
}
PyObject* inplace_power(PyObject* a, PyObject* b, PyObject*) { return inplace<"pow_">(a, b); }

PyObject* rich_compare(PyObject* a, PyObject* b, int op) {
  static PyObject* cache[6] = {};
  static const char* const names[6] = {"lt", "le", "eq", "ne", "gt", "ge"};
  return guarded([&]() -> PyObject* {
    if (op == Py_EQ && is_ndarray(b)) {
      Ref other;
      try {
        other = Ref::steal(wrap(tensor_from_ndarray(b, true)));
      } catch (const TypeError&) {  // strings, objects ...
        return Py_NewRef(Py_NotImplemented);
      }
      return call2(method_of(cache[op], names[op]), a, other.get());
    }
    if (!is_operand(b)) return Py_NewRef(Py_NotImplemented);
    return call2(method_of(cache[op], names[op]), a, b);
  });
}

int truth(PyObject* self) {
  static PyObject* f = nullptr;
  int r = -1;
  guarded_int([&] {
    static PyObject* slot = nullptr;
    if (Ref other = overridden_slot(slot, "__bool__", self)) {
      r = PyObject_IsTrue(other.get());
      if (r < 0) throw ErrorAlreadySet();
      return;
    }
    const Tensor& t = unwrap(self);
    warn_if_traced("value", "a Python boolean");
    const bool plain = t.numel() == 1 && t.is_cpu() && t.layout() == Layout::kStrided;
    if (is_exact_tensor(self) && plain && !modes_see_values()) {
      r = t.item_scalar().to_bool();
      return;
    }
    if (t.numel() == 0) throw Error("Boolean value of Tensor with no values is ambiguous");
    if (t.numel() > 1) throw Error("Boolean value of Tensor with more than one value is ambiguous");
    PyObject* args[] = {self};
    Ref item = Ref::steal(check(call_any(method_of(f, "item"), args, 1)));
    r = PyObject_IsTrue(item.get());
  });
  return r;
}

Scalar item_of(PyObject* self, const char* what) {
  const Tensor& t = unwrap(self);
  TESSERA_CHECK_VALUE(t.numel() == 1, "only one element tensors can be converted to Python scalars");
  const Scalar s = value_of(t);
  if (s.is_complex() && s.to_complex().imag() != 0)
    throw Error(str_cat("value cannot be converted to type ", what, " without overflow"));
  return s;
}
// item() of a tensor whose elements lie in members; null for others.
Ref item_of_members(PyObject* self) {
  static PyObject* f = nullptr;
  PyObject* args[] = {self};
  const bool strided = unwrap(self).layout() == Layout::kStrided;
  return strided ? Ref() : Ref::steal(check(call_any(method_of(f, "item"), args, 1)));
}
PyObject* to_long(PyObject* self) {
  return guarded([&]() -> PyObject* {
    static PyObject* slot = nullptr;
    if (Ref other = overridden_slot(slot, "__int__", self)) return other.release();
    if (Ref item = item_of_members(self); item.get()) return PyNumber_Long(item.get());
    warn_if_traced("value", "a Python integer");
    const Scalar s = item_of(self, "int64_t");
    if (s.is_floating_point() || s.is_complex()) return PyLong_FromDouble(s.to_double());
    return s.kind() == Scalar::Kind::kUInt ? PyLong_FromUnsignedLongLong(static_cast<uint64_t>(s.to_int()))
                                           : PyLong_FromLongLong(s.to_int());
  });
}
PyObject* to_float(PyObject* self) {
  return guarded([&]() -> PyObject* {
    static PyObject* slot = nullptr;
    if (Ref other = overridden_slot(slot, "__float__", self)) return other.release();
    if (Ref item = item_of_members(self); item.get()) return PyNumber_Float(item.get());
    warn_if_traced("value", "a Python float");
    return PyFloat_FromDouble(item_of(self, "double").to_double());
  });
}
PyObject* to_index(PyObject* self) {
  return guarded([&]() -> PyObject* {
    static PyObject* slot = nullptr;
    if (Ref other = overridden_slot(slot, "__index__", self)) return other.release();
    const Tensor& t = unwrap(self);
    if (t.numel() != 1 || !is_integral(t.dtype(), true))
      throw TypeError("only integer tensors of a single element can be converted to an index");
    return PyLong_FromLongLong(value_of(t).to_int());
  });
}

Py_hash_t identity_hash(PyObject* self) { return hash_of_address(self); }

template <class F>
void add(std::vector<PyType_Slot>& slots, int id, F f) {
  slots.push_back({id, reinterpret_cast<void*>(f)});
}

}  // namespace

void add_number_slots(std::vector<PyType_Slot>& slots) {
  add(slots, Py_nb_add, binary<"add", "add">);
  add(slots, Py_nb_subtract, binary<"sub", "__rsub__">);
  add(slots, Py_nb_multiply, binary<"mul", "mul">);
  add(slots, Py_nb_true_divide, binary<"div", "__rdiv__">);
  add(slots, Py_nb_floor_divide, binary<"__floordiv__", "__rfloordiv__">);
  add(slots, Py_nb_remainder, binary<"remainder", "__rmod__">);
  add(slots, Py_nb_power, power<"pow", "__rpow__">);
  add(slots, Py_nb_matrix_multiply, binary<"matmul", "__rmatmul__">);
  add(slots, Py_nb_and, binary<"__and__", "__rand__">);
  add(slots, Py_nb_or, binary<"__or__", "__ror__">);
  add(slots, Py_nb_xor, binary<"__xor__", "__rxor__">);
  add(slots, Py_nb_lshift, binary<"__lshift__", "__rlshift__">);
  add(slots, Py_nb_rshift, binary<"__rshift__", "__rrshift__">);
  add(slots, Py_nb_negative, unary<"neg">);
  add(slots, Py_nb_positive, unary<"positive">);
  add(slots, Py_nb_absolute, unary<"abs">);
  add(slots, Py_nb_invert, unary<"bitwise_not">);
  add(slots, Py_nb_inplace_add, inplace<"add_">);
  add(slots, Py_nb_inplace_subtract, inplace<"sub_">);
  add(slots, Py_nb_inplace_multiply, inplace<"mul_">);
  add(slots, Py_nb_inplace_true_divide, inplace<"div_">);
  add(slots, Py_nb_inplace_floor_divide, inplace<"floor_divide_">);
  add(slots, Py_nb_inplace_remainder, inplace<"remainder_">);
  add(slots, Py_nb_inplace_power, inplace_power);
  add(slots, Py_nb_inplace_and, inplace<"__iand__">);
  add(slots, Py_nb_inplace_or, inplace<"__ior__">);
  add(slots, Py_nb_inplace_xor, inplace<"__ixor__">);
  add(slots, Py_nb_inplace_lshift, inplace<"__ilshift__">);
  add(slots, Py_nb_inplace_rshift, inplace<"__irshift__">);
  add(slots, Py_nb_bool, truth);
  add(slots, Py_nb_int, to_long);
  add(slots, Py_nb_float, to_float);
  add(slots, Py_nb_index, to_index);
  add(slots, Py_tp_richcompare, rich_compare);
  add(slots, Py_tp_hash, identity_hash);
}

}  // namespace tessera::python
