#include "python/bindings/library/fake.h"

#include <structmember.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "python/bindings/autograd/autograd.h"
#include "python/bindings/calls.h"
#include "python/bindings/errors.h"
#include "python/bindings/library/library.h"
#include "python/bindings/operators.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"
#include "tensor/core/layouts/sparse.h"
#include "tensor/core/transforms.h"
#include "tensor/dispatch/runtime_state.h"
#include "tensor/dispatch/schema.h"

namespace tessera::python {
namespace {

constexpr DispatchKeySet kBits = DispatchKeySet(DispatchKey::kConjugate) | DispatchKey::kNegative;
DispatchKeySet meta_keys(const TensorImpl& impl) {
  return DispatchKeySet(backend_key(DeviceType::kMeta, impl.layout()));
}

PyTypeObject* g_fake_type = nullptr;

// --- the mode, and what a fake tensor knows of it ---

class FakeInfo;

// The base of FakeTensorMode.
struct FakeMode {
  PyObject_HEAD FakeInfo* shared;  // of tensors without a constant; weak: it clears this when it dies
  char allow_non_fake_inputs;
  char symbolic;  // it has made symbols
  char native;    // calls may be handled here: __torch_dispatch__ is FakeTensorMode's own
};
PyTypeObject ModeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
bool is_mode(PyObject* o) { return o && PyObject_TypeCheck(o, &ModeType); }
FakeMode* as_mode(PyObject* o) { return reinterpret_cast<FakeMode*>(o); }

// Lies in ExtraMeta::backend_meta. That of a sparse tensor keeps its members, which are on the meta device.
class FakeInfo final : public sparse::MembersKeeper {
 public:
  explicit FakeInfo(FakeMode* m) : mode_(m) { Py_INCREF(reinterpret_cast<PyObject*>(m)); }
  ~FakeInfo() override {
    with_python([&] {
      if (mode_->shared == this) mode_->shared = nullptr;
      Py_DECREF(reinterpret_cast<PyObject*>(mode_));
    });
  }
  FakeMode* mode() const { return mode_; }
  // The value, while nobody wrote to the fake tensor's storage.
  Tensor constant(const TensorImpl& impl) const {
    return constant_.defined() && impl.has_version() && impl.version() == version_ ? constant_ : Tensor();
  }
  void set_constant(Tensor c, uint32_t version) {
    constant_ = std::move(c);
    version_ = version;
  }
  bool has_constant() const { return constant_.defined(); }

 private:
  FakeMode* mode_;
  Tensor constant_;
  uint32_t version_ = 0;
};

// A Python object in one of the slots of ExtraMeta.
struct HeldObject final : RefCounted {
  explicit HeldObject(PyObject* o) : object(Py_NewRef(o)) {}
  ~HeldObject() override { drop_reference(object); }
  PyObject* object;
};

FakeInfo* info_of(const TensorImpl& impl) {
  const ExtraMeta* extra = impl.extra();
  RefCounted* meta = extra ? extra->backend_meta.get() : nullptr;
  return meta && typeid(*meta) == typeid(FakeInfo) ? static_cast<FakeInfo*>(meta) : nullptr;
}
bool is_fake(const Tensor& t) {
  return t.defined() && t.keys().has(DispatchKey::kPython) && info_of(*t.impl()) != nullptr;
}
// Of a tensor that is to become a fake one.
IntrusivePtr<RefCounted> info_for(FakeMode* mode, const TensorImpl& impl) {
  if (impl.layout() != Layout::kStrided && impl.extra() && impl.extra()->backend_meta) {
    auto own = make_intrusive<FakeInfo>(mode);
    own->kept = impl.extra()->backend_meta;
    return own;
  }
  if (mode->shared) return IntrusivePtr<RefCounted>::share(mode->shared);
  auto fresh = make_intrusive<FakeInfo>(mode);
  mode->shared = fresh.get();
  return fresh;
}

void make_fake(TensorImpl& impl, Device device, IntrusivePtr<RefCounted> info) {
  impl.set_device(device);
  impl.set_keys((impl.keys() & kBits) | meta_keys(impl) | DispatchKey::kPython);
  ExtraMeta& extra = impl.materialize_extra();
  extra.backend_meta = std::move(info);
  extra.symbolic_shape = {};
}

Tensor constant_of(const Tensor& t) {
  const FakeInfo* info = t.defined() ? info_of(*t.impl()) : nullptr;
  return info ? info->constant(*t.impl()) : Tensor();
}
void set_constant(const Tensor& t, Tensor value) {
  FakeInfo* info = info_of(*t.impl());
  auto own = make_intrusive<FakeInfo>(info->mode());
  own->kept = info->kept;
  own->set_constant(std::move(value), t.impl()->version());
  t.impl()->materialize_extra().backend_meta = std::move(own);
}

// --- what is known of an operator ---

struct Plan {
  int device_arg = -1, pin_arg = -1;
  bool mixes_devices = false;    // the result is where the first tensor is: copies, indices
  bool in_python = false;        // results depend on values, or a kernel written in Python tells them
  bool sized_by_values = false;  // a composite operator that asks for values to know the size of its result
  bool random = false;
  bool masks = false;  // indices that are masks make the size of the result depend on values
};

bool one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (std::string_view n : names)
    if (n == name) return true;
  return false;
}
Plan make_plan(const OpHeader& op) {
  Plan p;
  const FunctionSchema schema = parse_schema(op.info->schema());
  for (size_t i = 0; i < schema.arguments.size(); ++i) {
    const SchemaArgument& a = schema.arguments[i];
    if (a.name == "device" && a.type.str_without_alias().starts_with("Device")) p.device_arg = static_cast<int>(i);
    if (a.name == "pin_memory") p.pin_arg = static_cast<int>(i);
    if (a.name == "generator") p.random = true;
  }
  const std::string_view name = op.name, tags = op.info->tags();
  p.mixes_devices =
      one_of(name, {"aten::copy_", "aten::copy", "aten::_to_copy", "aten::index", "aten::index_put_", "aten::index_put",
                    "aten::_index_put_impl_", "aten::set_", "aten::_unsafe_index", "aten::_unsafe_index_put"});
  p.random = p.random || tags.find("nondeterministic_seeded") != std::string_view::npos ||
             one_of(name, {"aten::bernoulli_", "aten::native_dropout", "aten::dropout", "aten::rand_like",
                           "aten::randn_like", "aten::randint_like"});
  p.masks = one_of(name, {"aten::index", "aten::_unsafe_index"});
  p.in_python = one_of(name, {"aten::_local_scalar_dense", "aten::equal", "aten::nonzero", "aten::nonzero_static",
                              "aten::masked_select", "aten::unique_dim", "aten::_unique", "aten::_unique2",
                              "aten::unique_consecutive", "aten::unique_dim_consecutive", "aten::bincount",
                              "aten::is_same_size"}) ||
                (name == "aten::repeat_interleave" && std::string_view(op.overload) != "self_int") ||
                tags.find("dynamic_output_shape") != std::string_view::npos ||
                tags.find("data_dependent_output") != std::string_view::npos ||
                op.info->table() == std::string_view("torch.library");
  p.sized_by_values = name == "aten::bincount" ||
                      (name == "aten::repeat_interleave" && std::string_view(op.overload) != "self_int") ||
                      (name == "aten::tensor_split" && std::string_view(op.overload) == "tensor_indices_or_sections");
  return p;
}
const Plan& plan_of(const OpHeader& op) {
  static auto* known = new std::unordered_map<const OpHeader*, Plan>;  // guarded by the lock of Python
  auto it = known->find(&op);
  if (it == known->end()) it = known->emplace(&op, make_plan(op)).first;
  return it->second;
}

template <class F>
void each_tensor(const Value* args, size_t n, F f) {
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor()) {
      if (args[i].tensor().defined()) f(args[i].tensor());
    } else if (args[i].is_tensor_list()) {
      for (const Tensor& t : args[i].tensor_list())
        if (t.defined()) f(t);
    }
  }
}

Ref exception_type(const char* name) {
  Ref m = checked_call(PyImport_ImportModule("tessera._subclasses.fake_tensor"));
  return checked_call(PyObject_GetAttrString(m.get(), name));
}

// --- devices ---

// Where the result is: as kernels on devices have it, a 0-dim CPU tensor goes with tensors of any device.
class CommonDevice {
 public:
  explicit CommonDevice(bool mixes) : mixes_(mixes) {}
  void add(const Tensor& t) {
    const Device d = t.device();
    const bool number = d.is_cpu() && t.dim() == 0;
    if (!found_ || (number_ && !number && !mixes_)) {
      if (found_ && !(device_ == d) && !number_) mismatch(d);
      device_ = d;
      number_ = number;
      found_ = true;
      return;
    }
    if (!mixes_ && !number && !(device_ == d)) mismatch(d);
  }
  bool found() const { return found_; }
  Device device() const { return device_; }

 private:
  [[noreturn]] void mismatch(Device d) const {
    static constinit MadeOnce type;
    PyObject* cls = type.get([] { return exception_type("FakeTensorDeviceMismatchError"); });
    const std::string text = str_cat("Expected all tensors to be on the same device, but found at least two devices, ",
                                     device_.str(), " and ", d.str(), "!");
    PyErr_SetString(cls, text.c_str());
    throw ErrorAlreadySet();
  }
  bool mixes_, found_ = false, number_ = false;
  Device device_;
};

// Fake tensors as meta tensors, and back at the end. A kernel does not let go of the interpreter's lock, so nobody sees
// them in between.
class AsMeta {
 public:
  AsMeta(const Value* args, size_t n) {
    each_tensor(args, n, [&](const Tensor& t) {
      TensorImpl* impl = t.impl();
      FakeInfo* info = impl->keys().has(DispatchKey::kPython) ? info_of(*impl) : nullptr;
      if (!info) return;
      keys_ |= (impl->keys() & kBits) | meta_keys(*impl);
      const auto sparse = info->kept ? IntrusivePtr<FakeInfo>::share(info) : nullptr;
      swapped_.push_back({impl, impl->keys(), impl->device(), sparse});
      impl->set_device(Device(DeviceType::kMeta));
      impl->set_keys(meta_keys(*impl) | (impl->keys() & kBits));
      if (sparse) impl->materialize_extra().backend_meta = sparse->kept;
    });
  }
  ~AsMeta() {
    for (const Old& o : swapped_) {
      o.impl->set_device(o.device);
      o.impl->set_keys((o.keys - kBits) | (o.impl->keys() & kBits));
      if (!o.sparse) continue;
      const bool same = o.impl->extra()->backend_meta.get() == o.sparse->kept.get();  // else it was written to
      o.impl->materialize_extra().backend_meta =
          same ? IntrusivePtr<RefCounted>(o.sparse) : info_for(o.sparse->mode(), *o.impl);
    }
  }
  AsMeta(const AsMeta&) = delete;
  DispatchKeySet keys() const { return keys_; }

 private:
  struct Old {
    TensorImpl* impl;
    DispatchKeySet keys;
    Device device;
    IntrusivePtr<FakeInfo> sparse;
  };
  std::vector<Old> swapped_;
  DispatchKeySet keys_;
};

// Another value for an argument, until the end of the scope.
class Replaced {
 public:
  Replaced(const Value* args, int at, Value v) {
    if (at < 0) return;
    place_ = const_cast<Value*>(args) + at;
    saved_ = std::move(*place_);
    *place_ = std::move(v);
  }
  ~Replaced() {
    if (place_) *place_ = std::move(saved_);
  }
  Replaced(const Replaced&) = delete;

 private:
  Value* place_ = nullptr;
  Value saved_;
};

// --- calls ---

// What the operator gives for the constants, where all tensors are such; written ones change, too.
bool run_on_constants(const OpHeader& op, const Plan& plan, const Value* args, size_t n, Value* results) {
  if (plan.random) return false;
  std::vector<Value> real(args, args + n);
  bool any = false;
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor_list()) return false;
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Tensor& t = args[i].tensor();
    Tensor c = constant_of(t);
    if (!c.defined() && (is_fake(t) || !t.impl()->is_wrapped_number())) return false;
    any = any || c.defined();
    if (c.defined()) real[i] = Value::of(std::move(c));
  }
  if (!any) return false;
  op.info->adapter->call(op, nullptr, real.data(), results);
  return true;
}

void keep_constants(Value* rets, size_t num_rets, const Value* constants) {
  for (size_t i = 0; i < num_rets; ++i) {
    if (!rets[i].is_tensor() || !rets[i].tensor().defined() || !constants[i].is_tensor()) continue;
    const Tensor &fake = rets[i].tensor(), &real = constants[i].tensor();
    if (real.defined() && real.numel() <= 1 && is_fake(fake) && fake.impl()->has_version()) set_constant(fake, real);
  }
}

// A fake twin of a tensor that no program knows.
Tensor fake_of_internal(PyObject* mode, const Tensor& t) {
  const Device meta(DeviceType::kMeta);
  auto impl = make_tensor_impl(StorageImpl::without_data(meta, t.storage()->nbytes()), t.dtype(), meta,
                               DispatchKeySet(DispatchKey::kMeta));
  impl->set_shape_of(*t.impl());
  impl->set_wrapped_number(t.impl()->is_wrapped_number());
  make_fake(*impl, t.device(), info_for(as_mode(mode), *impl));
  return Tensor(std::move(impl));
}

Tensor fake_of(PyObject* mode, const Tensor& t) {
  static constinit MadeOnce name;
  PyObject* method = name.get([] { return Ref::steal(check(PyUnicode_InternFromString("_from_operand"))); });
  Ref o = checked_call(wrap(t));
  Ref made = checked_call(PyObject_CallMethodOneArg(mode, method, o.get()));
  TESSERA_CHECK_TYPE(is_tensor(made.get()), "FakeTensorMode._from_operand() returned ", Py_TYPE(made.get())->tp_name);
  return unwrap(made.get());
}

// mode.<method>(func, args, kwargs) with the arguments as a program would write them.
void call_in_python(PyObject* mode, const char* method, const OpHeader& op, const Value* args, size_t num_args,
                    Value* rets, size_t num_rets, PyObject* symbols = nullptr) {
  Ref func = checked_call(overload_object(op)), positional, keywords;
  call_as_written(*op.info, args, num_args, &positional, &keywords, symbols);
  Ref r = checked_call(PyObject_CallMethod(mode, method, "OOO", func.get(), positional.get(), keywords.get()));
  results_from_python(*op.info, r.get(), rets, num_rets);
}

// Real tensors among the arguments: numbers stay, others are refused or converted. `copy` keeps what `args` then name.
void take_real_tensors(PyObject* mode, const OpHeader& op, std::vector<Value>* copy, const Value** args, size_t n) {
  const auto real = [](const Tensor& t) { return t.defined() && !is_fake(t) && !t.impl()->is_wrapped_number(); };
  bool any = false, of_program = false;  // what a composite operator made on its way has no Python object
  each_tensor(*args, n, [&](const Tensor& t) {
    any = any || real(t);
    of_program = of_program || (real(t) && t.impl()->pyobject.load());
  });
  if (!any) return;
  if (of_program && !as_mode(mode)->allow_non_fake_inputs) {
    Value none;
    call_in_python(mode, "_refuse_real_tensors", op, *args, n, &none, 0);
  }
  const auto twin = [mode](const Tensor& t) {
    return t.impl()->pyobject.load() ? fake_of(mode, t) : fake_of_internal(mode, t);
  };
  copy->assign(*args, *args + n);
  for (Value& v : *copy) {
    if (v.is_tensor() && real(v.tensor())) v = Value::of(twin(v.tensor()));
    if (!v.is_tensor_list()) continue;
    std::vector<Tensor> list;
    for (const Tensor& t : v.tensor_list()) list.push_back(real(t) ? twin(t) : t);
    v = Value::of(std::move(list));
  }
  *args = copy->data();
}

Device result_device(const Plan& plan, const CommonDevice& common, const Value* args) {
  if (plan.device_arg >= 0 && !args[plan.device_arg].is_none()) {
    Device d = args[plan.device_arg].device();
    if (!d.is_cpu() && !d.is_meta() && d.index < 0) d.index = 0;
    return d;
  }
  return common.found() ? common.device() : Device();
}

void fake_call(PyObject* mode, const OpHeader& op, const Value* args, size_t num_args, Value* rets, size_t num_rets,
               PyObject* symbols) {
  std::vector<Value> copy;
  const Plan& plan = plan_of(op);
  take_real_tensors(mode, op, &copy, &args, num_args);
  CommonDevice common(plan.mixes_devices);
  bool constants = false, symbolic = symbols != nullptr;
  each_tensor(args, num_args, [&](const Tensor& t) {
    const FakeInfo* info = info_of(*t.impl());
    if (!info) return;  // a number
    if (info->mode() != as_mode(mode)) {
      PyErr_Format(PyExc_AssertionError, "Mixing fake modes NYI: %s got tensors of two FakeTensorModes", op.name);
      throw ErrorAlreadySet();
    }
    common.add(t);
    constants = constants || info->has_constant();
    symbolic = symbolic || t.impl()->extra()->symbolic_shape;
  });
  const bool masked = plan.masks && std::ranges::any_of(args[1].tensor_list(), [](const Tensor& i) {
                        return i.defined() && (i.dtype() == DType::kBool || i.dtype() == DType::kUInt8);
                      });
  Value real[8];
  const bool computed = constants && num_rets <= 8 && !symbolic && [&] {
    const ExcludeKeys off(DispatchKeySet(DispatchKey::kPython));
    return run_on_constants(op, plan, args, num_args, real);
  }();
  const bool replaced = op.ext && internal::extension_kernel(op, DispatchKey::kMeta);
  if (symbolic || plan.in_python || replaced || masked) {
    if (computed && num_rets == 1 && !real[0].is_tensor()) {
      rets[0] = std::move(real[0]);
      return;
    }
    const char* symbolic_method = called_operator == &op ? "_symbolic_call" : "_symbolic_inner_call";
    call_in_python(mode, symbolic ? symbolic_method : "_call_in_python", op, args, num_args, rets, num_rets, symbols);
    return;
  }
  const Device device = result_device(plan, common, args);
  {
    const Replaced on_meta(args, plan.device_arg,
                           plan.device_arg >= 0 && common.found() && args[plan.device_arg].is_none()
                               ? Value::none()
                               : Value::of(Device(DeviceType::kMeta)));
    const Replaced not_pinned(args, plan.pin_arg, Value::none());
    const ExcludeKeys off(DispatchKeySet(DispatchKey::kPython));
    const AsMeta swapped(args, num_args);
    const DispatchKeySet keys = swapped.keys() | DispatchKey::kMeta;
    op.info->adapter->call(op, &keys, args, rets);
  }
  each_tensor(rets, num_rets, [&](const Tensor& t) {
    if (is_fake(t)) return;  // an argument
    if (t.is_meta()) {
      make_fake(*t.impl(), device, info_for(as_mode(mode), *t.impl()));
      return;
    }
    const_cast<Tensor&>(t) = fake_of_internal(mode, t);
  });
  if (computed) keep_constants(rets, num_rets, real);
}

// --- functions of Python ---

FakeMode* mode_arg(const char* function, PyObject* o) {
  if (!is_mode(o)) throw TypeError(str_cat(function, "(): expected a FakeTensorMode, got ", Py_TYPE(o)->tp_name));
  return as_mode(o);
}

// _make_fake(mode, like, device or None, storage_of or None): a fake tensor with the metadata of another.
PyObject* py_make_fake(PyObject*, PyObject* given) {
  return guarded([&] {
    PyObject *mode, *like, *device, *storage_of;
    if (!PyArg_ParseTuple(given, "OOOO:_make_fake", &mode, &like, &device, &storage_of)) throw ErrorAlreadySet();
    FakeMode* m = mode_arg("_make_fake", mode);
    const Tensor& t = tensor_arg("_make_fake", "like", like);
    const auto on = device_arg("_make_fake", device);
    const Device meta(DeviceType::kMeta);
    if (sparse::is_sparse(t)) {
      const sparse::Members& its = sparse::members(t);
      TESSERA_CHECK(its.values.is_meta(), "_make_fake: expected a sparse tensor on the meta device, got one on ",
                    its.values.device().str());
      const Tensor made = sparse::is_coo(t)
                              ? sparse::make_coo(t.sizes(), its.compressed, its.values, its.coalesced)
                              : sparse::make_compressed(t.layout(), t.sizes(), its.compressed, its.plain, its.values);
      make_fake(*made.impl(), on.value_or(t.device()), info_for(m, *made.impl()));
      return wrap(made);
    }
    Storage storage = storage_of == Py_None ? StorageImpl::without_data(meta, t.storage() ? t.storage()->nbytes() : 0)
                                            : tensor_arg("_make_fake", "storage_of", storage_of).storage();
    auto impl = make_tensor_impl(std::move(storage), t.dtype(), meta, DispatchKeySet(DispatchKey::kMeta));
    impl->set_shape_of(*t.impl());
    impl->set_storage_offset(t.storage_offset());
    impl->set_layout(t.layout());
    impl->set_conj(t.is_conj());
    impl->set_neg(t.is_neg());
    make_fake(*impl, on.value_or(t.device()), info_for(m, *impl));
    return wrap(Tensor(std::move(impl)));
  });
}
PyObject* py_mode_of(PyObject*, PyObject* o) {
  const FakeInfo* info = is_tensor(o) ? info_of(*unwrap(o).impl()) : nullptr;
  return Py_NewRef(info ? reinterpret_cast<PyObject*>(info->mode()) : Py_None);
}
PyObject* py_constant(PyObject*, PyObject* o) {
  return guarded([&] { return is_tensor(o) ? wrap_or_none(constant_of(unwrap(o))) : none(); });
}
PyObject* py_set_constant(PyObject*, PyObject* given) {
  return guarded([&] {
    PyObject *fake, *value;
    if (!PyArg_ParseTuple(given, "OO:_set_fake_constant", &fake, &value)) throw ErrorAlreadySet();
    const Tensor& t = tensor_arg("_set_fake_constant", "fake", fake);
    TESSERA_CHECK(is_fake(t), "_set_fake_constant: expected a FakeTensor");
    set_constant(t, value == Py_None ? Tensor() : tensor_arg("_set_fake_constant", "value", value));
    return none();
  });
}
PyObject* py_set_type(PyObject*, PyObject* type) {
  Py_INCREF(type);
  g_fake_type = reinterpret_cast<PyTypeObject*>(type);
  return none();
}
// _set_symbolic_shape(fake, object or None)
PyObject* py_set_shape(PyObject*, PyObject* given) {
  return guarded([&] {
    PyObject *fake, *value;
    if (!PyArg_ParseTuple(given, "OO:_set_symbolic_shape", &fake, &value)) throw ErrorAlreadySet();
    const Tensor& t = tensor_arg("_set_symbolic_shape", "fake", fake);
    TESSERA_CHECK(is_fake(t), "_set_symbolic_shape: expected a FakeTensor");
    ExtraMeta& extra = t.impl()->materialize_extra();
    extra.symbolic_shape = {};
    if (value != Py_None) extra.symbolic_shape = make_intrusive<HeldObject>(value);
    return none();
  });
}
PyObject* py_get_shape(PyObject*, PyObject* o) {
  PyObject* shape = is_tensor(o) ? symbolic_shape_of(*unwrap(o).impl()) : nullptr;
  return Py_NewRef(shape ? shape : Py_None);
}

// --- symbols ---

// What the call under way was given as symbols; of one operator, until it is reached.
struct Symbols {
  const OpHeader* op = nullptr;
  Ref given;
};
Symbols& pending() {
  static thread_local auto* p = new Symbols;
  return *p;
}
// _call_with_symbols(op, {position: symbol}, args, kwargs): op(*args, **kwargs) with plain numbers, which stand for the
// symbols.
PyObject* py_call_with_symbols(PyObject*, PyObject* given) {
  return guarded([&] {
    PyObject *op, *name, *symbols, *args, *kwargs;
    if (!PyArg_ParseTuple(given, "OUO!O!O!:_call_with_symbols", &op, &name, &PyDict_Type, &symbols, &PyTuple_Type,
                          &args, &PyDict_Type, &kwargs))
      throw ErrorAlreadySet();
    const OpInfo* info = find_any_op(from_python_string(name));
    TESSERA_CHECK(info, "there is no operator ", from_python_string(name));
    pending() = {info->op, Ref::borrow(symbols)};
    Ref r = Ref::steal(PyObject_Call(op, args, kwargs));
    pending() = {};
    return check(r.release());
  });
}

PyObject* g_symbolic_types = nullptr;  // a tuple
PyObject* py_set_symbolic_types(PyObject*, PyObject* types) {
  g_symbolic_types = Py_NewRef(types);
  return none();
}

thread_local const OpHeader* g_wanted = nullptr;
Ref& kept_symbol() {
  static thread_local auto* r = new Ref;
  return *r;
}

PyMethodDef g_functions[] = {{"_make_fake", py_make_fake, METH_VARARGS, nullptr},
                             {"_fake_mode_of", py_mode_of, METH_O, nullptr},
                             {"_fake_constant", py_constant, METH_O, nullptr},
                             {"_set_fake_constant", py_set_constant, METH_VARARGS, nullptr},
                             {"_set_fake_tensor_type", py_set_type, METH_O, nullptr},
                             {"_set_symbolic_shape", py_set_shape, METH_VARARGS, nullptr},
                             {"_symbolic_shape", py_get_shape, METH_O, nullptr},
                             {"_call_with_symbols", py_call_with_symbols, METH_VARARGS, nullptr},
                             {"_set_symbolic_types", py_set_symbolic_types, METH_O, nullptr},
                             {nullptr, nullptr, 0, nullptr}};

PyMemberDef g_mode_members[] = {
    {"allow_non_fake_inputs", T_BOOL, offsetof(FakeMode, allow_non_fake_inputs), 0, nullptr},
    {"_symbolic", T_BOOL, offsetof(FakeMode, symbolic), 0, nullptr},
    {"_native", T_BOOL, offsetof(FakeMode, native), 0, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

}  // namespace

bool reads_fake_tensors(const Error& e) {
  return g_fake_type && std::string_view(e.what()).find("it is a fake one") != std::string_view::npos;
}
void refuse_values(const OpHeader& op) {
  static constinit MadeOnce type;
  PyObject* cls = type.get([] { return exception_type("DataDependentOutputException"); });
  Ref func = checked_call(overload_object(op));
  Ref e = checked_call(PyObject_CallOneArg(cls, func.get()));
  PyErr_SetObject(cls, e.get());
  throw ErrorAlreadySet();
}

thread_local constinit const OpHeader* called_operator = nullptr;

Ref take_symbols(const OpHeader& op) {
  if (pending().op != &op) return {};
  return std::exchange(pending(), Symbols()).given;
}

bool fake_dispatch(PyObject* top, const OpHeader& op, const Value* args, size_t num_args, Value* rets, size_t num_rets,
                   PyObject* symbols) {
  if (!g_fake_type || (top && !(is_mode(top) && as_mode(top)->native))) return false;
  PyObject* mode = top;
  bool all_fake = true;
  each_tensor(args, num_args, [&](const Tensor& t) {
    if (!t.keys().has(DispatchKey::kPython)) return;
    const FakeInfo* info = info_of(*t.impl());
    if (info && !mode) mode = reinterpret_cast<PyObject*>(info->mode());
    all_fake = all_fake && info;
  });
  if (!mode || !all_fake || !as_mode(mode)->native) return false;
  Ref kept = Ref::borrow(mode);
  fake_call(mode, op, args, num_args, rets, num_rets, symbols);
  return true;
}

bool symbolic_composite(PyObject* top, const OpHeader& op, const Value* args, size_t num_args, Value* rets,
                        size_t num_rets, PyObject* symbols) {
  if (!g_fake_type) return false;
  PyObject* mode = is_mode(top) ? top : nullptr;
  bool symbolic = symbols != nullptr;
  each_tensor(args, num_args, [&](const Tensor& t) {
    const FakeInfo* info = t.keys().has(DispatchKey::kPython) ? info_of(*t.impl()) : nullptr;
    if (!info) return;
    if (!mode) mode = reinterpret_cast<PyObject*>(info->mode());
    symbolic = symbolic || t.impl()->extra()->symbolic_shape || plan_of(op).sized_by_values;
  });
  if (symbolic && !mode) mode = innermost_dispatch_mode(is_mode);
  if (!symbolic || !mode || !as_mode(mode)->native) return false;
  Ref kept = Ref::borrow(mode);
  call_in_python(mode, "_symbolic_composite", op, args, num_args, rets, num_rets, symbols);
  return true;
}

PyTypeObject* fake_type_of(const TensorImpl& impl) { return g_fake_type && info_of(impl) ? g_fake_type : nullptr; }

PyObject* symbolic_shape_of(const TensorImpl& impl) {
  const ExtraMeta* extra = impl.extra();
  if (!extra || !extra->symbolic_shape) [[likely]]
    return nullptr;
  return static_cast<HeldObject*>(extra->symbolic_shape.get())->object;
}
PyObject* ask_symbolic_shape(PyObject* shape, const char* name, PyObject* argument) {
  Ref kept = Ref::borrow(shape);
  return check(PyObject_CallMethod(shape, name, argument ? "(O)" : nullptr, argument));
}

bool indexed_in_python(const TensorImpl& impl) {
  if (!impl.keys().has(DispatchKey::kPython)) [[likely]]
    return false;
  const FakeInfo* info = info_of(impl);
  return info && info->mode()->symbolic;
}
PyObject* index_in_python(const char* function, PyObject* self, PyObject* index, PyObject* value) {
  Ref m = Ref::steal(check(PyImport_ImportModule("tessera._subclasses._symbolic_calls")));
  return check(PyObject_CallMethod(m.get(), function, value ? "OOO" : "OO", self, index, value));
}

// A mode that is told of the tensors that a program makes of data: that of make_fx.
bool notes_lifted(PyObject* mode) {
  return PyObject_HasAttrString(reinterpret_cast<PyObject*>(Py_TYPE(mode)), "_lifted");
}

Tensor lifted(std::optional<Device> device, const std::function<Tensor(std::optional<Device>)>& make) {
  if (!(thread_state.included & DispatchKeySet(DispatchKey::kPython).bits())) [[likely]]
    return make(device);
  PyObject* mode = g_fake_type ? innermost_dispatch_mode(is_mode) : nullptr;
  if (!mode) {
    Tensor made = make(device);
    if (PyObject* noting = innermost_dispatch_mode(notes_lifted)) {
      Ref kept = Ref::borrow(noting), o = checked_call(wrap(made));
      checked_call(PyObject_CallMethod(noting, "_lifted", "O", o.get()));
    }
    return made;
  }
  Ref kept = Ref::borrow(mode);
  Tensor real = [&] {
    const ExcludeKeys off(DispatchKeySet(DispatchKey::kPython));
    return make(std::nullopt);
  }();
  if (real.keys().has(DispatchKey::kPython)) return real;
  Tensor fake = fake_of(mode, real);
  if (device) fake.impl()->set_device(*device);
  set_constant(fake, std::move(real));
  return fake;
}

bool is_symbolic_number(PyObject* o) {
  if (!g_symbolic_types) return false;
  PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(o));
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(g_symbolic_types); ++i)
    if (PyTuple_GET_ITEM(g_symbolic_types, i) == type) return true;
  return false;
}
Ref plain_result(const OpHeader& op, PyObject* symbol) {
  const bool wanted = g_wanted == &op;
  if (wanted) kept_symbol() = Ref::borrow(symbol);
  return checked_call(PyObject_CallMethod(symbol, wanted ? "_stand_in" : "_guard", nullptr));
}
WantSymbol::WantSymbol(const OpHeader* op) : outer_(std::exchange(g_wanted, op)), kept_(std::move(kept_symbol())) {}
WantSymbol::~WantSymbol() {
  g_wanted = outer_;
  kept_symbol() = std::move(kept_);
}
bool modes_see_values() {
  constexpr uint64_t python = DispatchKeySet(DispatchKey::kPython).bits();
  if (!(thread_state.included & ~thread_state.excluded & python)) [[likely]]
    return false;
  return !(g_fake_type && innermost_dispatch_mode(is_mode));
}
Scalar value_of(const Tensor& t) {
  if (!modes_see_values() || is_transformed(t.keys())) return t.item_scalar();
  static NamedOp op("aten::_local_scalar_dense");
  Value arg = internal::lend(t), result;
  op.call(&arg, 1, &result, 1);
  return result.scalar();
}

Ref WantSymbol::take() { return std::exchange(kept_symbol(), Ref()); }

void init_fake(PyObject* module) {
  ModeType.tp_name = "torch._C._FakeModeBase";
  ModeType.tp_basicsize = sizeof(FakeMode);
  ModeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
  ModeType.tp_members = g_mode_members;
  ModeType.tp_new = PyType_GenericNew;
  check(PyType_Ready(&ModeType));
  check(PyModule_AddObjectRef(module, "_FakeModeBase", reinterpret_cast<PyObject*>(&ModeType)));
  check(PyModule_AddFunctions(module, g_functions));
}

}  // namespace tessera::python

// What tensor/core asks for the value of a tensor of the Python key.
namespace tessera::internal {
Scalar item_in_python(const Tensor& t) {
  static python::NamedOp op("aten::_local_scalar_dense");
  Value arg = lend(t), result;
  op.call(&arg, 1, &result, 1);
  return result.scalar();
}

// What //func asks for as it calls operators again that were given symbols.
IntrusivePtr<RefCounted> symbols_of(const OpHeader& op) {
  const python::Symbols& now = python::pending();
  if (now.op != &op || !now.given) [[likely]]
    return {};
  python::GilAcquire gil;
  return make_intrusive<python::HeldObject>(now.given.get());
}
void give_symbols(const OpHeader& op, const RefCounted& symbols, int64_t shift) {
  python::GilAcquire gil;
  PyObject* given = static_cast<const python::HeldObject&>(symbols).object;
  python::Ref moved = python::checked_call(PyDict_New());
  PyObject *key, *value;
  for (Py_ssize_t at = 0; PyDict_Next(given, &at, &key, &value);) {
    python::Ref position = python::checked_call(PyLong_FromLongLong(PyLong_AsLongLong(key) + shift));
    python::check(PyDict_SetItem(moved.get(), position.get(), value));
  }
  python::pending() = {&op, std::move(moved)};
}
void give_sizes(const OpHeader& op, const Tensor& like) {
  PyObject* shape = python::symbolic_shape_of(*like.impl());
  if (!shape) [[likely]]
    return;
  python::GilAcquire gil;
  python::Ref sizes = python::Ref::steal(python::ask_symbolic_shape(shape, "size", nullptr));
  python::Ref given = python::checked_call(Py_BuildValue("{iO}", 1, sizes.get()));
  python::pending() = {&op, std::move(given)};
}
}  // namespace tessera::internal
