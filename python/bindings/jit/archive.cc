// Archives and traces for Python.
#include "jit/archive.h"

#include "jit/freeze.h"
#include "jit/source/source_printer.h"
#include "jit/tracer.h"
#include "python/bindings/errors.h"
#include "python/bindings/jit/jit.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {
namespace {

std::map<std::string, std::string> extra_of(PyObject* d) {
  std::map<std::string, std::string> out;
  PyObject *k, *v;
  Py_ssize_t at = 0;
  while (PyDict_Next(d, &at, &k, &v)) {
    if (PyUnicode_Check(v)) {
      out[from_python_string(k)] = from_python_string(v);
      continue;
    }
    char* data;
    Py_ssize_t n;
    check(PyBytes_AsStringAndSize(v, &data, &n));
    out[from_python_string(k)] = std::string(data, static_cast<size_t>(n));
  }
  return out;
}

PyObject* py_save(PyObject*, PyObject* args) {
  return jit_guarded([&]() -> PyObject* {
    PyObject *object, *path, *extra;
    const char* name;
    if (!PyArg_ParseTuple(args, "O!OsO!", &JitObjectType, &object, &path, &name, &PyDict_Type, &extra))
      throw ErrorAlreadySet();
    const auto files = extra_of(extra);
    CompileLock lock;
    if (path != Py_None) {
      serialization::FileSink sink(from_python_string(path));
      jit::save(boxed<Value>(object), sink, name, files);
      sink.close();
      return none();
    }
    serialization::MemorySink sink;
    jit::save(boxed<Value>(object), sink, name, files);
    const std::vector<uint8_t> data = sink.take();
    return check(
        PyBytes_FromStringAndSize(reinterpret_cast<const char*>(data.data()), static_cast<Py_ssize_t>(data.size())));
  });
}
PyObject* py_load(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    PyObject *from, *device, *names;
    if (!PyArg_ParseTuple(args, "OOO!", &from, &device, &PyList_Type, &names)) throw ErrorAlreadySet();
    std::vector<std::string> extra;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i)
      extra.push_back(from_python_string(PyList_GET_ITEM(names, i)));
    std::optional<Device> to;
    if (device != Py_None) to = to_device(device);
    jit::Loaded loaded;
    CompileLock lock;
    if (PyUnicode_Check(from)) {
      serialization::FileSource source(from_python_string(from));
      loaded = jit::load(source, to, extra);
    } else {
      char* data;
      Py_ssize_t n;
      check(PyBytes_AsStringAndSize(from, &data, &n));
      serialization::MemorySource source({reinterpret_cast<const uint8_t*>(data), static_cast<size_t>(n)});
      loaded = jit::load(source, to, extra);
    }
    Ref files = Ref::steal(check(PyDict_New()));
    for (const auto& [name, text] : loaded.extra) {
      Ref bytes = Ref::steal(check(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()))));
      check(PyDict_SetItemString(files.get(), name.c_str(), bytes.get()));
    }
    Ref module = Ref::steal(wrap_object(loaded.module));
    return check(PyTuple_Pack(2, module.get(), files.get()));
  });
}
PyObject* py_module_of(PyObject*, PyObject* function) {
  return jit_guarded([&] {
    if (!is_jit_function(function)) throw TypeError("expected a compiled function");
    CompileLock lock;
    return wrap_object(jit::module_of(*boxed<PyJitFunction>(function).function));
  });
}
PyObject* py_freeze(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    PyObject *object, *names;
    if (!PyArg_ParseTuple(args, "O!O!", &JitObjectType, &object, &PyList_Type, &names)) throw ErrorAlreadySet();
    std::vector<std::string> kept;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(names); ++i)
      kept.push_back(from_python_string(PyList_GET_ITEM(names, i)));
    CompileLock lock;
    return wrap_object(jit::freeze(boxed<Value>(object), kept));
  });
}
PyObject* py_source(PyObject*, PyObject* function) {
  return jit_guarded([&] {
    if (!is_jit_function(function)) throw TypeError("expected a compiled function");
    CompileLock lock;
    jit::SourceUses uses;
    uses.readable = true;
    std::string text;
    jit::print_source(*boxed<PyJitFunction>(function).function, 0, false, uses, &text);
    return to_python_string(text).release();
  });
}

// --- traces: one at a time on a thread ---

thread_local std::unique_ptr<jit::Tracer> t_tracer;

PyObject* py_trace_begin(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    PyObject *module, *paths;
    if (!PyArg_ParseTuple(args, "OO!", &module, &PyList_Type, &paths)) throw ErrorAlreadySet();
    TESSERA_CHECK(!jit::Tracer::active(), "a trace is under way on this thread already");
    t_tracer = std::make_unique<jit::Tracer>();
    if (module != Py_None) {
      const Value& m = boxed<Value>(module);
      t_tracer->set_module(m, jit::type_of(m));
    }
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(paths); ++i) {
      PyObject *what, *path;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(paths, i), "OU", &what, &path)) throw ErrorAlreadySet();
      Value v;
      if (Py_TYPE(what) == &JitObjectType)
        v = boxed<Value>(what);
      else
        TESSERA_CHECK(jit_from_python(what, jit::tensor_type(), &v), "expected a tensor or an instance");
      t_tracer->add_path(v, from_python_string(path));
    }
    return none();
  });
}
jit::Tracer& tracer() {
  TESSERA_CHECK(t_tracer, "there is no trace");
  return *t_tracer;
}
PyObject* py_trace_input(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char* name;
    PyObject *value, *type;
    if (!PyArg_ParseTuple(args, "sOO!", &name, &value, &JitTypeType, &type)) throw ErrorAlreadySet();
    Value v;
    TESSERA_CHECK(jit_from_python(value, boxed<jit::TypePtr>(type), &v), "an input of a trace is no ",
                  boxed<jit::TypePtr>(type)->annotation());
    tracer().input(name, v, boxed<jit::TypePtr>(type));
    return none();
  });
}
PyObject* py_trace_start(PyObject*, PyObject*) {
  return jit_guarded([&] {
    tracer().start();
    return none();
  });
}
PyObject* py_trace_stop(PyObject*, PyObject*) {
  return jit_guarded([&] {
    if (t_tracer) tracer().stop();
    return none();
  });
}
PyObject* py_trace_drop(PyObject*, PyObject*) {
  return jit_guarded([&] {
    t_tracer.reset();
    return none();
  });
}
// A call of the submodule at a path, with its tensors by name; then what it gave.
PyObject* py_trace_enter(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char* path;
    PyObject* inputs;
    if (!PyArg_ParseTuple(args, "sO!", &path, &PyList_Type, &inputs)) throw ErrorAlreadySet();
    std::vector<std::pair<std::string, Value>> given;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(inputs); ++i) {
      const char* name;
      PyObject* t;
      if (!PyArg_ParseTuple(PyList_GET_ITEM(inputs, i), "sO", &name, &t)) throw ErrorAlreadySet();
      given.push_back({name, Value::of(unwrap(t))});
    }
    tracer().enter(path, given);
    return none();
  });
}
PyObject* py_trace_leave(PyObject*, PyObject* result) {
  return jit_guarded([&] {
    Value v;
    if (is_tensor(result)) {
      v = Value::of(unwrap(result));
    } else if (PyTuple_Check(result)) {
      std::vector<Value> items;
      for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(result); ++i)
        items.push_back(Value::of(unwrap(PyTuple_GET_ITEM(result, i))));
      const std::vector<jit::TypePtr> types(items.size(), jit::tensor_type());
      v = jit::make_value<jit::Tuple>(jit::tuple_of(types), std::move(items));
    }
    if (t_tracer) t_tracer->leave(v);
    return none();
  });
}
// (name, qualified, result, type, class or None, nested) -> function; nested: two, the second with its calls inlined
PyObject* py_trace_end(PyObject*, PyObject* args) {
  return jit_guarded([&] {
    const char *name, *qualified;
    PyObject *result, *type, *owner;
    int nested;
    if (!PyArg_ParseTuple(args, "ssOO!Op", &name, &qualified, &result, &JitTypeType, &type, &owner, &nested))
      throw ErrorAlreadySet();
    Value v;
    TESSERA_CHECK(jit_from_python(result, boxed<jit::TypePtr>(type), &v), "the result of a trace is no ",
                  boxed<jit::TypePtr>(type)->annotation());
    tracer().output(v);
    const auto add = [&](std::unique_ptr<jit::Graph> graph) {
      auto f = std::make_unique<jit::Function>();
      f->name = name;
      f->qualified = qualified;
      if (owner != Py_None) f->owner = boxed<jit::ClassDef*>(owner);
      f->set_graph(std::move(graph));
      return Ref::steal(wrap_function(jit_script_unit().add_function(std::move(f))));
    };
    if (!nested) {
      Ref f = add(tracer().take());
      t_tracer.reset();
      return f.release();
    }
    Ref flat = add(tracer().flat());
    std::vector<std::unique_ptr<jit::Function>> methods;
    Ref f = add(tracer().take_nested(&methods));
    t_tracer.reset();
    for (auto& m : methods) {
      jit::ClassDef* def = m->owner;
      def->methods.push_back(jit_script_unit().add_function(std::move(m)));
    }
    return check(PyTuple_Pack(2, f.get(), flat.get()));
  });
}
// The scope of the nodes that are recorded next; a text replaces it.
PyObject* py_trace_scope(PyObject*, PyObject* text) {
  return jit_guarded([&] {
    if (text != Py_None) tracer().scope = from_python_string(text);
    return to_python_string(tracer().scope).release();
  });
}
PyObject* py_is_tracing(PyObject*, PyObject*) { return to_python(jit::Tracer::active() != nullptr); }

}  // namespace

std::vector<PyMethodDef> jit_archive_functions() {
  return {{"save", py_save, METH_VARARGS, "Writes an archive to a path, or returns it."},
          {"load", py_load, METH_VARARGS, "Reads an archive: (module, {name: bytes})."},
          {"module_of", py_module_of, METH_O, "A module whose forward is a function."},
          {"freeze", py_freeze, METH_VARARGS, "The module with its attributes as constants."},
          {"source", py_source, METH_O, "The text of a compiled function."},
          {"trace_begin", py_trace_begin, METH_VARARGS, "A new trace."},
          {"trace_input", py_trace_input, METH_VARARGS, "An input of it."},
          {"trace_start", py_trace_start, METH_NOARGS, "From now on operators are recorded."},
          {"trace_stop", py_trace_stop, METH_NOARGS, "Ends that."},
          {"trace_drop", py_trace_drop, METH_NOARGS, "Forgets the trace."},
          {"trace_end", py_trace_end, METH_VARARGS, "The function that was recorded."},
          {"trace_enter", py_trace_enter, METH_VARARGS, "A submodule is called."},
          {"trace_leave", py_trace_leave, METH_O, "It gave this."},
          {"trace_scope", py_trace_scope, METH_O, "The scope of what is recorded next; a text replaces it."},
          {"is_tracing", py_is_tracing, METH_NOARGS, "Whether operators are recorded."}};
}

}  // namespace tessera::python
