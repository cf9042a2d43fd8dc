// What a for loop goes over: ranges, lists, strings, tensors, tuples, children of modules.
#include <algorithm>

#include "jit/source/emitter.h"

namespace tessera::jit {

Emitter::Iteration Emitter::iterate_ast(const Ast& e) { return iterate(sugar(e), e); }

Emitter::Iteration Emitter::iterate(const Sugar& s, const Range& where) {
  Iteration it;
  if (s.kind == Sugar::kItems) {
    it.is_unrolled = true;
    it.unrolled = s.items;
    return it;
  }
  if (s.kind == Sugar::kType && s.type->is(K::kEnum)) {
    it.is_unrolled = true;
    for (size_t i = 0; i < s.type->def->items.size(); ++i)
      it.unrolled.push_back(Sugar::of_constant(make_value<EnumItem>(s.type->def, i), s.type));
    return it;
  }
  if (s.kind == Sugar::kIterable) {
    const std::string& id = s.text;
    if (id == "range") {
      std::vector<Val*> v;
      for (const Sugar& x : s.items) {
        Val* i = value_of(x, where);
        if (i->type->is(K::kTensor)) i = op("aten::IntImplicit", {i}, where);
        if (!i->type->is(K::kInt)) fail(where, str_cat("range() expects ints, got ", i->type->described()));
        v.push_back(i);
      }
      if (v.empty() || v.size() > 3) fail(where, "range expected 1 to 3 arguments");
      it.kind = Iteration::kRange;
      if (v.size() == 1) {
        it.trips = v[0];
        it.plain_range = true;
        return it;
      }
      it.start = v[0];
      it.step = v.size() == 3 ? v[2] : integer(1, where);
      it.trips = op("aten::__range_length", {v[0], v[1], it.step}, where);
      return it;
    }
    if (id == "enumerate" || id == "zip") {
      it.kind = Iteration::kTuple;
      std::vector<Sugar> sources = s.items;
      Iteration count;
      bool unroll = false;
      size_t length = SIZE_MAX;
      Val* start = nullptr;
      if (id == "enumerate") {
        if (sources.empty()) fail(where, "enumerate expected at least 1 argument");
        if (sources.size() > 1) start = value_of(sources[1], where);
        sources.resize(1);
      }
      for (const Sugar& x : sources) {
        it.parts.push_back(iterate(x, where));
        if (it.parts.back().is_unrolled) unroll = true, length = std::min(length, it.parts.back().unrolled.size());
      }
      if (unroll) {
        it.is_unrolled = true;
        for (size_t i = 0; i < length; ++i) {
          std::vector<Sugar> items;
          if (id == "enumerate") {
            Val* k = integer(static_cast<int64_t>(i), where);
            items.push_back(start ? op("aten::add", {k, start}, where) : k);
          }
          for (const Iteration& p : it.parts) {
            if (p.is_unrolled)
              items.push_back(p.unrolled[i]);
            else
              items.push_back(element(p, integer(static_cast<int64_t>(i), where), where));
          }
          it.unrolled.push_back(Sugar::of_items(std::move(items)));
        }
        return it;
      }
      for (const Iteration& p : it.parts) {
        if (!p.trips) fail(where, "one of these cannot be iterated over");
        it.trips = it.trips ? op("prim::min", {it.trips, p.trips}, where) : p.trips;
      }
      if (id == "enumerate") {
        count.kind = Iteration::kRange;
        count.plain_range = !start;
        count.trips = it.trips;
        if (start) count.start = start, count.step = integer(1, where);
        it.parts.insert(it.parts.begin(), count);
      }
      return it;
    }
    if (id == "reversed") {
      const Sugar& of = s.items.at(0);
      if (of.kind == Sugar::kItems || (of.kind == Sugar::kValue && of.value->type->is_module())) {
        it = iterate(of, where);
        std::reverse(it.unrolled.begin(), it.unrolled.end());
        return it;
      }
      if (of.kind == Sugar::kIterable && of.text == "range") {
        Iteration r = iterate(of, where);
        Val* one = integer(1, where);
        Val* step = r.step ? r.step : one;
        Val* start = r.start ? r.start : integer(0, where);
        Val* last =
            op("aten::add", {start, op("aten::mul", {step, op("aten::sub", {r.trips, one}, where)}, where)}, where);
        r.plain_range = false;
        r.start = last;
        r.step = op("aten::neg", {step}, where);
        return r;
      }
      return iterate(op("prim::reverse", {value_of(of, where)}, where), where);
    }
    // children(), named_modules() ... of a module
    const Sugar& of = s.items.at(0);
    Val* module = of.kind == Sugar::kValue ? of.value : nullptr;
    if (!module) fail(where, str_cat(id, " cannot be iterated over"));
    it.is_unrolled = true;
    const bool named = id.starts_with("named_") || id == "items", keys = id == "keys";
    const bool deep = id.ends_with("modules"), params = id.ends_with("parameters"), buffers = id.ends_with("buffers");
    const auto add = [&](const std::string& name, Val* v) {
      if (keys)
        it.unrolled.push_back(text(name, where));
      else if (named)
        it.unrolled.push_back(Sugar::of_items({text(name, where), v}));
      else
        it.unrolled.push_back(v);
    };
    const auto walk = [&](auto& self, Val* m, const std::string& prefix, bool top) -> void {
      if (deep) add(prefix, m);
      for (const Attribute& a : m->type->def->attributes) {
        const std::string name = prefix.empty() ? a.name : prefix + "." + a.name;
        const bool is_module = a.type->is_module();
        const bool wanted = params ? a.is_parameter : buffers ? a.is_buffer : !deep && is_module && top;
        if (!wanted && !(is_module && (deep || params || buffers))) continue;
        Val* v = value_attribute(m, a.name, where).value;
        if (wanted)
          add(name, v);
        else
          self(self, v, name, false);
      }
    };
    walk(walk, module, "", true);
    return it;
  }
  Val* v = value_of(s, where);
  it.base = v;
  switch (v->type->kind) {
    case K::kList:
    case K::kStr:
      it.trips = op("aten::len", {v}, where);
      return it;
    case K::kTensor:
      it.trips = op("aten::len", {v}, where);
      return it;
    case K::kDict:
      it.base = op("aten::keys", {v}, where);
      it.trips = op("aten::len", {it.base}, where);
      return it;
    case K::kTuple:
      it.is_unrolled = true;
      for (Val* x : unpacked(v, 0, where)) it.unrolled.push_back(x);
      return it;
    case K::kClass: {
      const ClassDef& def = *v->type->def;
      if (def.is_module && def.module_kind != ModuleKind::kPlain) {
        it.is_unrolled = true;
        const bool dict = def.module_kind == ModuleKind::kDict || def.module_kind == ModuleKind::kParameterDict;
        for (const Attribute& a : def.attributes)
          if (a.type->is_module() || a.is_parameter || a.type->is(K::kInterface))
            it.unrolled.push_back(dict ? Sugar(text(a.name, where)) : value_attribute(v, a.name, where));
        return it;
      }
      if (def.method("__len__") && def.method("__getitem__")) {
        it.trips = call_method(v, "__len__", {}, where);
        return it;
      }
      break;
    }
    default:
      break;
  }
  fail(where, str_cat("'", v->type->described(), "' object is not iterable"));
}

Sugar Emitter::element(const Iteration& it, Val* index, const Range& where) {
  if (it.kind == Iteration::kRange) {
    if (it.plain_range) return index;
    return op("aten::__derive_index", {index, it.start, it.step}, where);
  }
  if (it.kind == Iteration::kTuple) {
    std::vector<Sugar> items;
    for (const Iteration& p : it.parts) items.push_back(element(p, index, where));
    return Sugar::of_items(std::move(items));
  }
  if (it.base->type->is(K::kClass)) return call_method(it.base, "__getitem__", {{where, "", index}}, where);
  if (it.base->type->is(K::kTensor)) return op("aten::select", {it.base, integer(0, where), index}, where);
  return op("aten::__getitem__", {it.base, index}, where);
}

}  // namespace tessera::jit
