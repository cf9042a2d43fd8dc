// The extension module tessera._C.
#include <vector>

#include "python/bindings/archive.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/common.h"
#include "python/bindings/core_functions.h"
#include "python/bindings/convert/create.h"
#include "python/bindings/device_library.h"
#include "python/bindings/errors.h"
#include "python/bindings/explain.h"
#include "python/bindings/func/func.h"
#include "python/bindings/jit/jit.h"
#include "python/bindings/library/library.h"
#include "python/bindings/convert/names.h"
#include "python/bindings/operators.h"
#include "python/bindings/profiler/profiler.h"
#include "python/bindings/pytree/pytree.h"
#include "python/bindings/shells/python_shells.h"
#include "python/bindings/convert/storage.h"
#include "python/bindings/convert/tensor_convert.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/torch_function.h"
#include "python/bindings/types.h"

namespace tessera::python {
namespace {

void add_functions(PyObject* module, std::vector<PyMethodDef> functions) {
  auto* kept = new std::vector<PyMethodDef>(std::move(functions));  // CPython keeps pointers to the entries
  kept->push_back({nullptr, nullptr, 0, nullptr});
  check(PyModule_AddFunctions(module, kept->data()));
}

void add_module(PyObject* parent, const char* name, std::vector<PyMethodDef> functions) {
  Ref made = Ref::steal(check(PyModule_New((std::string("tessera._C.") + name).c_str())));
  check(PyModule_AddObjectRef(parent, name, made.get()));
  add_functions(made.get(), std::move(functions));
}

// "torch" under the launcher, which names the package before it loads the extension; else the package's own name.
void read_display_name() {
  Ref package = Ref::steal(PyImport_ImportModule("tessera"));
  Ref name = package ? Ref::steal(PyObject_GetAttrString(package.get(), "_display_name")) : Ref();
  PyErr_Clear();
  set_display_name(name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : "tessera");
}

#ifdef TESSERA_CHECK_LOCK
PyObject* count_without_lock(PyObject*, PyObject* o) {
  GilRelease unlocked;
  if (o == Py_None)
    PyErr_Clear();
  else
    Py_INCREF(o);
  return o;
}
#endif

void init(PyObject* module) {
  read_display_name();
  init_errors(module);
  init_types(module);
  init_torch_function(module);
  init_storage(module);
  init_archive(module);
  init_tensor_type(module);
  init_operators(module);
  init_names(module);
  add_functions(module, creation_functions());
  add_functions(module, core_functions());
  add_functions(module, autocast_functions());
  add_functions(module, explain_functions());
  add_functions(module, module_shell_functions());
  add_functions(module, optimizer_shell_functions());
  Ref nn = Ref::steal(PyObject_GetAttrString(module, "_nn"));
  if (!nn) {
    PyErr_Clear();
    nn = Ref::steal(check(PyModule_New("tessera._C._nn")));
    check(PyModule_AddObjectRef(module, "_nn", nn.get()));
  }
  add_functions(nn.get(), conversion_functions());
  check(PyModule_AddObjectRef(module, "default_generator", Ref::steal(wrap(default_cpu_generator())).get()));
  add_module(module, "_schedules", schedule_functions());
  add_module(module, "_lbfgs", lbfgs_functions());
  add_module(module, "_func", func_functions());
  add_module(module, "_profiler", profiler_functions());
  // Found by import as well, although _C is no package.
  Ref functorch = Ref::borrow(check(PyImport_AddModule("tessera._C._functorch")));
  check(PyModule_AddObjectRef(module, "_functorch", functorch.get()));
  add_functions(functorch.get(), functorch_functions());
  init_autograd(module);
  init_library(module);
  init_pytree(module);
  add_functions(module, jit_setting_functions());
  add_module(module, "_jit", jit_functions());
  add_functions(Ref::steal(check(PyObject_GetAttrString(module, "_jit"))).get(), jit_archive_functions());
  init_jit(Ref::steal(check(PyObject_GetAttrString(module, "_jit"))).get());
  init_device_library(module);
#ifdef TESSERA_CHECK_LOCK
  add_functions(module, {{"_count_without_lock", count_without_lock, METH_O,
                          "Breaks the rule that --config=check_lock checks, by one reference or by one call."}});
#endif
}

PyModuleDef g_module = {PyModuleDef_HEAD_INIT,
                        "tessera._C",
                        "Tessera's core: tensors, operators, autograd.",
                        -1,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr,
                        nullptr};

}  // namespace
}  // namespace tessera::python

PyMODINIT_FUNC PyInit__C() {
  using namespace tessera::python;
#ifdef TESSERA_CHECK_LOCK
  check_lock_at_every_call();
#endif
  PyObject* module = PyModule_Create(&g_module);
  if (!module) return nullptr;
  if (guarded_int([&] { init(module); }) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
