// Operators on lists, dicts and tuples.
#include <algorithm>
#include <complex>

#include "jit/builtins/builtins.h"
#include "jit/interpreter.h"
#include "tensor/ops/api.h"

namespace tessera::jit {

int64_t wrap_index(int64_t i, size_t n, const char* what) {
  const int64_t size = static_cast<int64_t>(n), k = i < 0 ? i + size : i;
  TESSERA_CHECK_INDEX(k >= 0 && k < size, what, " index out of range");
  return k;
}

namespace {

using Tag = Value::Tag;
using Items = std::vector<Value>;

Items& items(const Value& v) { return as<List>(v).items; }
Value list(TypePtr e, Items v) { return make_value<List>(e, std::move(v)); }
TypePtr elem(const Value& v) { return as<List>(v).elem; }
Value number(size_t n) { return Value::of(static_cast<int64_t>(n)); }

bool less(const Value& a, const Value& b) {
  if (a.tag() == Tag::kString) return a.string() < b.string();
  if (a.is_tensor()) return a.tensor().lt(b.tensor()).item_scalar().to_bool();
  if (const Object* o = object_of(a)) {
    if (o->kind == ObjectKind::kInstance) {
      Function* f = as<Instance>(a).def->method("__lt__");
      TESSERA_CHECK(f,
                    "Only list of Tensors, ints, floats, bools, strs, a User Defined Class that defines the __lt__ "
                    "compare method or Tuples of aforementioned types can be sorted");
      const Value both[] = {a, b};
      return run(*f, both, 2).boolean();
    }
    const Items& x = o->kind == ObjectKind::kTuple ? as<Tuple>(a).items : items(a);
    const Items& y = o->kind == ObjectKind::kTuple ? as<Tuple>(b).items : items(b);
    return std::lexicographical_compare(x.begin(), x.end(), y.begin(), y.end(), less);
  }
  return a.number() < b.number();
}
void sort(Items& v, bool reverse) {
  std::stable_sort(v.begin(), v.end(),
                   [&](const Value& a, const Value& b) { return reverse ? less(b, a) : less(a, b); });
}
Value slice(const Value* a) {
  const Items& v = items(a[0]);
  const int64_t n = static_cast<int64_t>(v.size()), step = a[3].integer();
  TESSERA_CHECK_VALUE(step != 0, "slice step cannot be zero");
  const auto clip = [&](const Value& x, int64_t otherwise) {
    if (x.is_none()) return otherwise;
    const int64_t i = x.integer() < 0 ? x.integer() + n : x.integer();
    return step > 0 ? std::clamp<int64_t>(i, 0, n) : std::clamp<int64_t>(i, -1, n - 1);
  };
  int64_t i = clip(a[1], step > 0 ? 0 : n - 1);
  const int64_t e = clip(a[2], step > 0 ? n : -1);
  Items out;
  for (; step > 0 ? i < e : i > e; i += step) out.push_back(v[static_cast<size_t>(i)]);
  return list(elem(a[0]), std::move(out));
}
size_t position(const Value& l, const Value& x) {
  const Items& v = items(l);
  for (size_t i = 0; i < v.size(); ++i)
    if (equal(v[i], x)) return i;
  return v.size();
}
Value extreme(const Items& v, bool larger) {
  TESSERA_CHECK_VALUE(!v.empty(), larger ? "max() arg is an empty sequence" : "min() arg is an empty sequence");
  size_t best = 0;
  for (size_t i = 1; i < v.size(); ++i)
    if (larger ? less(v[best], v[i]) : less(v[i], v[best])) best = i;
  return v[best];
}
Value pairwise(const Value* a, bool larger) {
  const bool b_less = less(a[1], a[0]);
  return b_less == larger ? a[0] : a[1];
}
void compare(const Value* a, size_t, Value* r, const Operator& op) {
  const std::string_view n = std::string_view(op.name).substr(6);
  r[0] = Value::of(n == "eq"   ? equal(a[0], a[1])
                   : n == "ne" ? !equal(a[0], a[1])
                   : n == "lt" ? less(a[0], a[1])
                   : n == "gt" ? less(a[1], a[0])
                   : n == "le" ? !less(a[1], a[0])
                               : !less(a[0], a[1]));
}
Value concatenated(const Value& a, const Value& b) {
  Items v = items(a);
  v.insert(v.end(), items(b).begin(), items(b).end());
  return list(elem(a), std::move(v));
}
void repeat(Items& v, int64_t times) {
  const size_t n = v.size();
  if (times <= 0) return v.clear();
  v.reserve(n * static_cast<size_t>(times));
  for (int64_t k = 1; k < times; ++k)
    for (size_t i = 0; i < n; ++i) v.push_back(v[i]);
}
Dict& dict(const Value& v) { return as<Dict>(v); }
const Value& must_find(const Value& d, const Value& k) {
  const Value* found = dict(d).find(k);
  TESSERA_CHECK_INDEX(found, "KeyError: ", to_text(k));
  return *found;
}
Value pair_of(const Dict& d, const std::pair<Value, Value>& p) {
  return make_value<Tuple>(tuple_of({d.key, d.value}), Items{p.first, p.second});
}
Value popped(const Value* a, const Value& otherwise, bool must) {
  if (must) must_find(a[0], a[1]);
  const Value* found = dict(a[0]).find(a[1]);
  Value v = found ? *found : otherwise;
  dict(a[0]).erase(a[1]);
  return v;
}
void update(const Value& to, const Value& from) {
  for (const auto& [k, v] : dict(from).items) dict(to).set(k, v);
}
Value complex_sum(const Items& v) {
  std::complex<double> s;
  for (const Value& x : v) s += x.scalar().to_complex();
  return Value::of(s);
}
Value sum(const Items& v, bool floating) {
  if (!floating) {
    uint64_t s = 0;
    for (const Value& x : v) s += static_cast<uint64_t>(x.integer());
    return Value::of(static_cast<int64_t>(s));
  }
  double s = 0;
  for (const Value& x : v) s += x.number();
  return Value::of(s);
}

#define TESSERA_EACH(MACRO, NAME) MACRO(NAME, "int"), MACRO(NAME, "float"), MACRO(NAME, "bool"), MACRO(NAME, "str")
#define TESSERA_COMPARE(NAME, T) \
  { "aten::" NAME "." T "_list(" T "[] a, " T "[] b) -> bool", compare }
constexpr BuiltinEntry kContainers[] = {
    {"aten::len.t(t[] a) -> int", TESSERA_BUILTIN(r[0] = number(items(a[0]).size()))},
    {"aten::append.t(t[](a!) self, t(c -> *) el) -> t[](a!)",
     TESSERA_BUILTIN(items(a[0]).push_back(a[1]); r[0] = a[0])},
    {"aten::extend.t(t[](a!) self, t[] other) -> ()",
     TESSERA_BUILTIN(const Items more = items(a[1]); items(a[0]).insert(items(a[0]).end(), more.begin(), more.end()))},
    {"aten::insert.t(t[](a!) self, int idx, t(b -> *) el) -> ()",
     TESSERA_BUILTIN(Items& v = items(a[0]); const int64_t size = static_cast<int64_t>(v.size());
                     const int64_t i = a[1].integer() < 0 ? std::max<int64_t>(0, a[1].integer() + size)
                                                          : std::min(a[1].integer(), size);
                     v.insert(v.begin() + i, a[2]))},
    {"aten::pop.t(t[](a!) self, int idx=-1) -> t(*)",
     TESSERA_BUILTIN(Items& v = items(a[0]); TESSERA_CHECK_INDEX(!v.empty(), "pop from empty list");
                     const int64_t i = wrap_index(a[1].integer(), v.size(), "pop"); r[0] = v[static_cast<size_t>(i)];
                     v.erase(v.begin() + i))},
    {"aten::remove.t(t[](a!) self, t el) -> ()",
     TESSERA_BUILTIN(const size_t i = position(a[0], a[1]);
                     TESSERA_CHECK_VALUE(i < items(a[0]).size(), "list.remove(x): x not in list");
                     items(a[0]).erase(items(a[0]).begin() + static_cast<int64_t>(i)))},
    {"aten::reverse.t(t[](a!) self) -> ()", TESSERA_BUILTIN(std::reverse(items(a[0]).begin(), items(a[0]).end()))},
    {"aten::clear.t(t[](a!) self) -> ()", TESSERA_BUILTIN(items(a[0]).clear())},
    {"aten::sort.t(t[](a!) self, bool reverse=False) -> ()", TESSERA_BUILTIN(sort(items(a[0]), a[1].boolean()))},
    {"aten::sorted.t(t[] self, bool reverse=False) -> t[]",
     TESSERA_BUILTIN(Items v = items(a[0]); sort(v, a[1].boolean()); r[0] = list(elem(a[0]), std::move(v)))},
    {"aten::copy.t(t[](a) self) -> t[]", TESSERA_BUILTIN(r[0] = list(elem(a[0]), items(a[0])))},
    {"aten::list.t(t[] l) -> t[]", TESSERA_BUILTIN(r[0] = list(elem(a[0]), items(a[0])))},
    {"aten::index.list(t[] self, t el) -> int",
     TESSERA_BUILTIN(const size_t i = position(a[0], a[1]);
                     TESSERA_CHECK_VALUE(i < items(a[0]).size(), "'", to_text(a[1]), "' is not in list");
                     r[0] = number(i))},
    {"aten::count.list(t[] self, t el) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(std::count_if(
                         items(a[0]).begin(), items(a[0]).end(), [&](const Value& v) { return equal(v, a[1]); }))))},
    {"aten::__getitem__.t(t[](a) list, int idx) -> t(*)",
     TESSERA_BUILTIN(r[0] = items(a[0])[static_cast<size_t>(wrap_index(a[1].integer(), items(a[0]).size(), "list"))])},
    {"aten::_set_item.t(t[](a!) l, int idx, t(b -> *) el) -> t[](a!)",
     TESSERA_BUILTIN(items(a[0])[static_cast<size_t>(wrap_index(a[1].integer(), items(a[0]).size(), "list"))] = a[2];
                     r[0] = a[0])},
    {"aten::Delete.t(t[](a!) self, int idx) -> ()",
     TESSERA_BUILTIN(items(a[0]).erase(items(a[0]).begin() + wrap_index(a[1].integer(), items(a[0]).size(), "list")))},
    {"aten::slice.t(t[] l, int? start=None, int? end=None, int step=1) -> t[]", TESSERA_BUILTIN(r[0] = slice(a))},
    {"aten::add.t(t[] a, t[] b) -> t[]", TESSERA_BUILTIN(r[0] = concatenated(a[0], a[1]))},
    {"aten::add_.t(t[](a!) self, t[] b) -> t[](a!)",
     TESSERA_BUILTIN(const Items more = items(a[1]); items(a[0]).insert(items(a[0]).end(), more.begin(), more.end());
                     r[0] = a[0])},
    {"aten::mul.left_t(t[] l, int n) -> t[]",
     TESSERA_BUILTIN(Items v = items(a[0]); repeat(v, a[1].integer()); r[0] = list(elem(a[0]), std::move(v)))},
    {"aten::mul.right_(int n, t[] l) -> t[]",
     TESSERA_BUILTIN(Items v = items(a[1]); repeat(v, a[0].integer()); r[0] = list(elem(a[1]), std::move(v)))},
    {"aten::mul_.t(t[](a!) l, int n) -> t[](a!)", TESSERA_BUILTIN(repeat(items(a[0]), a[1].integer()); r[0] = a[0])},
    {"aten::__contains__.t(t[] l, t item) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(position(a[0], a[1]) < items(a[0]).size()))},
    {"aten::eq.t_list(t[] a, t[] b) -> bool", compare},
    {"aten::ne.t_list(t[] a, t[] b) -> bool", compare},
    TESSERA_EACH(TESSERA_COMPARE, "lt"),
    TESSERA_EACH(TESSERA_COMPARE, "le"),
    TESSERA_EACH(TESSERA_COMPARE, "gt"),
    TESSERA_EACH(TESSERA_COMPARE, "ge"),
    {"aten::eq.dict(Dict(k, t) a, Dict(k, t) b) -> bool", compare},
    {"aten::ne.dict(Dict(k, t) a, Dict(k, t) b) -> bool", compare},
    {"prim::min.self(t[] self) -> t", TESSERA_BUILTIN(r[0] = extreme(items(a[0]), false))},
    {"prim::max.self(t[] self) -> t", TESSERA_BUILTIN(r[0] = extreme(items(a[0]), true))},
    {"prim::min.list(t[] l, t[] r) -> t[]", TESSERA_BUILTIN(r[0] = pairwise(a, false))},
    {"prim::max.list(t[] l, t[] r) -> t[]", TESSERA_BUILTIN(r[0] = pairwise(a, true))},
    {"aten::sum.int(int[] self) -> int", TESSERA_BUILTIN(r[0] = sum(items(a[0]), false))},
    {"aten::sum.float(float[] self) -> float", TESSERA_BUILTIN(r[0] = sum(items(a[0]), true))},
    {"aten::sum.complex(complex[] self) -> complex", TESSERA_BUILTIN(r[0] = complex_sum(items(a[0])))},
    {"aten::sum.bool(bool[] self) -> int", TESSERA_BUILTIN(r[0] = sum(items(a[0]), false))},
    {"aten::any.str(str[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::any_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return !v.string().empty(); })))},
    {"aten::any.number(Scalar[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::any_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.scalar().to_bool(); })))},
    {"aten::any.int(int[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::any_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.scalar().to_bool(); })))},
    {"aten::any.float(float[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::any_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.scalar().to_bool(); })))},
    {"aten::any.bool(bool[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::any_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.boolean(); })))},
    {"aten::all.int(int[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::all_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.scalar().to_bool(); })))},
    {"aten::all.float(float[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::all_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.scalar().to_bool(); })))},
    {"aten::all.bool(bool[] self) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(std::all_of(items(a[0]).begin(), items(a[0]).end(),
                                                  [](const Value& v) { return v.boolean(); })))},
    {"prim::reverse.t(t[] l) -> t[]",
     TESSERA_BUILTIN(Items v = items(a[0]); std::reverse(v.begin(), v.end()); r[0] = list(elem(a[0]), std::move(v)))},
    {"aten::len.Dict_k(Dict(k, t) self) -> int", TESSERA_BUILTIN(r[0] = number(dict(a[0]).items.size()))},
    {"aten::keys.k(Dict(k, t) self) -> k[]", TESSERA_BUILTIN(Items v; for (const auto& [k, x]
                                                                           : dict(a[0]).items) v.push_back(k);
                                                             r[0] = list(dict(a[0]).key, std::move(v)))},
    {"aten::values.k(Dict(k, t) self) -> t[]", TESSERA_BUILTIN(Items v; for (const auto& [k, x]
                                                                             : dict(a[0]).items) v.push_back(x);
                                                               r[0] = list(dict(a[0]).value, std::move(v)))},
    {"aten::items.k(Dict(k, t) self) -> ((k, t)[])",
     TESSERA_BUILTIN(const Dict& d = dict(a[0]); Items v; for (const auto& p
                                                               : d.items) v.push_back(pair_of(d, p));
                     r[0] = list(tuple_of({d.key, d.value}), std::move(v)))},
    {"aten::__getitem__.Dict_k(Dict(k, t) self, k key) -> t", TESSERA_BUILTIN(r[0] = must_find(a[0], a[1]))},
    {"aten::get.k(Dict(k, t) self, k key) -> t?",
     TESSERA_BUILTIN(const Value* f = dict(a[0]).find(a[1]); r[0] = f ? *f : Value())},
    {"aten::get.default_k(Dict(k, t) self, k key, t default_value) -> t",
     TESSERA_BUILTIN(const Value* f = dict(a[0]).find(a[1]); r[0] = f ? *f : a[2])},
    {"aten::setdefault.k(Dict(k, t)(a!) self, k key, t default_value) -> t",
     TESSERA_BUILTIN(if (!dict(a[0]).find(a[1])) dict(a[0]).set(a[1], a[2]); r[0] = *dict(a[0]).find(a[1]))},
    {"aten::pop.Dict_k(Dict(k, t)(a!) self, k key) -> t", TESSERA_BUILTIN(r[0] = popped(a, Value(), true))},
    {"aten::pop.Dict_default_k(Dict(k, t)(a!) self, k key, t default_value) -> t",
     TESSERA_BUILTIN(r[0] = popped(a, a[2], false))},
    {"aten::popitem.k(Dict(k, t)(a!) self) -> (k, t)",
     TESSERA_BUILTIN(Dict& d = dict(a[0]); TESSERA_CHECK_INDEX(!d.items.empty(), "popitem(): dictionary is empty");
                     r[0] = d.items.front().first; r[1] = d.items.front().second; d.erase(Value(r[0])))},
    {"aten::clear.k(Dict(k, t)(a!) self) -> ()", TESSERA_BUILTIN(dict(a[0]).clear())},
    {"aten::update.k(Dict(k, t)(a!) self, Dict(k, t) to_add) -> ()", TESSERA_BUILTIN(update(a[0], a[1]))},
    {"aten::copy.Dict_k(Dict(k, t) self) -> Dict(k, t)",
     TESSERA_BUILTIN(auto c = make_intrusive<Dict>(dict(a[0]).key, dict(a[0]).value);
                     for (const auto& [k, v]
                          : dict(a[0]).items) c->set(k, v);
                     r[0] = wrap(c))},
    {"aten::dict.Dict_k(Dict(k, t) self) -> Dict(k, t)",
     TESSERA_BUILTIN(auto c = make_intrusive<Dict>(dict(a[0]).key, dict(a[0]).value);
                     for (const auto& [k, v]
                          : dict(a[0]).items) c->set(k, v);
                     r[0] = wrap(c))},
    {"aten::__contains__.k(Dict(k, t) dict, k key) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(dict(a[0]).find(a[1]) != nullptr))},
    {"aten::_set_item.k(Dict(k, t)(a!) l, k idx, t(b -> *) v) -> ()", TESSERA_BUILTIN(dict(a[0]).set(a[1], a[2]))},
    {"aten::Delete.Dict_k(Dict(k, t)(a!) self, k key) -> ()",
     TESSERA_BUILTIN(must_find(a[0], a[1]); dict(a[0]).erase(a[1]))},
};

}  // namespace

BuiltinTable container_builtins() { return {kContainers, std::size(kContainers)}; }

}  // namespace tessera::jit
