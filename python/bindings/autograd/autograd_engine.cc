// The backward pass from Python, and the switches around it: grad modes, anomaly detection.
#include "autograd/engine.h"

#include <vector>

#include "autograd/autograd.h"
#include "autograd/variable.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/torch_function.h"
#include "tensor/core/restore.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

using autograd::Edge;
using autograd::Node;
using autograd::variable_list;

// --- backward ---

thread_local constinit const Node* t_reported = nullptr;  // whose error has been explained already in this pass

void read_roots(PyObject* tensors, PyObject* gradients, std::vector<Edge>* roots, variable_list* grads) {
  const Py_ssize_t n = PyTuple_GET_SIZE(tensors);
  TESSERA_CHECK(PyTuple_GET_SIZE(gradients) == n, "got ", n, " tensors and ", PyTuple_GET_SIZE(gradients),
                " gradients");
  for (Py_ssize_t i = 0; i < n; ++i) {
    Edge e = edge_of(PyTuple_GET_ITEM(tensors, i));
    TESSERA_CHECK(e, "element ", i, " of tensors does not require grad and does not have a grad_fn");
    PyObject* g = PyTuple_GET_ITEM(gradients, i);
    TESSERA_CHECK(g != Py_None, "element ", i,
                  " of gradients tuple is None, but the corresponding Tensor requires grad");
    if (!is_tensor(g))
      throw TypeError(str_cat("element ", i, " of gradients tuple is not a Tensor or None, but ", Py_TYPE(g)->tp_name));
    roots->push_back(std::move(e));
    grads->push_back(unwrap(g));
  }
}

std::vector<Edge> read_inputs(PyObject* inputs, bool accumulate) {
  std::vector<Edge> edges;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); ++i) {
    PyObject* o = PyTuple_GET_ITEM(inputs, i);
    Edge e = edge_of(o);
    TESSERA_CHECK(e, "One of the differentiated Tensors does not require grad");
    if (accumulate && is_tensor(o)) autograd::retain_grad(unwrap(o));  // so that a non-leaf has somewhere to accumulate
    edges.push_back(std::move(e));
  }
  return edges;
}

PyObject* run_backward(PyObject* args) {
  PyObject *tensors, *gradients, *inputs;
  int retain, create, allow_unreachable, accumulate;
  if (!PyArg_ParseTuple(args, "O!O!ppO!pp:_run_backward", &PyTuple_Type, &tensors, &PyTuple_Type, &gradients, &retain,
                        &create, &PyTuple_Type, &inputs, &allow_unreachable, &accumulate))
    throw ErrorAlreadySet();
  std::vector<Edge> roots;
  variable_list grads;
  read_roots(tensors, gradients, &roots, &grads);
  const std::vector<Edge> targets = read_inputs(inputs, accumulate);
  if (accumulate && create)
    warn_once(
        "backward() with create_graph=True leaves each parameter and its gradient in a cycle of references, which "
        "keeps "
        "memory from being freed. Use autograd.grad instead, or set the parameters' .grad to None once you have used "
        "them.");
  const ScopedValue<const Node*> none_reported(t_reported, nullptr);
  const variable_list found = autograd::run_backward(roots, std::move(grads), targets,
                                                     {.retain_graph = retain != 0,
                                                      .create_graph = create != 0,
                                                      .accumulate = accumulate != 0,
                                                      .allow_unused = allow_unreachable != 0});
  if (accumulate) return none();
  Ref result = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(targets.size()))));
  for (size_t i = 0; i < targets.size(); ++i) {
    PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), wrap_or_none(i < found.size() ? found[i] : Tensor()));
  }
  return result.release();
}
PyObject* py_run_backward(PyObject*, PyObject* args) {
  return guarded([&] { return run_backward(args); });
}

// tensor.backward(): the plain call on one real number takes no Python code at all; every other form is
// tessera/_tensor.py's.
PyObject* tensor_backward(PyObject* self, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&]() -> PyObject* {
    if (n == 0 && !kwnames && is_exact_tensor(self) && function_state.num_modes == 0) {
      const Tensor t = unwrap(self);
      if (t.numel() == 1 && t.is_floating_point() && t.requires_grad()) {
        const ScopedValue<const Node*> none_reported(t_reported, nullptr);
        autograd::backward({&t, 1});
        return none();
      }
    }
    static constinit MadeOnce general;
    const auto find = [] {
      Ref module = Ref::steal(check(PyImport_ImportModule("tessera._tensor")));
      return Ref::steal(check(PyObject_GetAttrString(module.get(), "_general_backward")));
    };
    std::vector<PyObject*> all{self};
    all.insert(all.end(), args, args + n + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    return check(PyObject_Vectorcall(general.get(find), all.data(), static_cast<size_t>(n + 1), kwnames));
  });
}
PyMethodDef g_backward = {
    "backward", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(tensor_backward)),
    METH_FASTCALL | METH_KEYWORDS,
    "backward($self, /, gradient=None, retain_graph=None, create_graph=False, inputs=None)\n--\n\n"
    "Adds to `.grad` of the leaves the gradient of this tensor; see `autograd.backward`.\n\n`gradient` has the shape "
    "of the tensor and may be left out for a scalar."};

bool read_tensors(PyObject* o, variable_list* list) {
  if (is_tensor(o)) {
    list->push_back(unwrap(o));
    return true;
  }
  if (!PyTuple_CheckExact(o) && !PyList_CheckExact(o)) return false;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* e = PySequence_Fast_GET_ITEM(o, i);
    if (!is_tensor(e)) return false;
    list->push_back(unwrap(e));
  }
  return true;
}
// _plain_grad(outputs, inputs, retain_graph, create_graph, allow_unused): autograd.grad of real numbers with respect to
// tensors; None for every other call.
PyObject* py_plain_grad(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&]() -> PyObject* {
    variable_list outputs, inputs;
    if (n != 5 || needs_torch_function(args, 2) || !read_tensors(args[0], &outputs) || !read_tensors(args[1], &inputs))
      return none();
    for (const Tensor& t : outputs)
      if (t.numel() != 1 || !t.is_floating_point() || !t.requires_grad()) return none();
    const int create = PyObject_IsTrue(args[3]), retain = args[2] == Py_None ? create : PyObject_IsTrue(args[2]),
              allow_unused = PyObject_IsTrue(args[4]);
    if (create < 0 || retain < 0 || allow_unused < 0) throw ErrorAlreadySet();
    const ScopedValue<const Node*> none_reported(t_reported, nullptr);
    const variable_list found = autograd::grad(outputs, inputs, {}, retain != 0, create != 0, allow_unused != 0);
    Ref result = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(inputs.size()))));
    for (size_t i = 0; i < inputs.size(); ++i)
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), wrap_or_none(i < found.size() ? found[i] : Tensor()));
    return result.release();
  });
}

PyObject* py_queue_callback(PyObject*, PyObject* f) {
  return guarded([&]() -> PyObject* {
    if (!PyCallable_Check(f)) throw TypeError(str_cat("a callback must be callable, got ", Py_TYPE(f)->tp_name));
    auto kept = make_intrusive<PyHolder>(Ref::borrow(f));
    autograd::queue_callback([kept] {
      GilAcquire gil;
      checked_call(PyObject_CallNoArgs(kept->object));
    });
    return none();
  });
}
PyObject* py_pass_is_whole(PyObject*, PyObject*) { return to_python(autograd::pass_is_whole()); }
PyObject* py_task_id(PyObject*, PyObject*) { return PyLong_FromLongLong(autograd::current_task_id()); }
PyObject* py_will_execute(PyObject*, PyObject* node) {
  return guarded([&] {
    TESSERA_CHECK(autograd::backward_is_running(),
                  "_will_engine_execute_node should only be called during the backward pass");
    return to_python(autograd::will_execute(node_of(node).get()));
  });
}
PyObject* py_current_node(PyObject*, PyObject*) {
  return guarded([&] {
    Node* n = autograd::current_node();
    return n ? wrap_node(IntrusivePtr<Node>::share(n)) : none();
  });
}

// --- edges ---

PyObject* py_gradient_edge(PyObject*, PyObject* tensor) {
  return guarded([&] {
    const Edge e = edge_of(tensor);
    TESSERA_CHECK(e, "It is not possible to get the gradient edge for a Tensor that does not require gradients");
    Ref node = Ref::steal(wrap_node(e.node));
    return check(Py_BuildValue("(OI)", node.get(), e.input_nr));
  });
}

// --- grad modes ---

struct SavedMode {
  bool inference, grad, views, forward;
};
std::vector<SavedMode>& inference_stack() {
  static thread_local std::vector<SavedMode> s;
  return s;
}
thread_local constinit bool t_multithreading = true;

bool truth(PyObject* o, const char* what) {
  if (!PyBool_Check(o))
    throw TypeError(str_cat(what, "(): argument 'enabled' (position 1) must be bool, not ", Py_TYPE(o)->tp_name));
  return o == Py_True;
}
PyObject* py_is_grad_enabled(PyObject*, PyObject*) { return to_python(grad_mode_enabled()); }
PyObject* py_set_grad_enabled(PyObject*, PyObject* on) {
  return guarded([&] {
    thread_state.grad_enabled = truth(on, "set_grad_enabled");
    return none();
  });
}
PyObject* py_is_inference(PyObject*, PyObject*) { return to_python(inference_mode_enabled()); }
PyObject* py_inference_push(PyObject*, PyObject* on) {
  return guarded([&] {
    const bool enabled = truth(on, "inference_mode");
    inference_stack().push_back({thread_state.inference_mode, thread_state.grad_enabled, thread_state.view_tracking,
                                 thread_state.forward_grad_enabled});
    thread_state.inference_mode = enabled;
    thread_state.grad_enabled = thread_state.view_tracking = thread_state.forward_grad_enabled = !enabled;
    return none();
  });
}
PyObject* py_inference_pop(PyObject*, PyObject*) {
  return guarded([&] {
    TESSERA_CHECK(!inference_stack().empty(), "there is no inference_mode block to leave");
    const SavedMode m = inference_stack().back();
    inference_stack().pop_back();
    thread_state.inference_mode = m.inference;
    thread_state.grad_enabled = m.grad;
    thread_state.view_tracking = m.views;
    thread_state.forward_grad_enabled = m.forward;
    return none();
  });
}
PyObject* py_is_multithreading(PyObject*, PyObject*) { return to_python(t_multithreading); }
PyObject* py_set_multithreading(PyObject*, PyObject* on) {
  return guarded([&] {
    t_multithreading = truth(on, "set_multithreading_enabled");
    return none();
  });
}
PyObject* py_warn_streams(PyObject*, PyObject* on) {
  return guarded([&] {
    TESSERA_CHECK(PyBool_Check(on), "enabled must be a bool, but got ", Py_TYPE(on)->tp_name);
    return none();
  });
}

// --- anomaly detection ---

constexpr const char *kTrace = "traceback_", *kParent = "parent_";

PyObject* metadata_of(Node& n) {
  if (!n.metadata) n.metadata = make_intrusive<PyHolder>(checked_call(PyDict_New()));
  return static_cast<PyHolder&>(*n.metadata).object;
}
// Notes where the forward call was made, and during which backward it was.
void record_stack(Node& node) {
  GilAcquire gil;
  Ref module = checked_call(PyImport_ImportModule("traceback"));
  Ref stack = checked_call(PyObject_CallMethod(module.get(), "format_stack", nullptr));
  if (PyDict_SetItemString(metadata_of(node), kTrace, stack.get()) < 0) throw PythonError();
  if (Node* parent = autograd::current_node()) {
    Ref p = checked_call(wrap_node(IntrusivePtr<Node>::share(parent)));
    if (PyDict_SetItemString(metadata_of(node), kParent, p.get()) < 0) throw PythonError();
  }
}
std::string joined_stack(PyObject* stack) {
  Ref empty = Ref::steal(PyUnicode_FromString(""));
  Ref text = Ref::steal(PyUnicode_Join(empty.get(), stack));
  const char* s = text ? PyUnicode_AsUTF8(text.get()) : nullptr;
  if (!s) PyErr_Clear();
  return s ? s : "";
}
void warn(const std::string& message) {
  if (PyErr_WarnEx(PyExc_UserWarning, message.c_str(), 1) < 0)
    PyErr_WriteUnraisable(nullptr);  // an error is on its way already
}
void explain_error(const Node& node) {
  if (t_reported) return;
  t_reported = &node;
  GilAcquire gil;
  Ref keep;
  const Node* n = &node;
  for (bool first = true; n; first = false) {
    PyObject* metadata = n->metadata ? static_cast<PyHolder&>(*n->metadata).object : nullptr;
    PyObject* stack = metadata ? PyDict_GetItemString(metadata, kTrace) : nullptr;
    if (!stack) {
      warn(first ? str_cat("Error detected in ", n->name(),
                           ". No forward pass information available. Enable detect anomaly during forward pass for "
                           "more information.")
                 : str_cat("\n\nPrevious calculation was induced by ", n->name(),
                           ". No forward pass information available. Enable detect anomaly during forward pass for "
                           "more information."));
      return;
    }
    warn(first ? str_cat("Error detected in ", n->name(), ". Traceback of forward call that caused the error:\n",
                         joined_stack(stack))
               : str_cat("\n\nPrevious calculation was induced by ", n->name(),
                         ". Traceback of forward call that induced the previous calculation:\n", joined_stack(stack)));
    PyObject* parent = PyDict_GetItemString(metadata, kParent);
    if (!parent || !is_node(parent)) return;
    keep = Ref::borrow(parent);
    try {
      n = node_of(parent).get();
    } catch (const Error&) { return; }
  }
}
PyObject* py_set_anomaly(PyObject*, PyObject* args) {
  int on, nan = 1;
  if (!PyArg_ParseTuple(args, "p|p:set_anomaly_enabled", &on, &nan)) return nullptr;
  autograd::anomaly_mode().enabled = on;
  autograd::anomaly_mode().check_nan = nan;
  return none();
}
PyObject* py_is_anomaly(PyObject*, PyObject*) { return to_python(autograd::anomaly_mode().enabled); }
PyObject* py_is_anomaly_nan(PyObject*, PyObject*) { return to_python(autograd::anomaly_mode().check_nan); }

PyMethodDef g_functions[] = {
    {"_run_backward", py_run_backward, METH_VARARGS,
     "_run_backward(tensors, grads, retain_graph, create_graph, inputs, allow_unreachable, accumulate_grad)"},
    {"_plain_grad", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_plain_grad)), METH_FASTCALL, nullptr},
    {"_queue_backward_callback", py_queue_callback, METH_O,
     "Runs a function once the backward pass that is under way ends."},
    {"_is_checkpoint_valid", py_pass_is_whole, METH_NOARGS,
     "Whether the backward under way goes through the whole graph and adds to the leaves."},
    {"_current_graph_task_id", py_task_id, METH_NOARGS, nullptr},
    {"_current_autograd_node", py_current_node, METH_NOARGS, nullptr},
    {"_will_engine_execute_node", py_will_execute, METH_O, nullptr},
    {"_get_gradient_edge", py_gradient_edge, METH_O, nullptr},
    {"is_grad_enabled", py_is_grad_enabled, METH_NOARGS, "is_grad_enabled() -> bool: whether operations are recorded."},
    {"_is_grad_enabled", py_is_grad_enabled, METH_NOARGS, nullptr},
    {"_set_grad_enabled", py_set_grad_enabled, METH_O, nullptr},
    {"is_inference_mode_enabled", py_is_inference, METH_NOARGS, "is_inference_mode_enabled() -> bool"},
    {"_inference_mode_push", py_inference_push, METH_O, nullptr},
    {"_inference_mode_pop", py_inference_pop, METH_NOARGS, nullptr},
    {"_is_multithreading_enabled", py_is_multithreading, METH_NOARGS, nullptr},
    {"_set_multithreading_enabled", py_set_multithreading, METH_O, nullptr},
    {"_set_warn_on_accumulate_grad_stream_mismatch", py_warn_streams, METH_O, nullptr},
    {"set_anomaly_enabled", py_set_anomaly, METH_VARARGS, "set_anomaly_enabled(mode, check_nan=True)"},
    {"is_anomaly_enabled", py_is_anomaly, METH_NOARGS, "is_anomaly_enabled() -> bool"},
    {"is_anomaly_check_nan_enabled", py_is_anomaly_nan, METH_NOARGS, "is_anomaly_check_nan_enabled() -> bool"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void init_autograd_engine(PyObject* module) {
  autograd::anomaly_mode().on_record = record_stack;
  autograd::anomaly_mode().on_error = explain_error;
  autograd::g_host_lock.release = []() -> void* { return PyGILState_Check() ? PyEval_SaveThread() : nullptr; };
  autograd::g_host_lock.acquire = [](void* state) { PyEval_RestoreThread(static_cast<PyThreadState*>(state)); };
  check(PyModule_AddFunctions(module, g_functions));
  Ref method = Ref::steal(check(PyDescr_NewMethod(TensorType, &g_backward)));
  check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(TensorType), "backward", method.get()));
}

}  // namespace tessera::python
