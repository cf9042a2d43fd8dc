#include "jit/operator.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <unordered_map>

#include "jit/builtins/builtins.h"
#include "jit/function.h"
#include "tensor/dispatch/dynamic.h"

namespace tessera::jit {
namespace {

struct Entry {
  const OpInfo* info;
  const char* schema;
  std::string own;  // a schema that was made here
  Builtin builtin;
  bool pure;
};
struct Table {
  std::unordered_map<std::string, std::vector<Entry>> entries;
  // Overloads by name, with the state of the operators defined at run time that they were looked up in. Lists stay:
  // others may be reading them.
  struct Known {
    uint64_t changes;
    std::unique_ptr<const std::vector<const Operator*>> list;
  };
  std::unordered_map<std::string, Known> known;
  std::vector<std::unique_ptr<const std::vector<const Operator*>>> outdated;
  std::unordered_map<const void*, const Operator*> made;  // by entry, or by what an operator is
  std::recursive_mutex lock;
};
Table& table() {
  static auto* t = new Table;
  return *t;
}

void add_builtins(Table& t, BuiltinTable list) {
  for (size_t i = 0; i < list.second; ++i) {
    const BuiltinEntry& b = list.first[i];
    const std::string_view text = b.schema;
    std::string name(text.substr(0, text.find_first_of(".(")));
    t.entries[std::move(name)].push_back({nullptr, b.schema, {}, b.function, b.pure});
  }
}
// The overloads of an operator on two numbers: ints, floats, complex numbers, and mixed.
void add_arithmetic(Table& t) {
  constexpr struct {
    const char *overload, *a, *b;
    int rank;  // of the wider one
  } kinds[] = {{"int", "int", "int", 0},
               {"float", "float", "float", 1},
               {"int_float", "int", "float", 1},
               {"float_int", "float", "int", 1},
               {"complex", "complex", "complex", 2},
               {"int_complex", "int", "complex", 2},
               {"complex_int", "complex", "int", 2},
               {"float_complex", "float", "complex", 2},
               {"complex_float", "complex", "float", 2},
               {"", "Scalar", "Scalar", 3}};
  constexpr const char* types[] = {"int", "float", "complex", "Scalar"};
  for (const ArithmeticEntry& e : arithmetic_entries())
    for (const auto& k : kinds) {
      if (k.rank == 2 && !e.complex) continue;
      const char* result = e.result == 'b'   ? "bool"
                           : e.result == 'p' ? types[k.rank]
                           : k.rank == 0     ? "float"
                                             : types[k.rank];
      if (e.result == 'f' && k.rank == 3) result = e.complex ? "Scalar" : "float";
      std::string schema =
          str_cat(e.name, *k.overload ? "." : "", k.overload, "(", k.a, " a, ", k.b, " b) -> ", result);
      t.entries[e.name].push_back({nullptr, nullptr, std::move(schema), e.function, true});
    }
}
// Random numbers, and what depends on more than its arguments.
bool is_pure(const FunctionSchema& s, const OpInfo* info) {
  if (s.is_mutable()) return false;
  if (info && std::string_view(info->tags()).find("nondeterministic") != std::string_view::npos) return false;
  for (const SchemaArgument& a : s.arguments)
    if (a.type.is(TypeKind::kGenerator) || a.type.without_optional().is(TypeKind::kGenerator)) return false;
  for (const SchemaArgument& r : s.returns)
    if (r.type.alias_anywhere()) return false;
  const std::string_view n = s.base_name();
  for (std::string_view word : {"rand", "dropout", "bernoulli", "normal", "multinomial", "empty", "rrelu"})
    if (n.find(word) != std::string_view::npos) return false;
  return true;
}

Value from_default(const SchemaValue& v, TypePtr t) {
  switch (v.kind) {
    case SchemaValue::Kind::kNone:
      return Value();
    case SchemaValue::Kind::kBool:
      return Value::of(v.b);
    case SchemaValue::Kind::kInt:
      if (t->is(K::kFloat)) return Value::of(static_cast<double>(v.i));
      return Value::of(v.i);
    case SchemaValue::Kind::kEnum:
      return Value::of(v.i);
    case SchemaValue::Kind::kFloat:
      return Value::of(v.f);
    case SchemaValue::Kind::kComplex:
      return Value::of(std::complex<double>(v.f, v.imag));
    case SchemaValue::Kind::kString:
      return Value::of(v.s);
    case SchemaValue::Kind::kDevice:
      return Value::of(Device(v.s));
    case SchemaValue::Kind::kList: {
      const TypePtr inner = t->is(K::kOptional) ? t->elem() : t;
      const TypePtr e = inner->is(K::kList) ? inner->elem() : int_type();
      std::vector<Value> items;
      for (const SchemaValue& x : v.list) items.push_back(from_default(x, e));
      return make_value<List>(e, std::move(items));
    }
  }
  return Value();
}

const Operator* make_operator(const Entry& e) {
  auto* op = new Operator;
  op->schema = e.info ? std::string(e.info->schema()) : e.schema ? std::string(e.schema) : e.own;
  const FunctionSchema s = parse_schema(op->schema);
  op->name = s.name, op->overload = s.overload;
  op->info = e.info, op->builtin = e.builtin;
  op->vararg = s.is_vararg;
  const bool unknown = e.info && !e.pure;
  op->writes = s.is_mutable() || unknown;
  op->pure = e.info ? !unknown && is_pure(s, e.info) : e.pure && !op->writes;
  for (const SchemaArgument& a : s.arguments) {
    OpArg x;
    x.name = a.name;
    x.type = from_schema(a.type);
    x.keyword_only = a.kwarg_only;
    x.is_write = a.is_write();
    const SchemaType& plain = a.type.without_optional();
    x.raw_optional = a.type.is_optional();
    x.raw_list = plain.is_list();
    x.size = x.raw_list ? plain.size : -1;
    x.raw = x.raw_list ? plain.elements[0].without_optional().kind : plain.kind;
    if (a.default_value) x.has_default = true, x.default_value = from_default(*a.default_value, x.type);
    op->args.push_back(std::move(x));
  }
  for (const SchemaArgument& r : s.returns) op->rets.push_back(from_schema(r.type));
  return op;
}

}  // namespace

void set_operators(OpInfoList all) {
  Table& t = table();
  const std::lock_guard lock(t.lock);
  if (!t.entries.empty()) return;
  for (const OpInfo* i : all) t.entries[i->op->name].push_back({i, nullptr, {}, nullptr, true});
  add_arithmetic(t);
  for (BuiltinTable b : {number_builtins(), container_builtins(), tensor_builtins(), string_builtins()})
    add_builtins(t, b);
}

namespace {
// Functions of torch.special that are operators of another name.
std::string plain_name(const std::string& special) {
  constexpr const char* names[][2] = {{"expit", "sigmoid"},  {"gammainc", "igamma"}, {"gammaincc", "igammac"},
                                      {"gammaln", "lgamma"}, {"psi", "digamma"},     {"multigammaln", "mvlgamma"}};
  for (const auto& n : names)
    if (special == n[0]) return str_cat("aten::", n[1]);
  return "aten::" + special;
}
}  // namespace

const std::vector<const Operator*>& operators_named(const std::string& name) {
  Table& t = table();
  const std::lock_guard lock(t.lock);
  const uint64_t changes = dynamic_op_changes();
  if (const auto it = t.known.find(name); it != t.known.end() && it->second.changes == changes) return *it->second.list;
  std::vector<const Operator*> list;
  const auto add = [&](const void* key, const Entry& entry) {
    const Operator*& op = t.made[key];
    if (!op) op = make_operator(entry);
    list.push_back(op);
  };
  if (const auto e = t.entries.find(name); e != t.entries.end())
    for (const Entry& entry : e->second) add(&entry, entry);
  for (const OpInfo* info : dynamic_overloads(name))
    add(info, {info, nullptr, {}, nullptr, false});  // who knows what it does
  // out= last, so that messages and searches meet the usual forms first
  std::stable_partition(list.begin(), list.end(),
                        [](const Operator* o) { return !o->info || !(o->info->op->flags & kIsOut); });
  if (list.empty() && name.starts_with("aten::special_")) list = operators_named(plain_name(name.substr(14)));
  Table::Known& known = t.known[name];  // the table may have grown
  known.changes = changes;
  if (known.list && *known.list == list) return *known.list;
  if (known.list) t.outdated.push_back(std::move(known.list));
  known.list = std::make_unique<const std::vector<const Operator*>>(std::move(list));
  return *known.list;
}
const Operator* find_operator(std::string_view full_name) {
  const size_t dot = full_name.find('.', full_name.find("::"));
  const std::string name(full_name.substr(0, dot));
  const std::string_view overload = dot == std::string_view::npos ? "" : full_name.substr(dot + 1);
  for (const Operator* o : operators_named(name))
    if (o->overload == overload) return o;
  return nullptr;
}
std::vector<std::string> operator_names() {
  Table& t = table();
  const std::lock_guard lock(t.lock);
  std::vector<std::string> names;
  for (const auto& [name, e] : t.entries) names.push_back(name);
  for (const OpInfo* info : dynamic_ops()) names.push_back(info->op->name);
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

namespace {

// Rooms for the lists of one call.
class Lists {
 public:
  template <class E>
  E* take(size_t n) {
    const size_t bytes = (n ? n : 1) * sizeof(E);
    if (used_ + bytes <= sizeof room_) {
      used_ += (bytes + 15) & ~size_t{15};
      return reinterpret_cast<E*>(room_ + used_ - ((bytes + 15) & ~size_t{15}));
    }
    more_.push_back(std::make_unique<char[]>(bytes + 16));
    return reinterpret_cast<E*>(more_.back().get());
  }

 private:
  alignas(16) char room_[1024];
  size_t used_ = 0;
  std::vector<std::unique_ptr<char[]>> more_;
};

// A borrowed value in place of another, whose room is not to be destroyed.
void put(Value* at, Value v) { std::memcpy(static_cast<void*>(at), static_cast<const void*>(&v), sizeof v); }

void convert_list(const OpArg& a, Value* at, Lists& lists) {
  if (at->tag() != Value::Tag::kObject) return;
  const std::vector<Value>& items = as<List>(*at).items;
  const size_t n = items.size();
  switch (a.raw) {
    case TypeKind::kTensor: {
      auto* p = lists.take<Tensor>(n);
      for (size_t i = 0; i < n; ++i)
        std::memcpy(static_cast<void*>(p + i), static_cast<const void*>(&items[i].tensor()), sizeof(Tensor));
      return put(at, Value::borrow(TensorList(p, n)));
    }
    case TypeKind::kInt:
    case TypeKind::kSymInt: {
      auto* p = lists.take<int64_t>(n);
      for (size_t i = 0; i < n; ++i) p[i] = items[i].integer();
      return put(at, Value::borrow(IntList(p, n)));
    }
    case TypeKind::kFloat:
    case TypeKind::kSymFloat: {
      auto* p = lists.take<double>(n);
      for (size_t i = 0; i < n; ++i) p[i] = items[i].number();
      return put(at, Value::borrow(std::span<const double>(p, n)));
    }
    case TypeKind::kBool: {
      auto* p = lists.take<bool>(n);
      for (size_t i = 0; i < n; ++i) p[i] = items[i].boolean();
      return put(at, Value::borrow(std::span<const bool>(p, n)));
    }
    case TypeKind::kScalar: {
      auto* p = lists.take<Scalar>(n);
      for (size_t i = 0; i < n; ++i) new (p + i) Scalar(items[i].scalar());
      return put(at, Value::borrow(std::span<const Scalar>(p, n)));
    }
    case TypeKind::kDimname:
      throw NotImplementedError(str_cat("an argument '", a.name, "' that is a list of names of dimensions"));
    default:  // of what kernels take as it is: strings, tuples, lists, objects of registered classes
      return;
  }
}

Value from_kernel(Value v, TypePtr t) {
  using Tag = Value::Tag;
  std::vector<Value> items;
  switch (v.tag()) {
    case Tag::kTensorList:
      for (const Tensor& x : v.tensor_list()) items.push_back(Value::of(x));
      break;
    case Tag::kIntList:
      for (int64_t x : v.int_list()) items.push_back(Value::of(x));
      break;
    case Tag::kDoubleList:
      for (double x : v.double_list()) items.push_back(Value::of(x));
      break;
    case Tag::kBoolList:
      for (bool x : v.bool_list()) items.push_back(Value::of(x));
      break;
    case Tag::kDType:
      return Value::of(dtype_number(v.dtype()));
    case Tag::kLayout:
      return Value::of(static_cast<int64_t>(v.layout()));
    case Tag::kMemoryFormat:
      return Value::of(static_cast<int64_t>(v.memory_format()));
    default:
      return v;
  }
  return make_value<List>(t->is(K::kList) ? t->elem() : tensor_type(), std::move(items));
}

}  // namespace

bool needs_conversion(const OpArg& a) {
  return a.raw_list || a.raw == TypeKind::kScalarType || a.raw == TypeKind::kLayout ||
         a.raw == TypeKind::kMemoryFormat || a.raw == TypeKind::kDevice;
}

void call_operator(const Operator& op, const Value* given, Value* rets) {
  const size_t n = op.args.size();
  if (op.builtin) return op.builtin(given, n, rets, op);
  TESSERA_CHECK(n <= 40, "an operator with ", n, " arguments");
  alignas(Value) char room[sizeof(Value) * 40];
  Value* args = reinterpret_cast<Value*>(room);
  std::memcpy(room, static_cast<const void*>(given), n * sizeof(Value));
  Lists lists;
  for (size_t i = 0; i < n; ++i) {
    const OpArg& a = op.args[i];
    if (!needs_conversion(a) || args[i].is_none()) continue;
    if (a.raw_list)
      convert_list(a, args + i, lists);
    else if (args[i].tag() == Value::Tag::kString && a.raw == TypeKind::kDevice)
      put(args + i, Value::of(Device(args[i].string())));
    else if (args[i].tag() != Value::Tag::kInt)
      continue;
    else if (a.raw == TypeKind::kScalarType)
      put(args + i, Value::of(dtype_of_number(args[i].integer())));
    else if (a.raw == TypeKind::kLayout)
      put(args + i, Value::of(static_cast<Layout>(args[i].integer())));
    else if (a.raw == TypeKind::kMemoryFormat)
      put(args + i, Value::of(static_cast<MemoryFormat>(args[i].integer())));
  }
  op.info->adapter->call(*op.info->op, nullptr, args, rets);
  for (size_t i = 0; i < op.rets.size(); ++i)
    if (rets[i].tag() > Value::Tag::kTensor) rets[i] = from_kernel(std::move(rets[i]), op.rets[i]);
}

}  // namespace tessera::jit
