// The state of amp/autocast.h for Python: the documented functions, and what tessera.amp.autocast calls.
#include "amp/autocast.h"

#include "python/bindings/calls.h"
#include "python/bindings/core_functions.h"
#include "python/bindings/types.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

DeviceType device_type_arg(const char* function, PyObject* o) {
  const char* text = PyUnicode_Check(o) ? PyUnicode_AsUTF8(o) : nullptr;
  if (!text)
    throw TypeError(
        str_cat(function, "(): argument 'device_type' (position 1) must be str, not ", Py_TYPE(o)->tp_name));
  return Device(std::string_view(text)).type;
}
bool flag_arg(const char* function, const char* name, PyObject* o) {
  if (!PyBool_Check(o))
    throw TypeError(str_cat(function, "(): argument '", name, "' must be bool, not ", Py_TYPE(o)->tp_name));
  return o == Py_True;
}
DType dtype_value(const char* function, PyObject* o) {
  if (!is_dtype(o))
    throw TypeError(str_cat(function, "(): argument 'dtype' must be torch.dtype, not ", Py_TYPE(o)->tp_name));
  return unwrap_dtype(o);
}

// --- by device ---

PyObject* py_is_enabled(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"is_autocast_enabled", {"device_type"}, 1, 0}, call, a);
  return to_python(amp::is_autocast_enabled(a[0] ? device_type_arg("is_autocast_enabled", a[0]) : DeviceType::kCUDA));
}
PyObject* py_set_enabled(PyObject*, CallArgs call) {
  constexpr const char* kName = "set_autocast_enabled";
  PyObject* a[2];
  DeviceType t = DeviceType::kCUDA;
  if (try_read_args({kName, {"enabled"}, 1, 1}, call, a)) {
    a[1] = a[0];
  } else {
    read_args({kName, {"device_type", "enabled"}, 2, 2}, call, a);
    t = device_type_arg(kName, a[0]);
  }
  amp::set_autocast_enabled(t, flag_arg(kName, "enabled", a[1]));
  return none();
}
PyObject* py_get_dtype(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"get_autocast_dtype", {"device_type"}, 1, 1}, call, a);
  return wrap(amp::autocast_dtype(device_type_arg("get_autocast_dtype", a[0])));
}
PyObject* py_set_dtype(PyObject*, CallArgs call) {
  constexpr const char* kName = "set_autocast_dtype";
  PyObject* a[2];
  read_args({kName, {"device_type", "dtype"}, 2, 2}, call, a);
  amp::set_autocast_dtype(device_type_arg(kName, a[0]), dtype_value(kName, a[1]));
  return none();
}
PyObject* py_is_available(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_is_autocast_available", {"device_type"}, 1, 1}, call, a);
  return to_python(amp::is_autocast_available(device_type_arg("is_autocast_available", a[0])));
}
PyObject* py_is_any_enabled(PyObject*, CallArgs) { return to_python(amp::is_any_autocast_enabled()); }

// --- the older names, with the device in them ---

void deprecated(const std::string& name, const std::string& instead) {
  warn_once(str_cat(name, "() is deprecated: call ", instead), WarningKind::kDeprecation);
}
template <DeviceType kDevice, FixedName kName>
PyObject* old_is_enabled(PyObject*, CallArgs call) {
  read_args({kStoredName<kName>.text, {}, 0, 0}, call, nullptr);
  deprecated(kStoredName<kName>.text, str_cat("is_autocast_enabled('", device_type_name(kDevice), "')"));
  return to_python(amp::is_autocast_enabled(kDevice));
}
template <DeviceType kDevice, FixedName kName>
PyObject* old_set_enabled(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({kStoredName<kName>.text, {"enabled"}, 1, 1}, call, a);
  const bool enabled = flag_arg(kStoredName<kName>.text, "enabled", a[0]);
  deprecated(kStoredName<kName>.text, str_cat("set_autocast_enabled('", device_type_name(kDevice), "', enabled)"));
  amp::set_autocast_enabled(kDevice, enabled);
  return none();
}
template <DeviceType kDevice, FixedName kName>
PyObject* old_get_dtype(PyObject*, CallArgs call) {
  read_args({kStoredName<kName>.text, {}, 0, 0}, call, nullptr);
  deprecated(kStoredName<kName>.text, str_cat("get_autocast_dtype('", device_type_name(kDevice), "')"));
  return wrap(amp::autocast_dtype(kDevice));
}
template <DeviceType kDevice, FixedName kName>
PyObject* old_set_dtype(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({kStoredName<kName>.text, {"dtype"}, 1, 1}, call, a);
  const DType dtype = dtype_value(kStoredName<kName>.text, a[0]);
  deprecated(kStoredName<kName>.text, str_cat("set_autocast_dtype('", device_type_name(kDevice), "', dtype)"));
  amp::set_autocast_dtype(kDevice, dtype);
  return none();
}

// --- the cache, nesting ---

PyObject* py_is_cache_enabled(PyObject*, CallArgs) { return to_python(amp::is_autocast_cache_enabled()); }
PyObject* py_set_cache_enabled(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"set_autocast_cache_enabled", {"enabled"}, 1, 1}, call, a);
  amp::set_autocast_cache_enabled(flag_arg("set_autocast_cache_enabled", "enabled", a[0]));
  return none();
}
PyObject* py_clear_cache(PyObject*, CallArgs) {
  amp::clear_autocast_cache();
  return none();
}
PyObject* py_increment(PyObject*, CallArgs) { return PyLong_FromLong(amp::increment_autocast_nesting()); }
PyObject* py_decrement(PyObject*, CallArgs) { return PyLong_FromLong(amp::decrement_autocast_nesting()); }

// --- regions ---

// (dtype, enabled, warning) of a region for these arguments.
PyObject* py_choose(PyObject*, CallArgs call) {
  constexpr const char* kName = "autocast";
  PyObject* a[3];
  read_args({kName, {"device_type", "dtype", "enabled"}, 3, 3}, call, a);
  const amp::RegionChoice c =
      amp::choose_region(device_type_arg(kName, a[0]), dtype_arg(kName, a[1]), flag_arg(kName, "enabled", a[2]));
  return check(Py_BuildValue("(NNs)", wrap(c.dtype), to_python(c.enabled), c.warning.c_str()));
}
PyObject* state_tuple(const amp::RegionState& s) {
  return check(Py_BuildValue("(NNN)", wrap(s.dtype), to_python(s.enabled), to_python(s.cache_enabled)));
}
amp::RegionState state_of(const char* function, PyObject* const* a) {
  return {dtype_value(function, a[0]), flag_arg(function, "enabled", a[1]), flag_arg(function, "cache_enabled", a[2])};
}
PyObject* py_enter(PyObject*, CallArgs call) {
  PyObject* a[4];
  read_args({"_enter_autocast_region", {"device_type", "dtype", "enabled", "cache_enabled"}, 4, 4}, call, a);
  const DeviceType t = device_type_arg("autocast", a[0]);
  return state_tuple(amp::enter_region(t, state_of("autocast", a + 1)));
}
PyObject* py_leave(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_leave_autocast_region", {"device_type", "previous"}, 2, 2}, call, a);
  const DeviceType t = device_type_arg("autocast", a[0]);
  if (!PyTuple_Check(a[1]) || PyTuple_GET_SIZE(a[1]) != 3)
    throw TypeError("_leave_autocast_region: expected what _enter_autocast_region returned");
  PyObject* const parts[] = {PyTuple_GET_ITEM(a[1], 0), PyTuple_GET_ITEM(a[1], 1), PyTuple_GET_ITEM(a[1], 2)};
  amp::leave_region(t, state_of("autocast", parts));
  return none();
}

// None of these is for __torch_function__: they are about the thread, and a mode that saw them could not use autocast.
template <FixedName N, Implementation F>
PyObject* entry(PyObject* module, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] { return F(module, CallArgs{args, n, kwnames}); });
}
template <FixedName N, Implementation F>
PyMethodDef plain(const char* doc = nullptr) {
  return {kStoredName<N>.text, as_c_function(&entry<N, F>), METH_FASTCALL | METH_KEYWORDS, doc};
}

#define OLD(form, device, name, rest) plain<name, form<DeviceType::device, name>>(name rest)

}  // namespace

std::vector<PyMethodDef> autocast_functions() {
  return {
      plain<"is_autocast_enabled", py_is_enabled>(
          "is_autocast_enabled(device_type='cuda') -> bool: whether this thread is in a region for it."),
      plain<"set_autocast_enabled", py_set_enabled>("set_autocast_enabled(device_type, enabled)"),
      plain<"get_autocast_dtype", py_get_dtype>("get_autocast_dtype(device_type) -> torch.dtype"),
      plain<"set_autocast_dtype", py_set_dtype>("set_autocast_dtype(device_type, dtype)"),
      plain<"is_autocast_cache_enabled", py_is_cache_enabled>("is_autocast_cache_enabled() -> bool"),
      plain<"set_autocast_cache_enabled", py_set_cache_enabled>("set_autocast_cache_enabled(enabled)"),
      plain<"clear_autocast_cache", py_clear_cache>("clear_autocast_cache(): forgets the copies of weights."),
      plain<"autocast_increment_nesting", py_increment>("autocast_increment_nesting() -> int"),
      plain<"autocast_decrement_nesting", py_decrement>("autocast_decrement_nesting() -> int"),
      plain<"_is_autocast_available", py_is_available>(),
      plain<"_is_any_autocast_enabled", py_is_any_enabled>(),
      plain<"_choose_autocast_region", py_choose>(),
      plain<"_enter_autocast_region", py_enter>(),
      plain<"_leave_autocast_region", py_leave>(),
      OLD(old_is_enabled, kCPU, "is_autocast_cpu_enabled", "() -> bool"),
      OLD(old_is_enabled, kXLA, "is_autocast_xla_enabled", "() -> bool"),
      OLD(old_is_enabled, kIPU, "is_autocast_ipu_enabled", "() -> bool"),
      OLD(old_set_enabled, kCPU, "set_autocast_cpu_enabled", "(enabled)"),
      OLD(old_set_enabled, kXLA, "set_autocast_xla_enabled", "(enabled)"),
      OLD(old_set_enabled, kIPU, "set_autocast_ipu_enabled", "(enabled)"),
      OLD(old_get_dtype, kCPU, "get_autocast_cpu_dtype", "() -> torch.dtype"),
      OLD(old_get_dtype, kCUDA, "get_autocast_gpu_dtype", "() -> torch.dtype"),
      OLD(old_get_dtype, kXLA, "get_autocast_xla_dtype", "() -> torch.dtype"),
      OLD(old_get_dtype, kIPU, "get_autocast_ipu_dtype", "() -> torch.dtype"),
      OLD(old_set_dtype, kCPU, "set_autocast_cpu_dtype", "(dtype)"),
      OLD(old_set_dtype, kCUDA, "set_autocast_gpu_dtype", "(dtype)"),
      OLD(old_set_dtype, kXLA, "set_autocast_xla_dtype", "(dtype)"),
      OLD(old_set_dtype, kIPU, "set_autocast_ipu_dtype", "(dtype)"),
  };
}
#undef OLD

}  // namespace tessera::python
