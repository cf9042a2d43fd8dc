// What `object.name` means in a program.
#include "jit/source/emitter.h"

namespace tessera::jit {

// --- attributes ---

Sugar Emitter::attribute(const Sugar& object, const std::string& name, const Range& where) {
  switch (object.kind) {
    case Sugar::kHost: {
      Sugar s;
      if (object.host->attribute(name, where, &s)) return s;
      fail(where, str_cat("module '", object.host->describe(), "' object has no attribute ", name));
    }
    case Sugar::kNamespace: {
      Sugar s;
      if (resolver_ && resolver_->resolve(object.text + "." + name, where, &s)) return s;
      fail(where, str_cat("undefined value ", object.text, ".", name));
    }
    case Sugar::kType:
      return type_attribute(object.type, name, where);
    case Sugar::kValue:
      return value_attribute(object.value, name, where);
    case Sugar::kConstant:
      return value_attribute(value_of(object, where), name, where);
    case Sugar::kItems:
      if (object.text == "dict" && (name == "items" || name == "keys" || name == "values")) {
        Sugar s(Sugar::kSpecial, "$" + name);
        s.items = {object};
        return s;
      }
      break;
    case Sugar::kSpecial:
      if (object.text == "super") {
        Sugar s;
        break;
      }
      break;
    default:
      break;
  }
  return value_attribute(value_of(object, where), name, where);
}

Sugar Emitter::type_attribute(TypePtr t, const std::string& name, const Range& where) {
  if (t->is(K::kEnum)) {
    for (size_t i = 0; i < t->def->items.size(); ++i)
      if (t->def->items[i].name == name) return Sugar::of_constant(make_value<EnumItem>(t->def, i), t);
    if (name == "__members__") {}
    fail(where, str_cat("'", t->annotation(), "' has no attribute '", name, "'"));
  }
  if (t->is(K::kClass)) {
    if (name == "__new__") {
      Sugar s(Sugar::kSpecial, "$new");
      s.type = t;
      return s;
    }
    if (const ConstantAttribute* c = t->def->constant(name)) return Sugar::of_constant(c->value, c->type);
    if (Function* f = t->def->method(name)) return Sugar::of_function(f);
    Sugar s;
    if (Resolver* r = resolver_; r && r->add_member(*t->def, name, where, &s))
      return s.kind == Sugar::kNothing ? type_attribute(t, name, where) : s;
  }
  fail(where, str_cat("'", t->annotation(), "' object has no attribute or method '", name, "'."));
}

namespace {
// Which of an operator's results has a name: those of max(dim) are values and indices. -1: none.
int field_of_result(const Val* tuple, const std::string& name) {
  if (!tuple->node || tuple->node->kind != N::kTuple || tuple->node->in.empty()) return -1;
  const Node* n = tuple->node->in[0]->node;
  if (!n || n->kind != N::kOp || n->out.size() != tuple->node->in.size() || n->out[0] != tuple->node->in[0]) return -1;
  const FunctionSchema s = parse_schema(n->op->schema);
  for (size_t i = 0; i < s.returns.size(); ++i)
    if (s.returns[i].name == name) return static_cast<int>(i);
  return -1;
}
}  // namespace

Sugar Emitter::value_attribute(Val* v, const std::string& name, const Range& where) {
  TypePtr t = v->type;
  Sugar method(Sugar::kMethod, name);
  method.value = v;
  switch (t->kind) {
    case K::kTensor: {
      constexpr const char* properties[][2] = {{"dtype", "prim::dtype"},
                                               {"device", "prim::device"},
                                               {"shape", "aten::size"},
                                               {"ndim", "aten::dim"},
                                               {"grad", "prim::grad"},
                                               {"data", "prim::data"},
                                               {"layout", "prim::layout"},
                                               {"is_cuda", "prim::is_cuda"},
                                               {"is_cpu", "prim::is_cpu"},
                                               {"is_meta", "prim::is_meta"},
                                               {"is_sparse", "prim::is_sparse"},
                                               {"is_sparse_csr", "prim::is_sparse_csr"},
                                               {"is_quantized", "prim::is_quantized"},
                                               {"requires_grad", "prim::requires_grad"},
                                               {"is_leaf", "aten::is_leaf"},
                                               {"T", "aten::numpy_T"},
                                               {"mT", "aten::mT"},
                                               {"H", "aten::matrix_H"},
                                               {"mH", "aten::mH"},
                                               {"real", "aten::real"},
                                               {"imag", "aten::imag"},
                                               {"is_mkldnn", "prim::is_mkldnn"},
                                               {"is_xpu", "prim::is_xpu"},
                                               {"is_mps", "prim::is_mps"},
                                               {"is_mtia", "prim::is_mtia"},
                                               {"is_hpu", "prim::is_hpu"},
                                               {"is_ipu", "prim::is_ipu"},
                                               {"is_xla", "prim::is_xla"},
                                               {"is_vulkan", "prim::is_vulkan"},
                                               {"is_maia", "prim::is_maia"},
                                               {"is_nested", "prim::is_nested"},
                                               {"itemsize", "prim::itemsize"},
                                               {"nbytes", "prim::nbytes"}};
      for (const auto& p : properties)
        if (name == p[0]) return op(p[1], {v}, where);
      break;
    }
    case K::kDevice:
      if (name == "type" || name == "index") return op("prim::" + name, {v}, where);
      break;
    case K::kComplex:
      if (name == "real" || name == "imag") return op("aten::" + name, {v}, where);
      break;
    case K::kTuple:
      for (size_t i = 0; i < t->fields.size(); ++i)
        if (t->fields[i] == name) return tuple_item(v, i, where);
      if (const int i = field_of_result(v, name); i >= 0) return tuple_item(v, static_cast<size_t>(i), where);
      if (name == "_asdict" || name == "_replace")
        fail(where, str_cat("'", t->annotation(), "' has no ", name, " in TorchScript"));
      break;
    case K::kEnum:
      if (name == "name") return node_value(N::kEnumName, {v}, str_type(), where);
      if (name == "value") {
        TypePtr vt = t->def->items.empty() ? int_type() : t->def->items[0].type;
        return node_value(N::kEnumValue, {v}, vt, where);
      }
      break;
    case K::kInterface:
      if (Function* f = t->def->method(name)) {
        method.function = f;
        return method;
      }
      fail(where, str_cat("'", t->annotation(), "' object has no attribute or method '", name, "'."));
    case K::kClass: {
      ClassDef& def = *t->def;
      if (const Attribute* a = def.attribute(name)) {
        Node* n = node(N::kGetAttr, {v}, where);
        n->name = name;
        Val* out = graph_.add_out(n, a->type);
        graph_.set_name(out, name);
        return out;
      }
      if (const ConstantAttribute* c = def.constant(name)) return Sugar::of_constant(c->value, c->type);
      if (const Property* p = def.property(name)) return call_function(*p->getter, {}, where, v);
      if (Function* f = def.method(name)) {
        if (f->is_static) return Sugar::of_function(f);
        if (Function* packed = name == "forward" ? def.method("forward__packed") : nullptr) {
          Sugar both(Sugar::kOverloads, "");  // recurrent layers take packed sequences, too
          both.functions = {f, packed};
          both.value = v;
          return both;
        }
        method.function = f;
        return method;
      }
      const auto iterator = [&] {
        Sugar s(Sugar::kSpecial, "$" + name);
        s.items = {Sugar(v)};
        return s;
      };
      if (def.is_module && def.module_kind != ModuleKind::kPlain &&
          (name == "items" || name == "keys" || name == "values"))
        return iterator();
      Sugar told;
      if (Resolver* r = function_.resolver.get(); r && r->add_member(def, name, where, &told)) {
        if (told.kind == Sugar::kNothing) return value_attribute(v, name, where);
        if (told.kind == Sugar::kOverloads) told.value = v;
        return told;
      }
      if (def.is_module) {
        if (name == "named_children" || name == "children" || name == "named_modules" || name == "modules" ||
            name == "named_parameters" || name == "parameters" || name == "named_buffers" || name == "buffers" ||
            name == "items" || name == "keys" || name == "values" || name == "train" || name == "eval")
          return iterator();
      }
      fail(where, str_cat(def.is_module ? "Module" : "Class", " '", def.name.substr(def.name.rfind('.') + 1),
                          "' has no attribute '", name, "' "));
    }
    case K::kOptional:
    case K::kUnion:
      fail(where, str_cat("'", t->annotation(), "' object has no attribute or method '", name,
                          "'. Did you forget to check that it is not None, with `if x is not None` or `assert`?"));
    default:
      break;
  }
  if (Sugar s; t->is(K::kTensor) && operators_named("aten::" + name).empty() && resolver_ &&
               resolver_->resolve("$method." + name, where, &s) && s.kind == Sugar::kFunction) {
    method.function = s.function;
    return method;
  }
  if (operators_named("aten::" + name).empty() && operators_named("prim::" + name).empty() &&
      !library_function("aten::" + name) &&
      !(t->is(K::kTensor) &&
        (name == "tolist" || name == "to" || name == "cpu" || name == "cuda" || dtype_of_cast(name))) &&
      !(t->is(K::kFuture) && name == "wait"))
    fail(where, str_cat("'", t->described(), "' object has no attribute or method '", name, "'."));
  return method;
}

// x.tolist(): the annotation of what it becomes says how deep the lists are.
Val* Emitter::to_list(Val* tensor, TypePtr wanted, const Range& where) {
  if (!wanted) fail(where, "Expected type hint for result of tolist()");
  int64_t depth = 0;
  TypePtr t = wanted;
  for (; t->is(K::kList); t = t->elem()) ++depth;
  constexpr K kinds[] = {K::kInt, K::kFloat, K::kBool, K::kComplex};
  const auto kind = std::find_if(std::begin(kinds), std::end(kinds), [&](K k) { return t->is(k); });
  if (kind == std::end(kinds))
    fail(where, str_cat(wanted->annotation(),
                        " is not one of the supported element types for tolist: int, float, "
                        "complex, bool"));
  Val* list = op("prim::tolist", {tensor, integer(depth, where), integer(kind - std::begin(kinds), where)}, where);
  list->type = wanted;
  return list;
}

}  // namespace tessera::jit
