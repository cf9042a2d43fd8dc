// Nodes of the graph as Python objects: one type for each name, one object for each node.
#include <algorithm>
#include <string>
#include <unordered_map>

#include "autograd/accumulate_grad.h"
#include "autograd/codegen_api.h"
#include "autograd/variable.h"
#include "python/bindings/args.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"

namespace tessera::python {
namespace {

using autograd::Node;
using NodePtr = IntrusivePtr<Node>;

struct PyNode {
  PyObject_HEAD Node* node;  // a reference
};

void node_dealloc(PyObject* self) {
  auto* p = reinterpret_cast<PyNode*>(self);
  if (Node* n = std::exchange(p->node, nullptr)) {
    n->pyobject.store(nullptr, std::memory_order_release);
    n->release();
  }
  Py_TYPE(self)->tp_free(self);
}

// _saved_x: the value; _raw_saved_x: the thing that hooks can be put on.
class SavedReader final : public autograd::SavedVisitor {
 public:
  SavedReader(NodePtr owner, std::string_view wanted, bool raw)
      : owner_(std::move(owner)), wanted_(wanted), raw_(raw) {}
  Ref result;

  void tensor(const char* name, const autograd::SavedVariable& v) override {
    if (wanted_ == name) result = one(v);
  }
  void tensor_list(const char* name, const std::vector<autograd::SavedVariable>& l) override {
    if (wanted_ != name) return;
    Ref tuple = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(l.size()))));
    for (size_t i = 0; i < l.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), one(l[i]).release());
    result = std::move(tuple);
  }
  void value(const char* name, const Value& v) override {
    if (raw_ || wanted_ != name) return;
    Ref o = Ref::steal(to_python(v));
    result = PyList_Check(o.get()) ? Ref::steal(check(PyList_AsTuple(o.get()))) : std::move(o);
  }

 private:
  Ref one(const autograd::SavedVariable& v) {
    return Ref::steal(check(raw_ ? wrap_saved(owner_, &v) : wrap_or_none(v.unpack(owner_.get()))));
  }
  NodePtr owner_;
  std::string_view wanted_;
  bool raw_;
};

PyObject* node_getattro(PyObject* self, PyObject* name) {
  if (PyObject* known = PyObject_GenericGetAttr(self, name)) return known;
  const char* text = PyUnicode_AsUTF8(name);
  const std::string_view s = text ? text : "";
  const bool raw = s.starts_with("_raw_saved_");
  if (!raw && !s.starts_with("_saved_")) return nullptr;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyObject* r = guarded([&]() -> PyObject* {
    SavedReader reader(node_of(self), s.substr(raw ? 11 : 7), raw);
    node_of(self)->visit_saved(reader);
    return reader.result.release();
  });
  if (!r && !PyErr_Occurred()) {
    PyErr_Restore(type, value, trace);
    return nullptr;
  }
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(trace);
  return r;
}

class SavedNames final : public autograd::SavedVisitor {
 public:
  std::vector<std::string> names;
  void tensor(const char* name, const autograd::SavedVariable&) override { add(name, true); }
  void tensor_list(const char* name, const std::vector<autograd::SavedVariable>&) override { add(name, true); }
  void value(const char* name, const Value&) override { add(name, false); }

 private:
  void add(const char* name, bool raw) {
    names.push_back(std::string("_saved_") + name);
    if (raw) names.push_back(std::string("_raw_saved_") + name);
  }
};
PyObject* node_dir(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    Ref base = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__")));
    Ref found = Ref::steal(check(PyObject_CallOneArg(base.get(), self)));
    Ref list = Ref::steal(check(PySequence_List(found.get())));
    SavedNames saved;
    node_of(self)->visit_saved(saved);
    for (const std::string& n : saved.names) check(PyList_Append(list.get(), to_python_string(n).get()));
    return list.release();
  });
}

PyMethodDef g_dir_method[] = {{"__dir__", node_dir, METH_NOARGS, nullptr}, {nullptr, nullptr, 0, nullptr}};

PyTypeObject NodeBaseType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject* g_accumulate_grad = nullptr;

PyObject* get_variable(PyObject* self, void*) {
  return guarded([&] {
    auto* acc = dynamic_cast<autograd::AccumulateGrad*>(reinterpret_cast<PyNode*>(self)->node);
    return acc ? wrap(acc->variable()) : none();
  });
}
PyGetSetDef g_variable = {"variable", get_variable, nullptr, "The leaf that the gradient is added to.", nullptr};

// The type that is shown for a node's name: "torch::autograd::AccumulateGrad" gives AccumulateGrad.
PyTypeObject* type_of(const char* name) {
  static auto* types = new std::unordered_map<std::string, PyTypeObject*>;
  std::string_view shown = name;
  if (const size_t at = shown.rfind("::"); at != std::string_view::npos) shown = shown.substr(at + 2);
  PyTypeObject*& type = (*types)[std::string(shown)];
  if (type) return type;
  Ref slots = Ref::steal(check(Py_BuildValue("(s)", "__weakref__")));
  Ref body = Ref::steal(check(Py_BuildValue("{s:s,s:O}", "__module__", "builtins", "__slots__", slots.get())));
  const std::string text(shown);
  type = reinterpret_cast<PyTypeObject*>(check(PyObject_CallFunction(reinterpret_cast<PyObject*>(&PyType_Type), "s(O)O",
                                                                     text.c_str(), &NodeBaseType, body.get())));
  if (text == "AccumulateGrad") {
    g_accumulate_grad = type;
    Ref d = Ref::steal(check(PyDescr_NewGetSet(type, &g_variable)));
    check(PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), "variable", d.get()));
  }
  return type;
}

// --- members of nodes and contexts ---

PyObject* get_next_functions(PyObject* self, void*) {
  return guarded([&] {
    const NodePtr n = node_of(self);
    Ref t = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(n->edges().size()))));
    Py_ssize_t i = 0;
    for (const autograd::Edge& e : n->edges()) {
      Ref next = Ref::steal(wrap_node(e.node));
      PyTuple_SET_ITEM(t.get(), i++, check(Py_BuildValue("(OI)", next.get(), e.input_nr)));
    }
    return t.release();
  });
}
PyObject* get_metadata(PyObject* self, void*) {
  return guarded([&] {
    const NodePtr n = node_of(self);
    if (!n->metadata) n->metadata = make_intrusive<PyHolder>(Ref::steal(check(PyDict_New())));
    return Py_NewRef(static_cast<PyHolder&>(*n->metadata).object);
  });
}
PyObject* get_input_metadata(PyObject* self, void*) {
  return guarded([&] {
    Ref types = Ref::steal(check(PyImport_ImportModule("types")));
    Ref space = Ref::steal(check(PyObject_GetAttrString(types.get(), "SimpleNamespace")));
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const autograd::OutputMeta& m : node_of(self)->outputs()) {
      Ref entry = Ref::borrow(Py_None);
      if (m.is_known) {
        Ref size = Ref::steal(wrap_size(m.shape.sizes())), dtype = Ref::steal(wrap(m.dtype)),
            device = Ref::steal(wrap(m.device));
        Ref kwargs = Ref::steal(check(Py_BuildValue("{s:O,s:O,s:O,s:O}", "shape", size.get(), "dtype", dtype.get(),
                                                    "device", device.get(), "is_nested_tensor", Py_False)));
        Ref no_args = Ref::steal(check(PyTuple_New(0)));
        entry = Ref::steal(check(PyObject_Call(space.get(), no_args.get(), kwargs.get())));
      }
      check(PyList_Append(list.get(), entry.get()));
    }
    return list.release();
  });
}
PyObject* get_wants_grad(PyObject* self, void*) {
  return guarded([&] {
    const NodePtr n = node_of(self);
    return to_python(std::ranges::any_of(n->edges(), [](const autograd::Edge& e) { return static_cast<bool>(e); }));
  });
}
PyObject* node_name(PyObject* self, PyObject*) {
  return guarded([&] { return to_python_string(node_of(self)->name()).release(); });
}
// node(*grads): the node alone, as the engine calls it, without hooks. A single result stands for itself.
PyObject* node_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    const NodePtr n = node_of(self);
    if (kwargs && PyDict_GET_SIZE(kwargs)) throw TypeError(str_cat(n->name(), "() takes no keyword arguments"));
    const auto given = PyTuple_GET_SIZE(args), wanted = static_cast<Py_ssize_t>(n->outputs().size());
    if (given != wanted)
      throw TypeError(str_cat(n->name(), "() takes a gradient (or None) for each output of the forward call: expected ",
                              wanted, ", got ", given));
    autograd::variable_list grads;
    for (Py_ssize_t i = 0; i < given; ++i) {
      PyObject* o = PyTuple_GET_ITEM(args, i);
      if (o != Py_None && !is_tensor(o))
        throw TypeError(str_cat(n->name(), "(): gradient ", i, " must be a Tensor or None, not ", Py_TYPE(o)->tp_name));
      grads.push_back(o == Py_None ? Tensor() : unwrap(o));
    }
    n->begin_use();
    autograd::variable_list out;
    try {
      out = n->apply(std::move(grads));
    } catch (...) {
      n->end_use(false);
      throw;
    }
    n->end_use(false);
    out.resize(n->edges().size());
    if (out.size() == 1) return wrap_or_none(std::move(out[0]));
    Ref result = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(out.size()))));
    for (size_t i = 0; i < out.size(); ++i)
      PyTuple_SET_ITEM(result.get(), static_cast<Py_ssize_t>(i), check(wrap_or_none(std::move(out[i]))));
    return result.release();
  });
}
PyObject* node_sequence_nr(PyObject* self, PyObject*) {
  return guarded([&] { return PyLong_FromUnsignedLongLong(node_of(self)->sequence_nr()); });
}

// --- saved values ---

struct PySaved {
  PyObject_HEAD Node* owner;
  const autograd::SavedVariable* saved;  // a member of the owner
};
PyTypeObject SavedTensorType = {PyVarObject_HEAD_INIT(nullptr, 0)};
void saved_dealloc(PyObject* self) {
  if (Node* n = reinterpret_cast<PySaved*>(self)->owner) n->release();
  Py_TYPE(self)->tp_free(self);
}
PyObject* saved_register(PyObject* self, PyObject* args) {
  return guarded([&]() -> PyObject* {
    PyObject *pack, *unpack;
    if (!PyArg_ParseTuple(args, "OO:register_hooks", &pack, &unpack)) throw ErrorAlreadySet();
    const_cast<autograd::SavedVariable*>(reinterpret_cast<PySaved*>(self)->saved)
        ->register_hooks(make_pack_hooks(pack, unpack));
    return none();
  });
}
PyObject* saved_unpack(PyObject* self, void*) {
  return guarded([&] {
    return wrap_or_none(reinterpret_cast<PySaved*>(self)->saved->unpack(reinterpret_cast<PySaved*>(self)->owner));
  });
}
PyObject* saved_unpack_method(PyObject* self, PyObject*) { return saved_unpack(self, nullptr); }
PyObject* saved_data(PyObject* self, void*) {
  const autograd::SavedVariable& saved = *reinterpret_cast<PySaved*>(self)->saved;
  auto* packed = dynamic_cast<PyHolder*>(saved.packed());
  return packed ? Py_NewRef(packed->object) : saved_unpack(self, nullptr);
}
PyObject* saved_unpack_hook(PyObject* self, void*) {
  return unpack_function(reinterpret_cast<PySaved*>(self)->saved->hooks());
}
PyMethodDef g_saved_methods[] = {
    {"register_hooks", saved_register, METH_VARARGS,
     "register_hooks(pack_hook, unpack_hook): what is kept of this saved tensor, and how it comes back. Raises: "
     "RuntimeError if it has hooks, is None, or was freed."},
    {"unpack", saved_unpack_method, METH_NOARGS, "unpack() -> Tensor: the tensor, with its place in the graph."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef g_saved_getset[] = {
    {"data", saved_data, nullptr, "What is kept: the tensor, or what the hooks made of it.", nullptr},
    {"unpack_hook", saved_unpack_hook, nullptr, "The hook that makes the tensor of it, or None.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* no_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "cannot create '%s' instances", type->tp_name);
  return nullptr;
}

}  // namespace

PyGetSetDef g_node_getset[] = {
    {"next_functions", get_next_functions, nullptr, "Pairs (node, input number): where the gradients go.", nullptr},
    {"metadata", get_metadata, nullptr, "A dictionary for the user.", nullptr},
    {"_input_metadata", get_input_metadata, nullptr, "Shape, dtype and device of each gradient that comes in.",
     nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef g_node_methods[] = {
    {"name", node_name, METH_NOARGS, "name($self, /)\n--\n\nThe name of the node, such as \"MulBackward0\"."},
    {"_register_hook_dict", node_register_hook_dict, METH_O,
     "_register_hook_dict(hooks): a dictionary of hooks on the gradient that comes in."},
    {"_sequence_nr", node_sequence_nr, METH_NOARGS, nullptr},
    {"register_hook", node_register_hook, METH_O,
     "register_hook($self, fn, /)\n--\n\nfn(grad_inputs, grad_outputs) runs after the node and may return "
     "other grad_inputs. Returns a handle with remove()."},
    {"register_prehook", node_register_prehook, METH_O,
     "register_prehook($self, fn, /)\n--\n\nfn(grad_outputs) runs before the node and may return other "
     "grad_outputs. Returns a handle with remove()."},
    {nullptr, nullptr, 0, nullptr}};

PyObject* wrap_node(const NodePtr& node) {
  if (!node) return none();
  if (void* own = node->python_object()) return share_context(own);
  if (void* known = node->pyobject.load(std::memory_order_acquire)) return Py_NewRef(static_cast<PyObject*>(known));
  PyTypeObject* type = type_of(node->name());
  auto* p = reinterpret_cast<PyNode*>(check(type->tp_alloc(type, 0)));
  node->retain();
  p->node = node.get();
  node->pyobject.store(p, std::memory_order_release);
  return reinterpret_cast<PyObject*>(p);
}

PyObject* wrap_saved(const NodePtr& owner, const autograd::SavedVariable* saved) {
  auto* p = reinterpret_cast<PySaved*>(check(SavedTensorType.tp_alloc(&SavedTensorType, 0)));
  owner->retain();
  p->owner = owner.get();
  p->saved = saved;
  return reinterpret_cast<PyObject*>(p);
}

// Defined with the contexts (autograd_function.cc).
NodePtr node_of_context(PyObject* o);

bool is_node(PyObject* o) { return PyObject_TypeCheck(o, &NodeBaseType) || PyObject_TypeCheck(o, &FunctionBaseType); }
NodePtr node_of(PyObject* o) {
  if (PyObject_TypeCheck(o, &NodeBaseType)) return NodePtr::share(reinterpret_cast<PyNode*>(o)->node);
  if (PyObject_TypeCheck(o, &FunctionBaseType)) return node_of_context(o);
  throw TypeError(str_cat("expected a node of the autograd graph, got ", Py_TYPE(o)->tp_name));
}

autograd::Edge edge_of(PyObject* o) {
  if (is_tensor(o)) return autograd::gradient_edge(unwrap(o));
  if (PyTuple_Check(o) && PyTuple_GET_SIZE(o) >= 2 && is_node(PyTuple_GET_ITEM(o, 0)) &&
      PyLong_Check(PyTuple_GET_ITEM(o, 1))) {
    const long nr = PyLong_AsLong(PyTuple_GET_ITEM(o, 1));
    NodePtr n = node_of(PyTuple_GET_ITEM(o, 0));
    TESSERA_CHECK(nr >= 0 && static_cast<size_t>(nr) < n->outputs().size(), "a GradientEdge with output_nr ", nr,
                  " of ", n->name(), ", which has ", n->outputs().size(), " outputs");
    return {std::move(n), static_cast<uint32_t>(nr)};
  }
  throw TypeError(str_cat("expected a Tensor or a GradientEdge, got ", Py_TYPE(o)->tp_name));
}

void init_autograd_nodes(PyObject* module) {
  NodeBaseType.tp_name = "torch._C._NodeBase";
  NodeBaseType.tp_basicsize = sizeof(PyNode);
  NodeBaseType.tp_dealloc = node_dealloc;
  NodeBaseType.tp_getattro = node_getattro;
  NodeBaseType.tp_call = node_call;
  static std::vector<PyGetSetDef> getset;
  for (PyGetSetDef* g = g_node_getset; g->name; ++g) getset.push_back(*g);
  getset.push_back({"requires_grad", get_wants_grad, nullptr, "Whether a gradient flows on from here.", nullptr});
  getset.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  NodeBaseType.tp_getset = getset.data();
  NodeBaseType.tp_methods = g_node_methods;
  NodeBaseType.tp_new = no_new;
  NodeBaseType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  check(PyType_Ready(&NodeBaseType));
  Ref dir = Ref::steal(check(PyDescr_NewMethod(&NodeBaseType, g_dir_method)));
  check(PyDict_SetItemString(NodeBaseType.tp_dict, "__dir__", dir.get()));
  SavedTensorType.tp_name = "torch._C._SavedTensor";
  SavedTensorType.tp_basicsize = sizeof(PySaved);
  SavedTensorType.tp_dealloc = saved_dealloc;
  SavedTensorType.tp_methods = g_saved_methods;
  SavedTensorType.tp_getset = g_saved_getset;
  SavedTensorType.tp_new = no_new;
  SavedTensorType.tp_flags = Py_TPFLAGS_DEFAULT;
  check(PyType_Ready(&SavedTensorType));
  name_type(reinterpret_cast<PyObject*>(&SavedTensorType), "autograd.SavedTensor");
  check(PyModule_AddObjectRef(module, "_NodeBase", reinterpret_cast<PyObject*>(&NodeBaseType)));
  check(PyModule_AddObjectRef(module, "_SavedTensor", reinterpret_cast<PyObject*>(&SavedTensorType)));
}

}  // namespace tessera::python
