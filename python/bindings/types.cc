#include "python/bindings/types.h"

#include <cfloat>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "python/bindings/calls.h"
#include "python/bindings/jit/traced.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/tensor_type.h"
#include "tensor/core/device_hooks.h"
#include "tensor/core/generator/philox.h"
#include "tensor/core/visit.h"

namespace tessera::python {

namespace {
std::string& name_storage() {
  static std::string s = "tessera";
  return s;
}

struct PyDType {
  PyObject_HEAD DType value;
};
struct PyDevice {
  PyObject_HEAD Device value;
};
struct PyLayout {
  PyObject_HEAD Layout value;
};
struct PyMemoryFormat {
  PyObject_HEAD MemoryFormat value;
};
struct PyGenerator {
  PyObject_HEAD PyObject* dict;
  PyObject* weakrefs;
  Generator value;
};

PyObject* g_dtypes[kNumDTypes];
PyObject* g_layouts[8];
PyObject* g_formats[4];

template <class T>
T* as(PyObject* o) {
  return reinterpret_cast<T*>(o);
}

void plain_dealloc(PyObject* o) { Py_TYPE(o)->tp_free(o); }

// --- dtype ---
std::string dtype_text(PyObject* o) { return std::string(display_name()) + "." + name_of(as<PyDType>(o)->value); }
PyObject* dtype_repr(PyObject* o) { return to_python_string(dtype_text(o)).release(); }
PyObject* dtype_is_floating_point(PyObject* o, void*) { return to_python(is_floating_point(as<PyDType>(o)->value)); }
PyObject* dtype_is_complex(PyObject* o, void*) { return to_python(is_complex(as<PyDType>(o)->value)); }
PyObject* dtype_is_signed(PyObject* o, void*) { return to_python(dtype_info(as<PyDType>(o)->value).is_signed); }
PyObject* dtype_itemsize(PyObject* o, void*) { return PyLong_FromLongLong(item_size(as<PyDType>(o)->value)); }
PyObject* dtype_to_real(PyObject* o, PyObject*) {
  return guarded([&] { return wrap(to_real(as<PyDType>(o)->value)); });
}
PyObject* dtype_to_complex(PyObject* o, PyObject*) {
  return guarded([&] { return wrap(to_complex(as<PyDType>(o)->value)); });
}
PyObject* dtype_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(name_of(as<PyDType>(o)->value)); }
PyObject* dtype_module(PyObject*, void*) { return PyUnicode_FromString(display_name()); }
PyGetSetDef g_dtype_getset[] = {{"is_floating_point", dtype_is_floating_point, nullptr,
                                 "True for float16, bfloat16, float32, float64 and the 8-bit floats.", nullptr},
                                {"is_complex", dtype_is_complex, nullptr, nullptr, nullptr},
                                {"is_signed", dtype_is_signed, nullptr, nullptr, nullptr},
                                {"itemsize", dtype_itemsize, nullptr, "Bytes of one element.", nullptr},
                                {"__module__", dtype_module, nullptr, nullptr, nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_dtype_methods[] = {
    {"to_real", dtype_to_real, METH_NOARGS, "The dtype of the real part."},
    {"to_complex", dtype_to_complex, METH_NOARGS, "The complex dtype with this one as its parts."},
    {"__reduce__", dtype_reduce, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

// --- device ---
PyObject* device_repr(PyObject* o) {
  const Device d = as<PyDevice>(o)->value;
  std::string s = std::string("device(type='") + device_type_name(d.type) + "'";
  if (d.has_index()) s += ", index=" + std::to_string(d.index);
  return to_python_string(s + ")").release();
}
PyObject* device_str(PyObject* o) { return to_python_string(as<PyDevice>(o)->value.str()).release(); }
PyObject* device_type(PyObject* o, void*) {
  return PyUnicode_InternFromString(device_type_name(as<PyDevice>(o)->value.type));
}
PyObject* device_index(PyObject* o, void*) {
  const Device d = as<PyDevice>(o)->value;
  return d.has_index() ? PyLong_FromLong(d.index) : none();
}
Py_hash_t device_hash(PyObject* o) {
  return static_cast<Py_hash_t>(as<PyDevice>(o)->value.type) * 1000003 + as<PyDevice>(o)->value.index + 1000;
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_device(b)) return Py_NewRef(Py_NotImplemented);
  return to_python((as<PyDevice>(a)->value == as<PyDevice>(b)->value) == (op == Py_EQ));
}
PyObject* device_reduce(PyObject* o, PyObject*) {
  const Device d = as<PyDevice>(o)->value;
  return d.has_index() ? Py_BuildValue("O(si)", Py_TYPE(o), device_type_name(d.type), static_cast<int>(d.index))
                       : Py_BuildValue("O(s)", Py_TYPE(o), device_type_name(d.type));
}
PyObject* device_new(PyTypeObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"type", "index", nullptr};
    PyObject *type = nullptr, *index = nullptr;
    if (kwargs && PyDict_GetItemString(kwargs, "device") && PyTuple_GET_SIZE(args) == 0 && PyDict_Size(kwargs) == 1)
      type = PyDict_GetItemString(kwargs, "device");
    else if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|O:device", const_cast<char**>(names), &type, &index))
      return nullptr;
    if (!is_device_like(type))
      throw TypeError(
          str_cat("device(): argument 'type' must be str, int or torch.device, not ", Py_TYPE(type)->tp_name));
    Device d = to_device(type);
    if (index && index != Py_None) {
      const long i = PyLong_AsLong(index);
      if (i == -1 && PyErr_Occurred()) return nullptr;
      TESSERA_CHECK(!d.has_index() || is_device(type),
                    "type (string) must not include an index because index was passed explicitly: ", d.str());
      TESSERA_CHECK(i >= 0 && i < 128, "Device index must be non-negative and below 128, got ", i);
      d.index = static_cast<int8_t>(i);
    }
    return wrap(d);
  });
}
// `with torch.device(...)`: the mode on the Python side.
PyObject* device_mode(const char* function, PyObject* self, PyObject* args) {
  Ref module = Ref::steal(PyImport_ImportModule("tessera.utils._device"));
  if (!module) return nullptr;
  Ref f = Ref::steal(PyObject_GetAttrString(module.get(), function));
  if (!f) return nullptr;
  return args ? PyObject_CallFunction(f.get(), "OO", self, args) : PyObject_CallFunctionObjArgs(f.get(), self, nullptr);
}
PyObject* device_enter(PyObject* self, PyObject*) { return device_mode("enter_device", self, nullptr); }
PyObject* device_exit(PyObject* self, PyObject* args) { return device_mode("exit_device", self, args); }
PyObject* device_call(PyObject* self, PyObject* args, PyObject*) {
  PyObject* f;
  if (!PyArg_ParseTuple(args, "O", &f)) return nullptr;
  return device_mode("decorate_device", self, f);
}
PyGetSetDef g_device_getset[] = {{"type", device_type, nullptr, "\"cpu\", \"cuda\", \"meta\" ...", nullptr},
                                 {"index", device_index, nullptr, "Which one, or None for the current one.", nullptr},
                                 {"__module__", dtype_module, nullptr, nullptr, nullptr},
                                 {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_device_methods[] = {{"__reduce__", device_reduce, METH_NOARGS, nullptr},
                                  {"__enter__", device_enter, METH_NOARGS, nullptr},
                                  {"__exit__", device_exit, METH_VARARGS, nullptr},
                                  {nullptr, nullptr, 0, nullptr}};

// --- layout, memory_format ---
PyObject* layout_repr(PyObject* o) {
  return to_python_string(std::string(display_name()) + "." + layout_name(as<PyLayout>(o)->value)).release();
}
PyObject* format_repr(PyObject* o) {
  return to_python_string(std::string(display_name()) + "." + memory_format_name(as<PyMemoryFormat>(o)->value))
      .release();
}
PyObject* layout_reduce(PyObject* o, PyObject*) { return PyUnicode_FromString(layout_name(as<PyLayout>(o)->value)); }
PyObject* format_reduce(PyObject* o, PyObject*) {
  return PyUnicode_FromString(memory_format_name(as<PyMemoryFormat>(o)->value));
}
PyGetSetDef g_named_getset[] = {{"__module__", dtype_module, nullptr, nullptr, nullptr},
                                {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_layout_methods[] = {{"__reduce__", layout_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};
PyMethodDef g_format_methods[] = {{"__reduce__", format_reduce, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

// --- Size ---
PyObject* as_size(PyObject* tuple) {
  if (!tuple) return nullptr;
  Ref t = Ref::steal(tuple);
  return PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(SizeType), t.get(), nullptr);
}
// A ragged size: a symbol that is no number.
bool is_symbol(PyObject* e) { return PyObject_HasAttrString(e, "nested_int_coeff"); }
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Ref self = Ref::steal(PyTuple_Type.tp_new(type, args, kwargs));
  if (!self) return nullptr;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.get()); ++i) {
    PyObject* e = PyTuple_GET_ITEM(self.get(), i);
    if (PyLong_Check(e) || is_symbolic_number(e) || is_symbol(e) || (is_tensor(e) && jit::current_trace())) continue;
    Ref index = Ref::steal(PyIndex_Check(e) ? PyNumber_Index(e) : nullptr);
    if (!index) {
      PyErr_Format(PyExc_TypeError, "torch.Size() takes an iterable of 'int' (item %zd is '%s')", i,
                   Py_TYPE(e)->tp_name);
      return nullptr;
    }
    Py_DECREF(e);
    PyTuple_SET_ITEM(self.get(), i, index.release());
  }
  return self.release();
}
PyObject* size_repr(PyObject* o) {
  std::string s = std::string(display_name()) + ".Size([";
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(o); ++i) {
    Ref shown = Ref::steal(PyObject_Str(PyTuple_GET_ITEM(o, i)));
    if (!shown) return nullptr;
    s += (i ? ", " : "") + from_python_string(shown.get());
  }
  return to_python_string(s + "])").release();
}
PyObject* size_concat(PyObject* a, PyObject* b) {
  if (!PyTuple_Check(a) || !PyTuple_Check(b)) return Py_NewRef(Py_NotImplemented);
  return as_size(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repeat(PyObject* a, Py_ssize_t n) { return as_size(PyTuple_Type.tp_as_sequence->sq_repeat(a, n)); }
PyObject* size_multiply(PyObject* a, PyObject* b) {
  PyObject* size = PyTuple_Check(a) ? a : b;
  PyObject* count = size == a ? b : a;
  if (!PyIndex_Check(count) || PyTuple_Check(count)) return Py_NewRef(Py_NotImplemented);
  const Py_ssize_t n = PyNumber_AsSsize_t(count, PyExc_OverflowError);
  if (n == -1 && PyErr_Occurred()) return nullptr;
  return size_repeat(size, n);
}
PyObject* size_subscript(PyObject* a, PyObject* key) {
  PyObject* r = PyTuple_Type.tp_as_mapping->mp_subscript(a, key);
  return PySlice_Check(key) ? as_size(r) : r;
}
PyObject* size_numel(PyObject* o, PyObject*) {
  Ref n = Ref::steal(PyLong_FromLong(1));
  for (Py_ssize_t i = 0; n && i < PyTuple_GET_SIZE(o); ++i)
    n = Ref::steal(PyNumber_Multiply(n.get(), PyTuple_GET_ITEM(o, i)));
  return n.release();
}
PyObject* size_reduce(PyObject* o, PyObject*) {
  Ref plain = Ref::steal(PyTuple_GetSlice(o, 0, PyTuple_GET_SIZE(o)));
  return plain ? Py_BuildValue("O(O)", reinterpret_cast<PyObject*>(SizeType),
                               Ref::steal(PySequence_Tuple(Ref::steal(PySequence_List(o)).get())).get())
               : nullptr;
}
PyMethodDef g_size_methods[] = {{"numel", size_numel, METH_NOARGS, "Number of elements of a tensor of this size."},
                                {"__reduce__", size_reduce, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};
std::string g_size_name;

// --- Generator ---
PyObject* generator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    static const char* const names[] = {"device", nullptr};
    PyObject* device = nullptr;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O:Generator", const_cast<char**>(names), &device)) return nullptr;
    const Device d = device && device != Py_None ? to_device(device) : Device();
    TESSERA_CHECK(d.is_cpu() || d.is_cuda(), "Device type ", device_type_name(d.type),
                  " is not supported for torch.Generator() api.");
    auto* o = as<PyGenerator>(check(type->tp_alloc(type, 0)));
    new (&o->value) Generator(d.is_cpu() ? make_cpu_generator()
                                         : Generator(make_intrusive<PhiloxGeneratorImpl>(complete_device(d))));
    return reinterpret_cast<PyObject*>(o);
  });
}
void generator_dealloc(PyObject* o) {
  if (as<PyGenerator>(o)->weakrefs) PyObject_ClearWeakRefs(o);
  Py_CLEAR(as<PyGenerator>(o)->dict);
  as<PyGenerator>(o)->value.~Generator();
  Py_TYPE(o)->tp_free(o);
}
uint64_t seed_of(PyObject* o) {
  Ref i = Ref::steal(PyNumber_Index(o));
  if (!i) throw ErrorAlreadySet();
  const unsigned long long u = PyLong_AsUnsignedLongLong(i.get());
  if (!PyErr_Occurred()) return u;
  PyErr_Clear();
  const long long s = PyLong_AsLongLong(i.get());
  if (PyErr_Occurred()) {
    PyErr_Clear();
    throw ValueError(
        "Overflow when unpacking long long: a seed must lie in [-0x8000_0000_0000_0000, 0xffff_ffff_ffff_ffff]");
  }
  return static_cast<uint64_t>(s);
}
PyObject* generator_manual_seed(PyObject* o, PyObject* seed) {
  return guarded([&] {
    as<PyGenerator>(o)->value->manual_seed(seed_of(seed));
    return Py_NewRef(o);
  });
}
PyObject* generator_seed(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(as<PyGenerator>(o)->value->seed()); });
}
PyObject* generator_initial_seed(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(as<PyGenerator>(o)->value->initial_seed()); });
}
PyObject* generator_state_bytes(PyObject* o, PyObject*) {
  return guarded([&] {
    const auto s = as<PyGenerator>(o)->value->get_state();
    return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(s.data()), static_cast<Py_ssize_t>(s.size()));
  });
}
PyObject* generator_set_state_bytes(PyObject* o, PyObject* bytes) {
  return guarded([&]() -> PyObject* {
    char* p;
    Py_ssize_t n;
    if (PyBytes_AsStringAndSize(bytes, &p, &n) < 0) return nullptr;
    as<PyGenerator>(o)->value->set_state({reinterpret_cast<const uint8_t*>(p), static_cast<size_t>(n)});
    return Py_NewRef(o);
  });
}
// The state as a uint8 tensor.
PyObject* generator_get_state(PyObject* o, PyObject*) {
  return guarded([&] {
    const auto s = as<PyGenerator>(o)->value->get_state();
    const int64_t n[] = {static_cast<int64_t>(s.size())};
    Tensor t = empty_kernel(n, DType::kUInt8);
    std::memcpy(t.data_ptr(), s.data(), s.size());
    return wrap(std::move(t));
  });
}
PyObject* generator_set_state(PyObject* o, PyObject* state) {
  return guarded([&] {
    if (!is_tensor(state))
      throw TypeError(str_cat("RNG state must be a torch.ByteTensor, but got ", Py_TYPE(state)->tp_name));
    const Tensor& t = unwrap(state);
    TESSERA_CHECK_TYPE(t.dtype() == DType::kUInt8 && t.is_cpu(), "RNG state must be a torch.ByteTensor, but got torch.",
                       type_name_of(t.dtype()), "Tensor");
    TESSERA_CHECK(t.is_contiguous(), "RNG state must be a contiguous tensor");
    as<PyGenerator>(o)->value->set_state({static_cast<const uint8_t*>(t.data_ptr()), static_cast<size_t>(t.numel())});
    return Py_NewRef(o);
  });
}
PyObject* generator_get_offset(PyObject* o, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(as<PyGenerator>(o)->value->get_offset()); });
}
PyObject* generator_set_offset(PyObject* o, PyObject* offset) {
  return guarded([&] {
    as<PyGenerator>(o)->value->set_offset(seed_of(offset));
    return Py_NewRef(o);
  });
}
// Pickled as (Generator, (device,), (seed, offset, state)).
PyObject* generator_reduce(PyObject* o, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref device = Ref::steal(wrap(as<PyGenerator>(o)->value->device())),
        state = Ref::steal(check(generator_get_state(o, nullptr)));
    Ref seed = Ref::steal(PyLong_FromUnsignedLongLong(as<PyGenerator>(o)->value->initial_seed()));
    return Py_BuildValue("O(O)(OOO)", Py_TYPE(o), device.get(), seed.get(), Py_None, state.get());
  });
}
PyObject* generator_setstate(PyObject* o, PyObject* state) {
  return guarded([&]() -> PyObject* {
    PyObject *seed, *offset, *bytes;
    if (!PyArg_ParseTuple(state, "OOO", &seed, &offset, &bytes)) return nullptr;
    as<PyGenerator>(o)->value->manual_seed(seed_of(seed));
    Ref done = Ref::steal(check(generator_set_state(o, bytes)));
    return none();
  });
}
PyObject* generator_clone(PyObject* o, PyObject*) {
  return guarded([&] { return wrap(Generator(as<PyGenerator>(o)->value->clone())); });
}
PyObject* generator_device(PyObject* o, void*) {
  return guarded([&] { return wrap(as<PyGenerator>(o)->value->device()); });
}
// The one argument of a method, which may go by its name; borrowed. nullptr, with an exception, where there is none.
PyObject* only_argument(const char* format, const char* name, PyObject* args, PyObject* kwargs) {
  const char* names[] = {name, nullptr};
  PyObject* value = nullptr;
  return PyArg_ParseTupleAndKeywords(args, kwargs, format, const_cast<char**>(names), &value) ? value : nullptr;
}
PyObject* generator_manual_seed_of(PyObject* o, PyObject* args, PyObject* kwargs) {
  PyObject* seed = only_argument("O:manual_seed", "seed", args, kwargs);
  return seed ? generator_manual_seed(o, seed) : nullptr;
}
PyObject* generator_set_state_of(PyObject* o, PyObject* args, PyObject* kwargs) {
  PyObject* state = only_argument("O:set_state", "new_state", args, kwargs);
  return state ? generator_set_state(o, state) : nullptr;
}
PyGetSetDef g_generator_getset[] = {{"device", generator_device, nullptr, nullptr, nullptr},
                                    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_generator_methods[] = {
    {"manual_seed", as_c_function(generator_manual_seed_of), METH_VARARGS | METH_KEYWORDS,
     "manual_seed($self, /, seed)\n--\n\nRestarts the stream from a seed; returns the generator."},
    {"seed", generator_seed, METH_NOARGS, "Seeds from the operating system; returns that seed."},
    {"initial_seed", generator_initial_seed, METH_NOARGS, nullptr},
    {"_get_state_bytes", generator_state_bytes, METH_NOARGS, nullptr},
    {"_set_state_bytes", generator_set_state_bytes, METH_O, nullptr},
    {"get_state", generator_get_state, METH_NOARGS, "The state as a uint8 tensor."},
    {"set_state", as_c_function(generator_set_state_of), METH_VARARGS | METH_KEYWORDS,
     "set_state($self, /, new_state)\n--\n\nTakes a state that get_state gave."},
    {"get_offset", generator_get_offset, METH_NOARGS, nullptr},
    {"set_offset", generator_set_offset, METH_O, nullptr},
    {"__reduce__", generator_reduce, METH_NOARGS, nullptr},
    {"__setstate__", generator_setstate, METH_O, nullptr},
    {"clone_state", generator_clone, METH_NOARGS, "An independent generator in the same state."},
    {nullptr, nullptr, 0, nullptr}};

template <class Impl>
void prepare(PyTypeObject& t, const char* name, reprfunc repr, PyGetSetDef* getset, PyMethodDef* methods) {
  t.tp_name = name;
  t.tp_basicsize = sizeof(Impl);
  t.tp_dealloc = t.tp_dealloc ? t.tp_dealloc : plain_dealloc;
  t.tp_repr = repr;
  t.tp_getset = getset;
  t.tp_methods = methods;
  t.tp_flags |= Py_TPFLAGS_DEFAULT;
  check(PyType_Ready(&t));
}

template <class Impl, class V>
PyObject* singleton(PyTypeObject& t, V v) {
  auto* o = PyObject_New(Impl, &t);
  if (!o) throw ErrorAlreadySet();
  o->value = v;
  return reinterpret_cast<PyObject*>(o);
}

}  // namespace

namespace {
struct NamedType {
  PyTypeObject* type;
  std::string name;
};
std::vector<NamedType>& named_types() {
  static auto* types = new std::vector<NamedType>;
  return *types;
}
void show_name(const NamedType& t) {
  const std::string full = name_storage() + "." + t.name;
  if (t.type->tp_flags & Py_TPFLAGS_HEAPTYPE)
    check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(t.type), "__module__",
                                 to_python_string(full.substr(0, full.rfind('.'))).get()));
  else
    t.type->tp_name = (new std::string(full))->c_str();  // CPython keeps the pointer
}
}  // namespace

const char* display_name() { return name_storage().c_str(); }
void set_display_name(const char* name) {
  name_storage() = name;
  for (const NamedType& t : named_types()) show_name(t);
}
void name_type(PyObject* type, const char* name) {
  named_types().push_back({reinterpret_cast<PyTypeObject*>(type), name});
  show_name(named_types().back());
}

PyTypeObject DTypeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject DeviceType_ = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject LayoutType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject MemoryFormatType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject GeneratorType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject* SizeType = nullptr;

PyObject* wrap(DType t) { return Py_NewRef(g_dtypes[static_cast<int>(t)]); }
PyObject* wrap(Layout l) { return Py_NewRef(g_layouts[static_cast<int>(l)]); }
PyObject* wrap(MemoryFormat f) { return Py_NewRef(g_formats[static_cast<int>(f)]); }
PyObject* wrap(Device d) { return singleton<PyDevice>(DeviceType_, d); }
PyObject* wrap(const Generator& g) {
  auto* o = as<PyGenerator>(check(GeneratorType.tp_alloc(&GeneratorType, 0)));
  new (&o->value) Generator(g);
  return reinterpret_cast<PyObject*>(o);
}
PyObject* wrap_size(IntList sizes) {
  PyObject* t = check(SizeType->tp_alloc(SizeType, static_cast<Py_ssize_t>(sizes.size())));
  for (size_t i = 0; i < sizes.size(); ++i)
    PyTuple_SET_ITEM(t, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(sizes[i]));
  return t;
}

DType unwrap_dtype(PyObject* o) { return as<PyDType>(o)->value; }
Layout unwrap_layout(PyObject* o) { return as<PyLayout>(o)->value; }
MemoryFormat unwrap_memory_format(PyObject* o) { return as<PyMemoryFormat>(o)->value; }
const Generator& unwrap_generator(PyObject* o) { return as<PyGenerator>(o)->value; }

bool is_device_like(PyObject* o) { return is_device(o) || PyUnicode_Check(o) || (PyLong_Check(o) && !PyBool_Check(o)); }
Device to_device(PyObject* o) {
  if (is_device(o)) return as<PyDevice>(o)->value;
  if (PyUnicode_Check(o)) return Device(from_python_string(o));
  if (PyLong_Check(o)) {
    const long i = PyLong_AsLong(o);
    TESSERA_CHECK(i >= 0 && i < 128, "Device index must be non-negative and below 128, got ", i);
    return Device(tessera::DeviceType::kCUDA, static_cast<int>(i));
  }
  throw TypeError(str_cat("expected a torch.device, a string or an int, not ", Py_TYPE(o)->tp_name));
}
bool to_dtype(PyObject* o, DType* out) {
  if (is_dtype(o)) {
    *out = unwrap_dtype(o);
    return true;
  }
  if (o == reinterpret_cast<PyObject*>(&PyFloat_Type)) {
    *out = DType::kFloat64;
    return true;
  }
  if (o == reinterpret_cast<PyObject*>(&PyLong_Type)) {
    *out = DType::kInt64;
    return true;
  }
  if (o == reinterpret_cast<PyObject*>(&PyBool_Type)) {
    *out = DType::kBool;
    return true;
  }
  if (o == reinterpret_cast<PyObject*>(&PyComplex_Type)) {
    *out = DType::kComplex128;
    return true;
  }
  return false;
}

namespace {
void init_dtypes(PyObject* module) {
  prepare<PyDType>(DTypeType, "torch.dtype", dtype_repr, g_dtype_getset, g_dtype_methods);
  PyModule_AddObjectRef(module, "dtype", reinterpret_cast<PyObject*>(&DTypeType));
  for (int i = 0; i < kNumDTypes; ++i) {
    const auto t = static_cast<DType>(i);
    g_dtypes[i] = singleton<PyDType>(DTypeType, t);
    PyModule_AddObjectRef(module, dtype_info(t).name, g_dtypes[i]);
    if (dtype_info(t).alias) PyModule_AddObjectRef(module, dtype_info(t).alias, g_dtypes[i]);
  }
}
void init_size(PyObject* module) {
  g_size_name = "torch.Size";
  PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(size_new)},
                         {Py_tp_repr, reinterpret_cast<void*>(size_repr)},
                         {Py_tp_methods, g_size_methods},
                         {Py_sq_concat, reinterpret_cast<void*>(size_concat)},
                         {Py_nb_add, reinterpret_cast<void*>(size_concat)},
                         {Py_sq_repeat, reinterpret_cast<void*>(size_repeat)},
                         {Py_nb_multiply, reinterpret_cast<void*>(size_multiply)},
                         {Py_mp_subscript, reinterpret_cast<void*>(size_subscript)},
                         {Py_tp_base, &PyTuple_Type},
                         {0, nullptr}};
  PyType_Spec spec = {g_size_name.c_str(), 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
  SizeType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  PyModule_AddObjectRef(module, "Size", reinterpret_cast<PyObject*>(SizeType));
}
}  // namespace

void init_types(PyObject* module) {
  init_dtypes(module);
  DeviceType_.tp_new = device_new;
  DeviceType_.tp_str = device_str;
  DeviceType_.tp_hash = device_hash;
  DeviceType_.tp_richcompare = device_compare;
  DeviceType_.tp_call = device_call;
  prepare<PyDevice>(DeviceType_, "torch.device", device_repr, g_device_getset, g_device_methods);
  PyModule_AddObjectRef(module, "device", reinterpret_cast<PyObject*>(&DeviceType_));
  prepare<PyLayout>(LayoutType, "torch.layout", layout_repr, g_named_getset, g_layout_methods);
  PyModule_AddObjectRef(module, "layout", reinterpret_cast<PyObject*>(&LayoutType));
  for (int i = 0; i < 8; ++i) {
    g_layouts[i] = singleton<PyLayout>(LayoutType, static_cast<Layout>(i));
    PyModule_AddObjectRef(module, layout_name(static_cast<Layout>(i)), g_layouts[i]);
  }
  prepare<PyMemoryFormat>(MemoryFormatType, "torch.memory_format", format_repr, g_named_getset, g_format_methods);
  PyModule_AddObjectRef(module, "memory_format", reinterpret_cast<PyObject*>(&MemoryFormatType));
  for (int i = 0; i < 4; ++i) {
    g_formats[i] = singleton<PyMemoryFormat>(MemoryFormatType, static_cast<MemoryFormat>(i));
    PyModule_AddObjectRef(module, memory_format_name(static_cast<MemoryFormat>(i)), g_formats[i]);
  }
  init_size(module);
  GeneratorType.tp_new = generator_new;
  GeneratorType.tp_doc = "Generator(device='cpu')\n--\n\nA stream of random numbers of a device.";
  GeneratorType.tp_dealloc = generator_dealloc;
  GeneratorType.tp_dictoffset = offsetof(PyGenerator, dict);
  GeneratorType.tp_weaklistoffset = offsetof(PyGenerator, weakrefs);
  GeneratorType.tp_flags = Py_TPFLAGS_BASETYPE;
  prepare<PyGenerator>(GeneratorType, "torch.Generator", nullptr, g_generator_getset, g_generator_methods);
  PyModule_AddObjectRef(module, "Generator", reinterpret_cast<PyObject*>(&GeneratorType));
  for (const char* name : {"dtype", "device", "layout", "memory_format", "Size", "Generator"})
    name_type(Ref::steal(check(PyObject_GetAttrString(module, name))).get(), name);
}

}  // namespace tessera::python
