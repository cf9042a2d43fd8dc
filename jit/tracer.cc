#include "jit/tracer.h"

#include "jit/operator.h"
#include "jit/passes.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::jit {
namespace {

thread_local Tracer* t_active = nullptr;
constexpr uint64_t kBit = DispatchKeySet(DispatchKey::kTracer).bits();

void fallback(void*, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t n, Value* rets,
              size_t num_rets) {
  const DispatchKeySet below = keys - DispatchKeySet(DispatchKey::kTracer);
  if (t_active) return t_active->record(op, below, args, n, rets, num_rets);
  op.info->adapter->call(op, &below, args, rets);
}

// Methods that are other operators with their arguments turned round; archives have those.
bool is_spelling(std::string_view name) {
  return (name.starts_with("aten::__r") && name != "aten::__rshift__") || name == "aten::__floordiv__" ||
         name == "aten::__matmul__";
}

const void* identity(const Value& v) {
  return v.is_tensor() ? static_cast<const void*>(v.tensor().impl()) : static_cast<const void*>(v.object());
}

}  // namespace

constinit std::atomic<int> traces_under_way = 0;
Tracer* Tracer::active() { return t_active; }

Tracer::Tracer() : graph_(std::make_unique<Graph>()) {
  static auto* registration = [] {
    RuntimeKernel k;
    k.boxed = make_intrusive<BoxedEntry>();
    k.boxed->kernel = &fallback;
    return new Registration(register_fallback(DispatchKey::kTracer, std::move(k)));
  }();
  (void)registration;
}
Tracer::~Tracer() {
  if (t_active == this) stop();
}
void Tracer::start() {
  TESSERA_CHECK(!t_active, "a trace is under way on this thread already");
  t_active = this;
  ++traces_under_way;
  thread_state.included |= kBit;
}
void Tracer::stop() {
  if (t_active == this) --traces_under_way;
  t_active = nullptr;
  thread_state.included &= ~kBit;
}
Tracer::Pause::Pause() : tracer(t_active) {
  t_active = nullptr;
  thread_state.included &= ~kBit;
}
Tracer::Pause::~Pause() {
  t_active = tracer;
  if (tracer) thread_state.included |= kBit;
}

void Tracer::set_module(const Value& module, TypePtr type) {
  self_ = graph_->add_param(graph_->top, type, "self");
  module_type_ = type;
  known_[module.object()] = self_;
  alive_.push_back(module);
}
void Tracer::add_path(const Value& what, const std::string& path) {
  paths_.emplace(identity(what), path);
  all_paths_[identity(what)].push_back(path);
  identities_.emplace(path, identity(what));
  alive_.push_back(what);
}
Val* Tracer::at_path(const std::string& path) {
  if (path.empty()) return self_;
  if (const auto it = attributes_.find(path); it != attributes_.end()) return it->second;
  const size_t dot = path.rfind('.');
  Val* owner = at_path(dot == std::string::npos ? "" : path.substr(0, dot));
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 1);
  const Attribute* a = owner->type->def ? owner->type->def->attribute(name) : nullptr;
  TESSERA_CHECK(a, "the traced module has no attribute ", path);
  Node* n = graph_->append(graph_->top, N::kGetAttr, {owner});
  n->name = name;
  Val* v = graph_->add_out(n, a->type);
  graph_->set_name(v, name);
  return attributes_[path] = v;
}

Val* Tracer::constant(const Value& v, TypePtr t) {
  Node* n = graph_->append(graph_->top, N::kConstant);
  n->constant = v;
  return graph_->add_out(n, v.is_none() ? none_type() : t);
}

void Tracer::bind(const Value& v, Val* val) {
  if (v.is_tensor()) {
    if (!v.tensor().defined()) return;
    known_[v.tensor().impl()] = val;
    alive_.push_back(v);
    if (val->type->is(K::kTensor) && v.tensor().layout() == Layout::kStrided) val->type = tensor_like(v.tensor());
    return;
  }
  const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
  if (!o) return;
  if (o->kind == ObjectKind::kTuple || o->kind == ObjectKind::kList) {
    const bool list = o->kind == ObjectKind::kList;
    const auto& items = list ? as<List>(v).items : as<Tuple>(v).items;
    if (items.empty() || (list && !items[0].is_tensor() && !items[0].object())) return;
    Node* n = graph_->append(graph_->top, list ? N::kListUnpack : N::kTupleUnpack, {val});
    for (size_t i = 0; i < items.size(); ++i) graph_->add_out(n, list ? val->type->elem() : val->type->elems[i]);
    for (size_t i = 0; i < items.size(); ++i) bind(items[i], n->out[i]);
  } else if (o->kind == ObjectKind::kDict) {
    for (const auto& [k, e] : static_cast<const Dict*>(o)->items) {
      for (const Operator* candidate : operators_named("aten::__getitem__")) {
        if (!candidate->args[0].type->is(K::kDict)) continue;
        Node* n = graph_->append(graph_->top, N::kOp, {val, constant(k, type_of(k))});
        n->op = candidate;
        bind(e, graph_->add_out(n, val->type->elem(1)));
      }
    }
  }
}
void Tracer::input(const std::string& name, const Value& v, TypePtr t) {
  Val* p = graph_->add_param(graph_->top, t, name);
  bind(v, p);
}

Val* Tracer::value_of(const Value& v) {
  if (v.is_tensor()) {
    if (!v.tensor().defined()) return constant(Value(), none_type());
    if (const auto it = known_.find(v.tensor().impl()); it != known_.end()) return it->second;
    if (const auto it = paths_.find(v.tensor().impl()); it != paths_.end() && self_) return at_path(it->second);
    TESSERA_CHECK(!v.tensor().requires_grad(),
                  "Cannot insert a Tensor that requires grad as a constant. Consider making it a parameter or input, "
                  "or detaching the "
                  "gradient\nTensor:\n",
                  to_text(v));
    Val* c = constant(v, v.tensor().layout() == Layout::kStrided ? tensor_like(v.tensor()) : tensor_type());
    known_[v.tensor().impl()] = c;
    alive_.push_back(v);
    return c;
  }
  const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
  if (!o) return constant(v, type_of(v));
  if (o->kind == ObjectKind::kList || o->kind == ObjectKind::kTuple) {
    const auto& items = o->kind == ObjectKind::kList ? as<List>(v).items : as<Tuple>(v).items;
    std::vector<Val*> in;
    std::vector<TypePtr> types;
    for (const Value& e : items) in.push_back(value_of(e)), types.push_back(in.back()->type);
    TypePtr t = type_of(v);
    Node* n = graph_->append(graph_->top, o->kind == ObjectKind::kList ? N::kList : N::kTuple, std::move(in));
    return graph_->add_out(n, o->kind == ObjectKind::kTuple && (!t || t->name.empty()) ? tuple_of(types) : t);
  }
  if (o->kind == ObjectKind::kDict) {
    std::vector<Val*> in;
    for (const auto& [k, e] : static_cast<const Dict*>(o)->items) in.push_back(value_of(k)), in.push_back(value_of(e));
    return graph_->add_out(graph_->append(graph_->top, N::kDict, std::move(in)), type_of(v));
  }
  if (const auto it = known_.find(o); it != known_.end()) return it->second;
  if (const auto it = paths_.find(o); it != paths_.end()) return at_path(it->second);
  return constant(v, type_of(v));
}
void Tracer::output(const Value& v) {
  Val* r = value_of(v);
  graph_->top->returns = {r};
}
std::unique_ptr<Graph> Tracer::flat() const {
  auto g = copy_graph(*graph_);
  remove_dead_code(*g);
  return g;
}
std::unique_ptr<Graph> Tracer::take() {
  remove_dead_code(*graph_);
  return std::move(graph_);
}

Val* Tracer::op(const Operator* o, std::vector<Val*> in) {
  Node* n = graph_->append(graph_->top, N::kOp, std::move(in));
  n->op = o;
  n->scope = scope;
  return graph_->add_out(n, o->rets[0]);
}
// A tensor's value as a number of a type.
Val* Tracer::number(const Tensor& source, TypePtr t) {
  const char* name = t->is(K::kInt)     ? "aten::Int.Tensor"
                     : t->is(K::kFloat) ? "aten::Float.Tensor"
                     : t->is(K::kBool)  ? "aten::Bool.Tensor"
                                        : "aten::ScalarImplicit";
  return op(find_operator(name), {value_of(Value::of(source))});
}
Tensor Tracer::number_tensor(int64_t n, Val* val) {
  static const Operator* to_tensor = find_operator("prim::NumToTensor.Scalar");
  Val* made = op(to_tensor, {val});
  const Pause pause;
  Tensor t = empty_kernel(IntVector(), DType::kInt64);
  *t.data<int64_t>() = n;
  bind(Value::of(t), made);
  return t;
}
bool Tracer::knows(const Tensor& t) const {
  if (const auto it = known_.find(t.impl()); it != known_.end())
    return !it->second->node || it->second->node->kind != N::kConstant;
  return self_ && paths_.count(t.impl());
}
Tensor Tracer::size(const Tensor& t, int64_t dim) {
  static const Operator* size = find_operator("aten::size.int");
  const int64_t n = t.size(dim);
  return number_tensor(n, op(size, {value_of(Value::of(t)), constant(Value::of(dim), int_type())}));
}
Tensor Tracer::numel(const Tensor& t) {
  static const Operator* numel = find_operator("aten::numel");
  return number_tensor(t.numel(), op(numel, {value_of(Value::of(t))}));
}
void Tracer::expect(const OpHeader& op, std::vector<NumberSource> sources) {
  expected_ = &op;
  awaited_ = std::move(sources);
}
const Tensor* Tracer::source(int argument, int element) const {
  for (const NumberSource& s : sources_)
    if (s.argument == argument && s.element == element) return &s.tensor;
  return nullptr;
}

Val* Tracer::number_list(const std::vector<Value>& items, TypePtr t, int argument) {
  std::vector<Val*> in;
  TypePtr elem = t->is(K::kList) ? t->elem() : t;
  for (const Value& x : items) {
    const Tensor* from = source(argument, static_cast<int>(in.size()));
    in.push_back(from ? number(*from, elem) : constant(x, elem));
  }
  return graph_->add_out(graph_->append(graph_->top, N::kList, std::move(in)), t);
}

// An argument as the registry's kernels have it.
Val* Tracer::operand(const Value& v, TypePtr t, int argument) {
  using Tag = Value::Tag;
  TypePtr inner = t->is(K::kOptional) ? t->elem() : t;
  if (const Tensor* from = sources_.empty() ? nullptr : source(argument, -1); from && !v.is_tensor()) {
    // One number for all elements: max_pool2d(x, n).
    if (!inner->is(K::kList)) return number(*from, inner);
    Val* n = number(*from, inner->elem());
    const size_t count = v.tag() == Tag::kDoubleList ? v.double_list().size() : v.int_list().size();
    return graph_->add_out(graph_->append(graph_->top, N::kList, std::vector<Val*>(count, n)), inner);
  }
  const auto list = [&](auto span) {
    std::vector<Value> items;
    for (const auto& x : span) items.push_back(Value::of(x));
    return number_list(items, inner, argument);
  };
  switch (v.tag()) {
    case Tag::kNone:
      return constant(Value(), none_type());
    case Tag::kTensor:
      return value_of(v);
    case Tag::kTensorList: {
      std::vector<Val*> in;
      for (const Tensor& x : v.tensor_list()) in.push_back(value_of(Value::of(x)));
      return graph_->add_out(graph_->append(graph_->top, N::kList, std::move(in)), inner);
    }
    case Tag::kIntList:
      return list(v.int_list());
    case Tag::kDoubleList:
      return list(v.double_list());
    case Tag::kBoolList:
      return list(v.bool_list());
    case Tag::kScalarList:
      return list(v.scalar_list());
    case Tag::kDType:
      return constant(Value::of(dtype_number(v.dtype())), int_type());
    case Tag::kLayout:
      return constant(Value::of(static_cast<int64_t>(v.layout())), int_type());
    case Tag::kMemoryFormat:
      return constant(Value::of(static_cast<int64_t>(v.memory_format())), int_type());
    case Tag::kGenerator:
    case Tag::kStorage:
      return constant(Value(), none_type());
    case Tag::kObject:
      return value_of(v);
    default:
      return constant(Value(v), type_of(v));
  }
}

void Tracer::record(const OpHeader& op, DispatchKeySet keys, const Value* args, size_t n, Value* rets,
                    size_t num_rets) {
  if (is_spelling(op.name)) return op.info->adapter->call(op, &keys, args, rets);
  const std::string name = *op.overload ? str_cat(op.name, ".", op.overload) : op.name;
  const Operator* o = find_operator(name);
  const bool to_number =
      std::string_view(op.name) == "aten::item" || std::string_view(op.name) == "aten::_local_scalar_dense";
  std::vector<Val*> in;
  if (expected_ == &op) sources_ = std::move(awaited_), expected_ = nullptr;
  if (o && !to_number)
    for (size_t i = 0; i < n; ++i) in.push_back(operand(args[i], o->args[i].type, static_cast<int>(i)));
  sources_.clear();
  {
    const Pause pause;
    op.info->adapter->call(op, &keys, args, rets);
  }
  if (!o || to_number) return;
  Node* node = graph_->append(graph_->top, N::kOp, std::move(in));
  node->op = o;
  node->scope = scope;
  for (size_t i = 0; i < num_rets; ++i) {
    Val* v = graph_->add_out(node, o->rets[i]);
    if (rets[i].is_tensor()) {
      bind(rets[i], v);
    } else if (rets[i].is_tensor_list()) {
      Node* u = graph_->append(graph_->top, N::kListUnpack, {v});
      for (const Tensor& t : rets[i].tensor_list()) bind(Value::of(t), graph_->add_out(u, tensor_type()));
    }
  }
}

Val* Tracer::call(Function& f, const std::vector<Value>& args, bool method, const std::vector<NumberSource>& sources) {
  std::vector<Val*> in;
  for (const Value& v : args) {
    const int at = static_cast<int>(in.size());
    sources_.clear();
    for (const NumberSource& s : sources)
      if (s.argument == at) sources_.push_back(s);
    TypePtr t = f.args[in.size()].type, inner = t->is(K::kOptional) ? t->elem() : t;
    if (sources_.empty())
      in.push_back(value_of(v));
    else if (!inner->is(K::kList))
      in.push_back(number(sources_[0].tensor, inner));
    else
      in.push_back(number_list(as<List>(v).items, inner, at));
  }
  sources_.clear();
  Node* n = graph_->append(graph_->top, method ? N::kCallMethod : N::kCallFunction, std::move(in));
  n->name = f.name;
  n->function = &f;
  return graph_->add_out(n, f.ret);
}

}  // namespace tessera::jit
