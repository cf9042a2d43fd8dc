// autograd.Function: the context object, the node that calls Python's backward, and apply.
#include "python/bindings/autograd/autograd.h"

#include <structmember.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>

#include "autograd/codegen_api.h"
#include "autograd/engine.h"
#include "autograd/forward_ad.h"
#include "autograd/function.h"
#include "autograd/variable.h"
#include "python/bindings/calls.h"
#include "python/bindings/tensor_type.h"
#include "tensor/core/transforms.h"

namespace tessera::python {
namespace {

using autograd::Node;
using autograd::variable_list;

class FunctionNode;

// The context: what forward and backward see as `ctx`. Its node holds it; it knows its node while that lives.
struct PyContext {
  PyObject_HEAD FunctionNode* node;
  PyObject* to_save;
  PyObject* saved_for_forward;
  PyObject* dirty_tensors;
  PyObject* non_differentiable;
  PyObject* needs_input_grad;
  char materialize_grads;
  char in_jvp;
};
PyContext* context(PyObject* o) { return reinterpret_cast<PyContext*>(o); }

constexpr const char* kFreed =
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been "
    "freed). Saved intermediate values of the graph are freed when you call .backward() "
    "or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second time or if you "
    "need to access saved tensors after calling backward.";

class FunctionNode final : public Node {
 public:
  explicit FunctionNode(PyObject* ctx) : ctx_(Py_NewRef(ctx)), name_(shown_name(ctx)) { context(ctx)->node = this; }
  ~FunctionNode() override {
    with_python([&] {
      context(ctx_)->node = nullptr;
      Py_DECREF(ctx_);
    });
  }
  variable_list apply(variable_list&& grads) override;
  const char* name() const override { return name_.c_str(); }
  void release_variables() override {
    for (autograd::SavedVariable& v : saved) v.reset();
    freed = true;
  }
  // The function decides what a missing gradient means.
  bool runs_without_gradients() const override { return true; }
  void* python_object() override { return ctx_; }

  std::vector<autograd::SavedVariable> saved;
  std::vector<autograd::OutputForm> forms;
  std::vector<bool> input_is_tensor;
  std::atomic<bool> freed{false};

 private:
  static std::string shown_name(PyObject* ctx) {
    const char* n = Py_TYPE(ctx)->tp_name;
    const char* dot = std::strrchr(n, '.');
    return dot ? dot + 1 : n;
  }
  Ref gradient_tuple(const variable_list& grads) const;
  variable_list read_gradients(PyObject* result) const;

  PyObject* ctx_;
  std::string name_;
};

NamedOp g_zeros("aten::zeros");

Ref FunctionNode::gradient_tuple(const variable_list& grads) const {
  Ref args = checked_call(PyTuple_New(static_cast<Py_ssize_t>(forms.size())));
  for (size_t i = 0; i < forms.size(); ++i) {
    Tensor g = i < grads.size() ? grads[i] : Tensor();
    const autograd::OutputForm& f = forms[i];
    if (!g.defined() && f.is_tensor && context(ctx_)->materialize_grads) {
      Value a[] = {Value::borrow(IntList(f.sizes)), Value::of(f.dtype), Value::none(), Value::of(f.device),
                   Value::none()},
            r;
      g_zeros.call(a, 5, &r, 1);
      g = r.take_tensor();
    }
    PyTuple_SET_ITEM(args.get(), static_cast<Py_ssize_t>(i), checked_call(wrap_or_none(std::move(g))).release());
  }
  return args;
}

variable_list FunctionNode::read_gradients(PyObject* result) const {
  Ref tuple = PyTuple_Check(result) ? Ref::borrow(result) : checked_call(PyTuple_Pack(1, result));
  const auto expected = static_cast<Py_ssize_t>(input_is_tensor.size());
  Py_ssize_t given = PyTuple_GET_SIZE(tuple.get());
  // Surplus Nones are allowed: functions with optional arguments return them.
  while (given > expected && PyTuple_GET_ITEM(tuple.get(), given - 1) == Py_None) --given;
  TESSERA_CHECK(given == expected, "function ", name_, " returned an incorrect number of gradients (expected ",
                expected, ", got ", PyTuple_GET_SIZE(tuple.get()), ")");
  variable_list grads;
  for (Py_ssize_t i = 0; i < expected; ++i) {
    PyObject* g = PyTuple_GET_ITEM(tuple.get(), i);
    if (!input_is_tensor[static_cast<size_t>(i)]) {
      TESSERA_CHECK(g == Py_None, "function ", name_, " returned a gradient different from None at position ", i + 1,
                    ", but the corresponding forward input was not a Variable");
      continue;
    }
    if (g == Py_None) {
      grads.emplace_back();
      continue;
    }
    if (!is_tensor(g))
      throw Error(str_cat("function ", name_, " returned a gradient at position ", i + 1,
                          " that is neither a Tensor nor None: expected Variable or None (got ", Py_TYPE(g)->tp_name,
                          ")"));
    grads.push_back(unwrap(g));
  }
  return grads;
}

variable_list FunctionNode::apply(variable_list&& grads) {
  GilAcquire gil;
  Ref keep = Ref::borrow(ctx_);
  try {
    Ref args = gradient_tuple(grads);
    grads.clear();
    Ref backward = checked_call(PyObject_GetAttrString(ctx_, "apply"));
    Ref result = checked_call(PyObject_CallObject(backward.get(), args.get()));
    return read_gradients(result.get());
  } catch (const ErrorAlreadySet&) { throw PythonError(); }
}

// --- apply ---

// The tensors of ctx.dirty_tensors or ctx.non_differentiable.
std::vector<TensorImpl*> marked(PyObject* list, const char* what) {
  std::vector<TensorImpl*> r;
  if (!list || list == Py_None) return r;
  Ref fast = Ref::steal(check(PySequence_Fast(list, "the marked tensors must be a tuple")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    PyObject* o = PySequence_Fast_GET_ITEM(fast.get(), i);
    if (!is_tensor(o))
      throw TypeError(str_cat(what, " can only accept tensors, but argument ", i, " is of type ", Py_TYPE(o)->tp_name));
    r.push_back(unwrap(o).impl());
  }
  return r;
}
// Connects the outputs of one call to its node (null: nothing is recorded).
Ref connect_outputs(PyContext* ctx, const IntrusivePtr<FunctionNode>& node, std::vector<TensorImpl*> inputs,
                    PyObject* outputs) {
  autograd::OutputConnector connector(node, std::move(inputs), marked(ctx->dirty_tensors, "mark_dirty"),
                                      marked(ctx->non_differentiable, "mark_non_differentiable"));
  const Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  std::vector<Tensor> tensors;
  for (Py_ssize_t i = 0; i < n; ++i)
    if (PyObject* o = PyTuple_GET_ITEM(outputs, i); is_tensor(o)) tensors.push_back(unwrap(o));
  connector.check_dirty(tensors);
  Ref result = Ref::steal(check(PyTuple_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    if (node) node->forms.push_back(is_tensor(o) ? autograd::form_of(unwrap(o)) : autograd::OutputForm());
    if (is_tensor(o)) {
      PyTuple_SET_ITEM(result.get(), i, wrap(connector.connect(unwrap(o), static_cast<size_t>(n))));
      continue;
    }
    if (node) node->add_output_without_history();
    PyTuple_SET_ITEM(result.get(), i, Py_NewRef(o));
  }
  connector.finish();
  return result;
}

void save_tensors(PyContext* ctx, FunctionNode* node) {
  Ref to_save = Ref::steal(std::exchange(ctx->to_save, nullptr));
  if (!node || !to_save || to_save.get() == Py_None) return;
  if (!PyTuple_Check(to_save.get()))
    throw TypeError(str_cat("saved tensors must be a tuple, got ", Py_TYPE(to_save.get())->tp_name));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(to_save.get()); ++i) {
    PyObject* o = PyTuple_GET_ITEM(to_save.get(), i);
    if (o == Py_None) {
      node->saved.emplace_back();
      continue;
    }
    if (!is_tensor(o))
      throw TypeError(
          str_cat("save_for_backward can only save variables, but argument ", i, " is of type ", Py_TYPE(o)->tp_name));
    const Tensor& t = unwrap(o);
    node->saved.emplace_back(t, autograd::grad_fn(t).get() == static_cast<Node*>(node));
  }
}

bool has_own_setup_context(PyObject* cls) {
  static constinit MadeOnce plain;
  const auto find = [] {
    Ref m = Ref::steal(check(PyImport_ImportModule("tessera.autograd.function")));
    Ref base = Ref::steal(check(PyObject_GetAttrString(m.get(), "_SingleLevelFunction")));
    return Ref::steal(check(PyObject_GetAttrString(base.get(), "setup_context")));
  };
  Ref mine = Ref::steal(check(PyObject_GetAttrString(cls, "setup_context")));
  return mine.get() != plain.get(find);
}

// forward without recording; with setup_context, ctx is filled afterwards.
Ref run_forward(PyObject* cls, PyObject* ctx, PyObject* args) {
  NoGradGuard no_grad;
  Ref forward = Ref::steal(check(PyObject_GetAttrString(cls, "forward")));
  if (has_own_setup_context(cls)) {
    Ref out = Ref::steal(check(PyObject_CallObject(forward.get(), args)));
    Ref setup = Ref::steal(check(PyObject_GetAttrString(cls, "setup_context")));
    Ref done = Ref::steal(check(PyObject_CallFunctionObjArgs(setup.get(), ctx, args, out.get(), nullptr)));
    return out;
  }
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  Ref full = Ref::steal(check(PyTuple_New(n + 1)));
  PyTuple_SET_ITEM(full.get(), 0, Py_NewRef(ctx));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(full.get(), i + 1, Py_NewRef(PyTuple_GET_ITEM(args, i)));
  return Ref::steal(check(PyObject_CallObject(forward.get(), full.get())));
}

// --- forward mode ---

// The tangents of a call's arguments.
void gather_tangents(PyObject* args, autograd::FunctionTangents& tangents) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    if (is_tensor(o))
      tangents.add_input(unwrap(o));
    else
      tangents.add_input(Tensor());
  }
  tangents.begin();
}
// What jvp gets: None for what is no tensor; zeros for a missing tangent, or None without materialize_grads.
Ref tangent_tuple(const autograd::FunctionTangents& tangents, PyObject* args, bool materialize) {
  Ref tuple = Ref::steal(check(PyTuple_New(PyTuple_GET_SIZE(args))));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    Tensor t = tangents.input(static_cast<size_t>(i), is_tensor(o) ? unwrap(o) : Tensor(), materialize);
    PyTuple_SET_ITEM(tuple.get(), i, check(wrap_or_none(std::move(t))));
  }
  return tuple;
}

bool contains(const std::vector<TensorImpl*>& l, const Tensor& t) {
  return std::find(l.begin(), l.end(), t.impl()) != l.end();
}

// Calls jvp and gives the outputs its results.
void run_jvp(PyObject* cls, PyContext* ctx, PyObject* args, const autograd::FunctionTangents& inputs,
             PyObject* outputs) {
  const std::vector<TensorImpl*> dirty = marked(ctx->dirty_tensors, "mark_dirty"),
                                 constant = marked(ctx->non_differentiable, "mark_non_differentiable");
  const std::string name = reinterpret_cast<PyTypeObject*>(cls)->tp_name;
  Ref jvp = Ref::steal(check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(ctx), "apply_jvp")));
  ctx->in_jvp = 1;
  struct Leave {
    PyContext* ctx;
    ~Leave() { ctx->in_jvp = 0; }
  } leave{ctx};
  Ref given =
      Ref::steal(check(PyObject_CallObject(jvp.get(), tangent_tuple(inputs, args, ctx->materialize_grads).get())));
  if (!PyTuple_Check(given.get())) given = Ref::steal(check(PyTuple_Pack(1, given.get())));
  const Py_ssize_t n = PyTuple_GET_SIZE(outputs);
  TESSERA_CHECK(PyTuple_GET_SIZE(given.get()) == n, name, ".jvp returned ", PyTuple_GET_SIZE(given.get()),
                " tangents, but forward has ", n, " outputs: one is expected for each (None where there is none)");
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(outputs, i);
    if (!is_tensor(o) || !(unwrap(o).is_floating_point() || unwrap(o).is_complex()) || contains(constant, unwrap(o)))
      continue;
    PyObject* tangent = PyTuple_GET_ITEM(given.get(), i);
    if (tangent != Py_None && !is_tensor(tangent))
      throw TypeError(str_cat(name, ".jvp returned a ", Py_TYPE(tangent)->tp_name, " at position ", i,
                              ": expected a Tensor or None for each output of forward"));
    inputs.put(unwrap(o), tangent == Py_None ? Tensor() : unwrap(tangent), static_cast<size_t>(i), name.c_str(),
               contains(dirty, unwrap(o)));
    if (ctx->node)
      for (const autograd::SavedVariable& v : ctx->node->saved)
        v.give_tangent(unwrap(o), autograd::tangent_of(unwrap(o)), autograd::tangent_level(unwrap(o)));
  }
}

PyObject* apply(PyObject* cls, PyObject* args) {
  Ref backward_cls = Ref::steal(check(PyObject_GetAttrString(cls, "_backward_cls")));
  Ref made = Ref::steal(check(PyObject_CallNoArgs(backward_cls.get())));
  if (!PyObject_TypeCheck(made.get(), &FunctionBaseType)) throw TypeError("_backward_cls must be a class of contexts");
  PyContext* ctx = context(made.get());
  const Py_ssize_t n = PyTuple_GET_SIZE(args);
  std::vector<TensorImpl*> inputs;
  std::vector<bool> is_tensor_input(static_cast<size_t>(n));
  bool any = false;
  Ref needs = Ref::steal(check(PyTuple_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = PyTuple_GET_ITEM(args, i);
    bool wants = false;
    if (is_tensor(o)) {
      wants = unwrap(o).requires_grad();
      inputs.push_back(unwrap(o).impl());
      is_tensor_input[static_cast<size_t>(i)] = true;
    }
    any = any || wants;
    PyTuple_SET_ITEM(needs.get(), i, to_python(wants));
  }
  Py_XSETREF(ctx->needs_input_grad, needs.release());
  IntrusivePtr<FunctionNode> node;
  if (any && grad_mode_enabled() && !inference_mode_enabled()) {
    node = make_intrusive<FunctionNode>(made.get());
    node->input_is_tensor = std::move(is_tensor_input);
    for (TensorImpl* t : inputs) node->add_edge(autograd::gradient_edge(Tensor(IntrusivePtr<TensorImpl>::share(t))));
    const autograd::AnomalyMode& anomaly = autograd::anomaly_mode();
    if (anomaly.enabled && anomaly.on_record) anomaly.on_record(*node);
  }
  autograd::FunctionTangents tangents;
  gather_tangents(args, tangents);
  Ref out = run_forward(cls, made.get(), args);
  const bool single = !PyTuple_Check(out.get());
  Ref outputs = single ? Ref::steal(check(PyTuple_Pack(1, out.get()))) : out;
  Ref wrapped = connect_outputs(ctx, node, std::move(inputs), outputs.get());
  save_tensors(ctx, node.get());
  if (tangents.any()) run_jvp(cls, ctx, args, tangents, wrapped.get());
  Py_CLEAR(ctx->saved_for_forward);
  Py_CLEAR(ctx->dirty_tensors);
  Py_CLEAR(ctx->non_differentiable);
  return single ? Py_NewRef(PyTuple_GET_ITEM(wrapped.get(), 0)) : wrapped.release();
}
// Inside of a function transform the call is the levels' business (tessera/func/_custom.py), which come back here by
// _apply_recorded.
PyObject* apply_in_transform(PyObject* cls, PyObject* args) {
  static constinit MadeOnce general;
  const auto find = [] {
    Ref m = Ref::steal(check(PyImport_ImportModule("tessera.func._custom")));
    return Ref::steal(check(PyObject_GetAttrString(m.get(), "apply")));
  };
  return check(PyObject_CallFunctionObjArgs(general.get(find), cls, args, nullptr));
}
PyObject* py_apply(PyObject* cls, PyObject* args) {
  return guarded([&] { return inside_transform() ? apply_in_transform(cls, args) : apply(cls, args); });
}
PyObject* py_apply_recorded(PyObject* cls, PyObject* args) {
  return guarded([&] { return apply(cls, args); });
}

// --- the context type ---

PyObject* context_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyObject* o = type->tp_alloc(type, 0);
  if (o) context(o)->materialize_grads = 1;
  return o;
}
int context_traverse(PyObject* self, visitproc visit, void* arg) {
  PyContext* c = context(self);
  Py_VISIT(c->to_save);
  Py_VISIT(c->saved_for_forward);
  Py_VISIT(c->dirty_tensors);
  Py_VISIT(c->non_differentiable);
  Py_VISIT(c->needs_input_grad);
  return 0;
}
int context_clear(PyObject* self) {
  PyContext* c = context(self);
  Py_CLEAR(c->to_save);
  Py_CLEAR(c->saved_for_forward);
  Py_CLEAR(c->dirty_tensors);
  Py_CLEAR(c->non_differentiable);
  Py_CLEAR(c->needs_input_grad);
  return 0;
}
void context_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  context_clear(self);
  Py_TYPE(self)->tp_free(self);
}

template <class F>
PyObject* saved_tuple(PyObject* self, F f) {
  return guarded([&]() -> PyObject* {
    FunctionNode* node = context(self)->node;
    if (!node) return check(PyTuple_New(0));
    TESSERA_CHECK(!node->freed, kFreed);
    const auto owner = IntrusivePtr<Node>::share(node);
    Ref t = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(node->saved.size()))));
    for (size_t i = 0; i < node->saved.size(); ++i)
      PyTuple_SET_ITEM(t.get(), static_cast<Py_ssize_t>(i), check(f(owner, node->saved[i])));
    return t.release();
  });
}
PyObject* get_saved_tensors(PyObject* self, void*) {
  if (context(self)->in_jvp) {  // what save_for_forward kept
    PyObject* kept = context(self)->saved_for_forward;
    return kept && kept != Py_None ? Py_NewRef(kept) : PyTuple_New(0);
  }
  return saved_tuple(self, [](const IntrusivePtr<Node>& owner, const autograd::SavedVariable& v) {
    return wrap_or_none(v.unpack(owner.get()));
  });
}
PyObject* get_raw_saved(PyObject* self, void*) {
  return saved_tuple(
      self, [](const IntrusivePtr<Node>& owner, const autograd::SavedVariable& v) { return wrap_saved(owner, &v); });
}
PyObject* clear_saved(PyObject* self, PyObject*) {
  if (FunctionNode* node = context(self)->node) node->release_variables();
  return none();
}
PyObject* get_requires_grad(PyObject* self, void*) { return to_python(context(self)->node != nullptr); }

std::vector<PyGetSetDef> g_getset;
std::vector<PyMethodDef> g_methods;
PyMemberDef g_members[] = {{"to_save", T_OBJECT, offsetof(PyContext, to_save), 0, nullptr},
                           {"saved_for_forward", T_OBJECT, offsetof(PyContext, saved_for_forward), 0, nullptr},
                           {"dirty_tensors", T_OBJECT, offsetof(PyContext, dirty_tensors), 0, nullptr},
                           {"non_differentiable", T_OBJECT, offsetof(PyContext, non_differentiable), 0, nullptr},
                           {"needs_input_grad", T_OBJECT, offsetof(PyContext, needs_input_grad), 0,
                            "For each input of forward whether it wants a gradient."},
                           {"materialize_grads", T_BOOL, offsetof(PyContext, materialize_grads), 0, nullptr},
                           {nullptr, 0, 0, 0, nullptr}};

}  // namespace

PyTypeObject FunctionBaseType = {PyVarObject_HEAD_INIT(nullptr, 0)};

IntrusivePtr<Node> node_of_context(PyObject* o) {
  FunctionNode* node = context(o)->node;
  TESSERA_CHECK(node, "the node of this ", Py_TYPE(o)->tp_name,
                " is gone: the graph that it was part of has been freed, or the call was not recorded. Keep an output "
                "of the function alive to use its node.");
  return IntrusivePtr<Node>::share(node);
}

void init_autograd_function(PyObject* module) {
  for (PyGetSetDef* g = g_node_getset; g->name; ++g) g_getset.push_back(*g);
  g_getset.push_back({"saved_tensors", get_saved_tensors, nullptr,
                      "What save_for_backward kept. RuntimeError once the graph was freed.", nullptr});
  g_getset.push_back({"saved_variables", get_saved_tensors, nullptr, nullptr, nullptr});
  g_getset.push_back({"_raw_saved_tensors", get_raw_saved, nullptr, nullptr, nullptr});
  g_getset.push_back({"requires_grad", get_requires_grad, nullptr, nullptr, nullptr});
  g_getset.push_back({nullptr, nullptr, nullptr, nullptr, nullptr});
  for (PyMethodDef* m = g_node_methods; m->ml_name; ++m) g_methods.push_back(*m);
  g_methods.push_back({"maybe_clear_saved_tensors", clear_saved, METH_NOARGS, nullptr});
  g_methods.push_back(
      {"apply", py_apply, METH_CLASS | METH_VARARGS, "apply(*args): runs forward and records the call."});
  g_methods.push_back({"_apply_recorded", py_apply_recorded, METH_CLASS | METH_VARARGS,
                       "apply for the innermost function transform alone."});
  g_methods.push_back({nullptr, nullptr, 0, nullptr});
  FunctionBaseType.tp_name = "torch._C._FunctionBase";
  FunctionBaseType.tp_basicsize = sizeof(PyContext);
  FunctionBaseType.tp_dealloc = context_dealloc;
  FunctionBaseType.tp_traverse = context_traverse;
  FunctionBaseType.tp_clear = context_clear;
  FunctionBaseType.tp_new = context_new;
  FunctionBaseType.tp_getset = g_getset.data();
  FunctionBaseType.tp_methods = g_methods.data();
  FunctionBaseType.tp_members = g_members;
  FunctionBaseType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  check(PyType_Ready(&FunctionBaseType));
  check(PyModule_AddObjectRef(module, "_FunctionBase", reinterpret_cast<PyObject*>(&FunctionBaseType)));
}

}  // namespace tessera::python
