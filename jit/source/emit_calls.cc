#include <algorithm>

#include "jit/source/emitter.h"

namespace tessera::jit {

const char* dtype_of_cast(std::string_view method) {
  constexpr const char* casts[][2] = {{"float", "float32"},     {"double", "float64"},   {"half", "float16"},
                                      {"int", "int32"},         {"long", "int64"},       {"short", "int16"},
                                      {"char", "int8"},         {"byte", "uint8"},       {"bool", "bool"},
                                      {"bfloat16", "bfloat16"}, {"cfloat", "complex64"}, {"cdouble", "complex128"}};
  for (const auto& c : casts)
    if (method == c[0]) return c[1];
  return nullptr;
}

// --- matching ---

// The value, or another one made of it, as a parameter takes it; null where it does not fit.
Val* Emitter::convert(Val* v, const Formal& f, TypePtr concrete, bool allow, const Range& where) {
  if (v->type->is(K::kTuple) && !concrete->is(K::kTuple)) {  // (1, 2) for int[]
    TypePtr want = concrete->is(K::kOptional) ? concrete->elem() : concrete;
    if (want->is(K::kList)) {
      bool fits = true;
      for (TypePtr e : v->type->elems) fits = fits && (is_subtype(e, want->elem()) || has_variables(want->elem()));
      if (fits && (f.is_op || f.name) && !(v->type->elems.empty() && has_variables(want->elem()))) {
        TypePtr e = has_variables(want->elem()) ? v->type->elems[0] : want->elem();
        return node_value(N::kList, unpacked(v, 0, where), list_of(e), where);
      }
    }
  }
  if (is_subtype(v->type, concrete)) return v;
  TypePtr want = concrete->is(K::kOptional) ? concrete->elem() : concrete;
  // what is written at its place alone: a variable's list may have changed since
  const bool literal = v->node && v->name.empty();
  // [] for any list, {} for any dict
  if (literal && v->node->in.empty() && (v->node->kind == N::kList || v->node->kind == N::kDict) &&
      want->kind == v->type->kind) {
    Val* fresh = node_value(v->node->kind, {}, want, where);
    return fresh;
  }
  // a literal list of what fits one by one
  if (literal && v->node->kind == N::kList && want->is(K::kList)) {
    bool fits = !v->node->in.empty();
    for (const Val* x : v->node->in) fits = fits && is_subtype(x->type, want->elem());
    if (fits) return node_value(N::kList, v->node->in, want, where);
    if (allow && v->type->elem()->is(K::kTensor) && (want->elem()->is(K::kInt) || want->elem()->is(K::kFloat))) {
      std::vector<Val*> items;
      for (Val* x : v->node->in)
        items.push_back(op(want->elem()->is(K::kInt) ? "aten::IntImplicit" : "aten::FloatImplicit", {x}, where));
      return node_value(N::kList, std::move(items), want, where);
    }
  }
  if (v->node && v->node->kind == N::kTuple && want->is(K::kTuple) && want->elems.size() == v->node->in.size()) {
    std::vector<Val*> items;
    for (size_t i = 0; i < want->elems.size(); ++i) {
      const bool number = allow && v->node->in[i]->type->is(K::kNumber);
      Val* x = convert(v->node->in[i], Formal{nullptr, want->elems[i], false, false, nullptr, -1, false},
                       want->elems[i], number, where);
      if (!x) return nullptr;
      items.push_back(x);
    }
    return tuple(std::move(items), where, want);
  }
  if (f.size >= 0 && want->is(K::kList) && is_subtype(v->type, want->elem()))  // 3 for int[2]
    return node_value(N::kList, std::vector<Val*>(static_cast<size_t>(std::max<int64_t>(f.size, 1)), v), want, where);
  if (f.size >= 0 && want->is(K::kList) && want->elem()->is(K::kFloat) && v->type->is(K::kInt)) {
    Val* x = op("aten::Float", {v}, where);
    return node_value(N::kList, std::vector<Val*>(static_cast<size_t>(std::max<int64_t>(f.size, 1)), x), want, where);
  }
  if (!allow) return nullptr;
  if (v->type->is(K::kTensor)) {
    const char* name = want->is(K::kInt)       ? "aten::IntImplicit"
                       : want->is(K::kFloat)   ? "aten::FloatImplicit"
                       : want->is(K::kComplex) ? "aten::ComplexImplicit"
                       : want->is(K::kNumber)  ? "aten::ScalarImplicit"
                                               : nullptr;
    if (name) return op(name, {v}, where);
  }
  if (v->type->is(K::kNumber) && (want->is(K::kInt) || want->is(K::kFloat)))
    return op(want->is(K::kInt) ? "aten::Int" : "aten::Float", {v}, where);
  if (f.is_op && (v->type->is(K::kInt) || v->type->is(K::kBool)) && want->is(K::kFloat))
    return op("aten::Float", {v}, where);
  if (f.is_op && v->type->is(K::kBool) && (want->is(K::kInt) || want->is(K::kNumber)))
    return op("aten::Int", {v}, where);
  if (v->type->is(K::kStr) && want->is(K::kDevice)) return op("aten::device", {v}, where);
  if (f.is_op && v->type->is(K::kList) && want->is(K::kList) && v->type->elem()->is(K::kInt) &&
      want->elem()->is(K::kFloat) && literal && v->node->kind == N::kList) {
    std::vector<Val*> items;
    for (Val* x : v->node->in) items.push_back(op("aten::Float", {x}, where));
    return node_value(N::kList, std::move(items), want, where);
  }
  return nullptr;
}

bool Emitter::match(const std::vector<Formal>& formals, bool vararg, const std::vector<Argument>& args, bool allow,
                    const Range& where, std::vector<Val*>* out, TypeVars* vars, std::string* why) {
  std::vector<bool> used(args.size(), false);
  size_t at = 0;  // the next one by position
  size_t positional = 0;
  while (positional < args.size() && args[positional].name.empty()) ++positional;
  for (size_t i = 0; i < formals.size(); ++i) {
    const Formal& f = formals[i];
    const Argument* given = nullptr;
    size_t which = 0;
    std::vector<Val*> spread;
    if (!f.keyword_only && at < positional) {
      which = at++;
      given = &args[which];
      // f(2, 3) for f([2, 3]), einsum("i,j", a, b): the rest of the numbers or tensors are one list
      TypePtr want = f.type->is(K::kOptional) ? f.type->elem() : f.type;
      const bool numbers = want->is(K::kList) && want->elem()->is(K::kInt);
      const K item = numbers ? K::kInt : K::kTensor;
      if ((f.is_op || of_library_) && want->is(K::kList) && want->elem()->is(item) && given->value->type->is(item) &&
          f.size < 0 && spreads_) {
        bool last = true;
        for (size_t k = i + 1; k < formals.size(); ++k)
          last = last && (formals[k].keyword_only || (numbers && formals[k].has_default));
        for (size_t k = which; k < positional && last; ++k) last = args[k].value->type->is(item);
        if (last) {
          for (size_t k = which; k < positional; ++k) spread.push_back(args[k].value), used[k] = true;
          at = positional;
        }
      }
    } else {
      for (size_t k = positional; k < args.size(); ++k)
        if (args[k].name == *f.name || (f.is_op && i == 0 && *f.name == "self" && args[k].name == "input"))
          given = &args[which = k];
    }
    if (!spread.empty()) {
      out->push_back(node_value(N::kList, std::move(spread), list_of(given->value->type), where));
      continue;
    }
    if (!given) {
      if (!f.has_default) {
        if (why) *why = str_cat("Argument ", *f.name, " not provided.");
        return false;
      }
      out->push_back(constant(*f.default_value, f.type, where));
      continue;
    }
    used[which] = true;
    TypePtr concrete = f.type;
    Val* v = given->value;
    if (has_variables(concrete)) {
      if (!match_variables(concrete, v->type, *vars)) {
        Val* c = v->type->is(K::kTuple) ? convert(v, f, concrete, allow, given->range) : nullptr;
        if (!c || !match_variables(concrete, c->type, *vars)) {
          if (v->node && v->node->in.empty() && (v->node->kind == N::kList || v->node->kind == N::kDict)) {
            concrete = substitute(concrete, *vars);
            if (!has_variables(concrete)) {
              if (Val* e = convert(v, f, concrete, allow, given->range)) {
                out->push_back(e);
                continue;
              }
            }
          }
          if (why)
            *why = str_cat("Could not match type ", v->type->described(), " to ", f.type->annotation(),
                           " in argument '", *f.name, "'.");
          return false;
        }
        v = c;
      }
      concrete = substitute(concrete, *vars);
    }
    Val* fit = convert(v, f, concrete, allow, given->range);
    if (!fit) {
      if (why)
        *why = str_cat("Expected a value of type '", concrete->described(), "' for argument '", *f.name,
                       "' but instead found type '", v->type->described(), "'.");
      return false;
    }
    out->push_back(fit);
  }
  if (vararg)
    for (; at < positional; ++at) out->push_back(args[at].value), used[at] = true;
  for (size_t k = 0; k < args.size(); ++k) {
    if (used[k]) continue;
    if (why)
      *why = args[k].name.empty() ? str_cat("Expected at most ", formals.size(), " arguments but found ", positional,
                                            " positional arguments.")
                                  : str_cat("Keyword argument ", args[k].name, " unknown.");
    return false;
  }
  return true;
}

Val* Emitter::packed(Node* n, const std::vector<TypePtr>& rets, const std::vector<std::string>*) {
  if (rets.empty()) {
    Val* v = none(n->range);
    return v;
  }
  for (TypePtr t : rets) graph_.add_out(n, t);
  if (rets.size() == 1) return n->out[0];
  return tuple(n->out, n->range);
}

Val* Emitter::try_op(const std::string& name, const std::vector<Argument>& args, const Range& where, std::string* why) {
  if (args.size() == 2 && args[0].value->type->is(K::kEnum) && (name == "aten::eq" || name == "aten::ne"))
    return try_op(name == "aten::eq" ? "aten::__is__" : "aten::__isnot__", args, where, why);
  std::string reasons;
  const size_t mark = block_->nodes.size();
  const auto forget = [&] { block_->nodes.resize(mark); };
  // one number is no list where another overload takes a number: tensor_split(x, 2)
  bool takes_number = false;
  for (const Operator* o : operators_named(name))
    takes_number |= o->args.size() > 1 && o->args[1].type->is(K::kInt) && o->args[1].name != "dtype";
  for (const bool allow : {false, true}) {
    for (const Operator* o : operators_named(name)) {
      spreads_ = !takes_number;
      std::vector<Formal> formals;
      for (const OpArg& a : o->args)
        formals.push_back({&a.name, a.type, a.has_default, a.keyword_only, &a.default_value, a.size, true});
      std::vector<Val*> in;
      TypeVars vars;
      std::string reason;
      if (!match(formals, o->vararg, args, allow, where, &in, &vars, why && allow ? &reason : nullptr)) {
        forget();
        if (why && allow) reasons += str_cat("  \n  ", o->schema, ":\n  ", reason, "\n");
        continue;
      }
      Node* n = node(N::kOp, std::move(in), where);
      n->op = o;
      std::vector<TypePtr> rets;
      for (TypePtr t : o->rets) rets.push_back(substitute(t, vars));
      return packed(n, rets);
    }
    for (const char* overload : {"", "__data"}) {
      Function* f = library_function(name + overload);
      if (!f) continue;
      try {
        return call_function(*f, args, where);
      } catch (const CompileError& e) {
        forget();
        if (allow) reasons += e.what();
      }
    }
  }
  // out= of an operator that has no such form: its result is written there
  const auto out = std::find_if(args.begin(), args.end(), [](const Argument& a) { return a.name == "out"; });
  if (out != args.end() && out->value->type->is(K::kTensor)) {
    std::vector<Argument> others(args.begin(), out);
    others.insert(others.end(), out + 1, args.end());
    Val* v = try_op(name, others, where, nullptr);
    if (v && v->type->is(K::kTensor)) return op("aten::_written", {out->value, v}, where);
    forget();
  }
  if (why) *why = std::move(reasons);
  return nullptr;
}
Val* Emitter::op(const std::string& name, std::initializer_list<Val*> values, const Range& where) {
  std::vector<Argument> args;
  for (Val* v : values) args.push_back({where, "", v});
  return op(name, std::move(args), where);
}
Val* Emitter::op(const std::string& name, std::vector<Argument> args, const Range& where) {
  std::string why;
  if (Val* v = try_op(name, args, where, &why)) return v;
  if (why.empty()) fail(where, str_cat("Unknown builtin op: ", name, ".\nHere are some suggestions:\n"));
  throw CompileError(str_cat("\nArguments for call are not valid.\nThe following variants are available:\n", why,
                             "\nThe original call is:\n", where.excerpt()));
}

Val* Emitter::call_function(Function& f, std::vector<Argument> args, const Range& where, Val* self, bool allow) {
  f.ensure_schema();
  if (self) args.insert(args.begin(), Argument{where, "", self});
  if (!f.refused.empty()) {
    emit_raise(where, text(f.refused, where), "");
    return uninitialized(f.ret, where);
  }
  std::vector<Formal> formals;
  for (const Param& p : f.args)
    formals.push_back({&p.name, p.type, p.has_default, p.keyword_only, &p.default_value, p.size, false});
  if (self && !formals.empty()) formals[0].type = self->type;
  std::vector<Val*> in;
  TypeVars vars;
  std::string why;
  of_library_ = spreads_ = f.qualified.starts_with("__torch__.torch.nn.functional.");
  const bool fits = match(formals, false, args, allow, where, &in, &vars, &why);
  of_library_ = false;
  if (!fits) throw CompileError(str_cat("\n\n", f.schema(), ":\n", why, "\n:\n", where.excerpt()));
  Node* n;
  if (f.host && !f.is_native) {
    n = node(N::kHostCall, std::move(in), where);
    n->host = f.host;
    n->name = f.name;
  } else if (self || (f.owner && !f.is_static)) {
    n = node(N::kCallMethod, std::move(in), where);
    n->name = f.name;
    n->function = f.is_declaration ? nullptr : &f;
  } else {
    n = node(N::kCallFunction, std::move(in), where);
    n->function = &f;
  }
  return graph_.add_out(n, f.ret);
}
// Functions of the library that return more by a flag have a declaration for each value, with it as the default: flags
// are truth values of which `all` have other defaults.
bool Emitter::fits_flags(Function& f, const std::vector<Function*>& all, const std::vector<Argument>& args) {
  if (!f.qualified.starts_with("__torch__.torch.")) return true;
  for (Function* g : all) g->ensure_schema();
  const auto differs = [](const Param& p, const Param& other) {
    return other.name == p.name && other.has_default && other.type->is(K::kBool) &&
           other.default_value.boolean() != p.default_value.boolean();
  };
  const auto is_flag = [&](const Param& p) {
    return std::ranges::any_of(all, [&](const Function* g) {
      return std::ranges::any_of(g->args, [&](const Param& other) { return differs(p, other); });
    });
  };
  for (size_t i = 0; i < f.args.size(); ++i) {
    const Param& p = f.args[i];
    if (!p.has_default || !p.type->is(K::kBool) || !is_flag(p)) continue;
    for (size_t k = 0; k < args.size(); ++k) {
      if (args[k].name.empty() ? k != i : args[k].name != p.name) continue;
      const Value* v = known(args[k].value);
      if (v && v->tag() == Value::Tag::kBool && v->boolean() != p.default_value.boolean()) return false;
    }
  }
  return true;
}
Val* Emitter::call_overloads(const std::vector<Function*>& all, std::vector<Argument> args, const Range& where,
                             Val* self) {
  std::string reasons;
  const size_t mark = block_->nodes.size();
  for (const bool allow : {false, true})
    for (Function* f : all) {
      if (!fits_flags(*f, all, args)) continue;
      try {
        return call_function(*f, args, where, self, allow);
      } catch (const CompileError& e) {
        block_->nodes.resize(mark);
        if (allow) reasons += e.what();
      }
    }
  throw CompileError(str_cat("\nArguments for call are not valid.\nThe following variants are available:\n", reasons,
                             "\nThe original call is:\n", where.excerpt()));
}
Val* Emitter::call_method(Val* object, const std::string& name, std::vector<Argument> args, const Range& where) {
  Sugar m = value_attribute(object, name, where);
  if (m.kind != Sugar::kMethod || !m.function) return value_of(call_with(m, std::move(args), where), where);
  return call_function(*m.function, std::move(args), where, object);
}

// forward with its hooks
Val* Emitter::call_module(Val* module, std::vector<Argument> args, const Range& where) {
  const ClassDef& def = *module->type->def;
  for (Function* hook : def.pre_hooks) {
    std::vector<Val*> in;
    for (const Argument& a : args)
      if (a.name.empty()) in.push_back(a.value);
    Val* result = call_function(*hook, {{where, "", tuple(in, where)}}, where, module);
    if (result->type->is(K::kNone)) continue;
    std::vector<Val*> items = result->type->is(K::kTuple) ? unpacked(result, 0, where) : std::vector<Val*>{result};
    args.clear();
    for (Val* v : items) args.push_back({where, "", v});
  }
  std::vector<Val*> in;
  for (const Argument& a : args)
    if (a.name.empty()) in.push_back(a.value);
  Val* result = call_method(module, "forward", args, where);
  for (Function* hook : def.hooks) {
    Val* other = call_function(*hook, {{where, "", tuple(in, where)}, {where, "", result}}, where, module);
    if (!other->type->is(K::kNone)) result = other;
  }
  return result;
}

// --- calls ---

std::vector<Argument> Emitter::arguments(const Ast& e, size_t from) {
  std::vector<Argument> args;
  for (size_t i = from; i < e.kids.size(); ++i) {
    const Ast& k = e[i];
    if (k.is(A::kStarred)) {
      const Sugar s = sugar(k[0]);
      if (s.kind == Sugar::kItems) {
        for (const Sugar& x : s.items) args.push_back({k, "", value_of(x, k)});
        continue;
      }
      Val* v = value_of(s, k);
      if (!v->type->is(K::kTuple))
        fail(k, str_cat("cannot unpack a value of type ", v->type->described(),
                        " into arguments: only tuples have a known length"));
      for (Val* x : unpacked(v, 0, k)) args.push_back({k, "", x});
    } else if (k.is(A::kKeyword)) {
      args.push_back({k, k.text, expr(k[0])});
    } else {
      args.push_back({k, "", expr(k)});
    }
  }
  return args;
}

Sugar Emitter::call(const Ast& e, TypePtr hint) {
  if (e[0].is(A::kAttr) && e[0][0].is(A::kCall) && e[0][0][0].is(A::kName) && e[0][0][0].text == "super") {
    // super().method(...): the host knows the next class
    Sugar s;
    if (function_.owner && function_.resolver && function_.resolver->resolve("super()." + e[0].text, e, &s) &&
        s.kind == Sugar::kFunction) {
      const Sugar* self = find(function_.args.empty() ? "self" : function_.args[0].name);
      if (self && self->kind == Sugar::kValue) return call_function(*s.function, arguments(e), e, self->value);
    }
    fail(e, "super() is not supported here");
  }
  return call_sugar(sugar(e[0]), e, hint);
}

Sugar Emitter::call_sugar(const Sugar& callee, const Ast& e, TypePtr hint) {
  if (callee.kind == Sugar::kSpecial)
    if (std::optional<Sugar> s = special(callee.text, e, hint)) return *s;
  if (callee.kind == Sugar::kSpecial && callee.text == "$new") return node_value(N::kCreate, {}, callee.type, e);
  if (callee.kind == Sugar::kSpecial && callee.text[0] == '$') {  // children(), items() ... of a module
    Sugar it(Sugar::kIterable, callee.text.substr(1));
    it.items = callee.items;
    return it;
  }
  if (callee.kind == Sugar::kType) return construct(callee.type, e, hint);
  if (callee.kind == Sugar::kMethod && callee.text == "tolist" && callee.value->type->is(K::kTensor))
    return to_list(callee.value, hint, e);
  return call_with(callee, arguments(e), e);
}

Sugar Emitter::call_with(const Sugar& callee, std::vector<Argument> args, const Range& where) {
  switch (callee.kind) {
    case Sugar::kOp:
      return op(callee.text, std::move(args), where);
    case Sugar::kFunction:
      return call_function(*callee.function, std::move(args), where);
    case Sugar::kOverloads:
      return call_overloads(callee.functions, std::move(args), where, callee.value);
    case Sugar::kMethod: {
      Val* v = callee.value;
      if (callee.function) return call_function(*callee.function, std::move(args), where, v);
      args.insert(args.begin(), Argument{where, "", v});
      if (v->type->is(K::kTensor) && callee.text == "where" && args.size() > 1) {  // the condition comes first
        args[1].name.clear();
        std::swap(args[0], args[1]);
      }
      const std::string& n = callee.text;
      if (v->type->is(K::kFuture) && n == "wait") return node_value(N::kWait, {v}, v->type->elem(), where);
      if (v->type->is(K::kTensor) && n == "size" && args.size() == 1) return op("aten::size", std::move(args), where);
      if (v->type->is(K::kTensor) && n == "to" && args.size() >= 2 && args[1].name.empty() &&
          (args[1].value->type->is(K::kDevice) || args[1].value->type->is(K::kStr) ||
           args[1].value->type->is(K::kOptional))) {
        // to(device) alone has no overload of the registry: dtype by name
        bool has_dtype =
            args.size() > 2 && (args[2].name == "dtype" || (args[2].name.empty() && args[2].value->type->is(K::kInt)));
        if (!has_dtype) {
          args[1].name = "device";
          for (size_t i = 2; i < args.size(); ++i)
            if (args[i].name.empty()) args[i].name = i == 2 ? "non_blocking" : "copy";
          return op("aten::to", std::move(args), where);
        }
      }
      if (v->type->is(K::kTensor) && operators_named("aten::" + n).empty() && !library_function("aten::" + n)) {
        if (const char* dtype = dtype_of_cast(n))
          return op("aten::to", {v, integer(*schema_enum_value(TypeKind::kScalarType, dtype), where)}, where);
        if (n == "cpu")
          return op("aten::to",
                    {{where, "", v}, {where, "device", constant(Value::of(Device()), simple_type(K::kDevice), where)}},
                    where);
        if (n == "cuda")
          return op("aten::to",
                    {{where, "", v},
                     {where, "device", constant(Value::of(Device(DeviceType::kCUDA)), simple_type(K::kDevice), where)}},
                    where);
      }
      return op((operators_named("aten::" + n).empty() && !library_function("aten::" + n) &&
                         !operators_named("prim::" + n).empty()
                     ? "prim::"
                     : "aten::") +
                    n,
                std::move(args), where);
    }
    case Sugar::kValue: {
      TypePtr t = callee.value->type;
      if (t->is_module() || (t->is(K::kInterface) && t->def->method("forward"))) {
        if (t->is(K::kInterface)) return call_method(callee.value, "forward", std::move(args), where);
        return call_module(callee.value, std::move(args), where);
      }
      if (t->is(K::kClass)) return call_method(callee.value, "__call__", std::move(args), where);
      fail(where, str_cat("cannot call a value of type '", t->annotation(), "'"));
    }
    case Sugar::kHost:
      fail(where, str_cat("Python builtin ", callee.host->describe(), " is currently not supported in Torchscript"));
    case Sugar::kException:
      fail(where, str_cat("the exception ", callee.text, " can only be raised"));
    default:
      break;
  }
  return call_with(value_of(callee, where), std::move(args), where);
}

// int(x), List(...), a class or a named tuple.
Sugar Emitter::construct(TypePtr t, const Ast& e, TypePtr hint) {
  const Range where(e);
  if (t->is(K::kClass)) {
    if (t->def->is_module) fail(e, "modules cannot be made in TorchScript");
    Function* init = t->def->method("__init__");
    if (t->def->is_native && !init) fail(e, str_cat("'", t->annotation(), "' has no constructor for scripts"));
    if (init && t->def->building) init->ensure_graph();
    Val* object = node_value(N::kCreate, {}, t, where);
    if (init) call_function(*init, arguments(e), where, object);
    return object;
  }
  if (t->is(K::kTuple) && !t->name.empty()) {
    std::vector<Formal> formals;
    static const Value nothing;
    std::vector<Value> defaults(t->fields.size());
    const std::vector<ConstantAttribute>* known_defaults = t->def ? &t->def->constants : nullptr;
    for (size_t i = 0; i < t->fields.size(); ++i) {
      bool has = false;
      if (known_defaults)
        for (const ConstantAttribute& c : *known_defaults)
          if (c.name == t->fields[i]) defaults[i] = c.value, has = true;
      formals.push_back({&t->fields[i], t->elems[i], has, false, &defaults[i], -1, false});
    }
    std::vector<Val*> in;
    TypeVars vars;
    std::string why;
    if (!match(formals, false, arguments(e), true, where, &in, &vars, &why))
      throw CompileError(str_cat("\n\n", t->name, ":\n", why, "\n:\n", where.excerpt()));
    return tuple(std::move(in), where, t);
  }
  if (t->is(K::kEnum)) fail(e, "enums are not callable in TorchScript");
  if (t->is(K::kList) || t->is(K::kDict)) return convert_to(hint && hint->kind == t->kind ? hint : t, e);
  return convert_to(t, e);
}

Sugar Emitter::convert_to(TypePtr t, const Ast& e) {
  const Range where(e);
  const char* name = t->is(K::kInt)         ? "aten::Int"
                     : t->is(K::kFloat)     ? "aten::Float"
                     : t->is(K::kBool)      ? "aten::Bool"
                     : t->is(K::kStr)       ? "aten::str"
                     : t->is(K::kComplex)   ? "aten::Complex"
                     : t->is(K::kDevice)    ? "aten::device"
                     : t->is(K::kGenerator) ? "aten::Generator"
                                            : nullptr;
  if (!name) fail(e, str_cat(t->annotation(), " cannot be called"));
  std::vector<Argument> args = arguments(e);
  if (args.empty()) {
    if (t->is(K::kInt)) return integer(0, where);
    if (t->is(K::kFloat)) return constant(Value::of(0.0), t, where);
    if (t->is(K::kBool)) return truth(false, where);
    if (t->is(K::kStr)) return text("", where);
  }
  if (args.size() == 1 && same(args[0].value->type, t)) return args[0].value;
  if (args.size() == 1 && args[0].value->type->is(K::kClass)) {
    const char* magic = t->is(K::kInt)     ? "__int__"
                        : t->is(K::kFloat) ? "__float__"
                        : t->is(K::kBool)  ? "__bool__"
                                           : "__str__";
    return call_method(args[0].value, magic, {}, where);
  }
  if (args.size() == 1 && t->is(K::kBool)) return to_bool(args[0].value, where);
  if (t->is(K::kDevice))
    for (Argument& a : args)
      if (!a.name.empty()) a.name = a.name == "index" ? "index" : "type";
  return op(name, std::move(args), where);
}

std::vector<TypePtr> Emitter::types_of_argument(const Ast& e) {
  if (e.is(A::kTuple) || e.is(A::kList)) {
    std::vector<TypePtr> all;
    for (const Ast* k : e.kids)
      for (TypePtr t : types_of_argument(*k)) all.push_back(t);
    return all;
  }
  if (e.is(A::kName) && e.text == "list") return {list_of(any_type())};
  if (e.is(A::kName) && e.text == "dict") return {dict_of(any_type(), any_type())};
  if (e.is(A::kName) && e.text == "tuple") return {tuple_of({})};
  if (e.is(A::kCall)) return {none_type()};  // type(None)
  if (e.is(A::kAttr) && e.text == "__class__") return {expr(e[0])->type};
  return {annotation(e)};
}
Val* Emitter::isinstance_call(const Ast& e) {
  if (e.kids.size() != 3) fail(e, "isinstance expected 2 arguments");
  return condition_value(isinstance_test(e, types_of_argument(e[2]), e[1]), e);
}

Sugar Emitter::fork_call(const Ast& e) {
  const Sugar callee = sugar(e[1]);
  Val* v;
  if (callee.closure) {
    const std::vector<const Ast*>& body = (*callee.closure)[2].kids;
    if (body.empty() || !body.back()->is(A::kReturn)) fail(e, "a forked function ends in a return statement");
    statements({body.begin(), body.end() - 1}, 0);
    v = expr((*body.back())[0]);
  } else {
    std::vector<Argument> args = arguments(e, 2);
    v = value_of(call_with(callee, std::move(args), e), e);
  }
  // the call becomes the task: the node that was just made
  if (v->node && (v->node->kind == N::kCallFunction || v->node->kind == N::kCallMethod) && v->node->function) {
    Node* n = v->node;
    Node* f = node(N::kFork, n->in, e);
    f->function = n->function;
    std::erase(block_->nodes, n);
    return graph_.add_out(f, make_type(K::kFuture, {v->type}));
  }
  Node* f = node(N::kFork, {v}, e);
  return graph_.add_out(f, make_type(K::kFuture, {v->type}));
}

namespace {
struct Alias {
  const char *name, *op;
};
// Builtins that are one operator.
constexpr Alias kAliases[] = {{"abs", "prim::abs"},      {"round", "aten::round"}, {"divmod", "aten::divmod"},
                              {"ord", "aten::ord"},      {"chr", "aten::chr"},     {"hex", "aten::hex"},
                              {"oct", "aten::oct"},      {"bin", "aten::bin"},     {"hash", "aten::hash"},
                              {"any", "aten::any"},      {"all", "aten::all"},     {"pow", "aten::pow"},
                              {"device", "aten::device"}};
}  // namespace

namespace {
constexpr const char* kSlice = "Python slice value";
bool is_named(const Ast& e, std::string_view name) { return e.is(A::kName) && e.text == name; }
}  // namespace

Sugar Emitter::make_slice(const Ast& call) {
  const size_t n = call.kids.size() - 1;
  if (n < 1 || n > 3) fail(call, str_cat("slice accepts exactly 1, 2 or 3 arguments, got: ", n));
  const auto node = [&](A kind) {
    Ast& a = made_.emplace_back();
    a.kind = kind, a.begin = call.begin, a.end = call.end, a.source = call.source;
    return &a;
  };
  Ast* parts = node(A::kSlice);
  parts->kids.assign(3, node(A::kEmpty));
  for (size_t i = 0; i < n; ++i) {
    if (call[i + 1].is(A::kStarred) || call[i + 1].is(A::kKeyword)) fail(call, "slice takes no keyword arguments");
    Val* bound = expr(call[i + 1]);
    if (const Value* k = known(bound); k && k->is_none()) continue;
    Ast* name = node(A::kName);
    name->text = str_cat("$slice", made_.size());
    frame_->variables[name->text] = Sugar(bound);
    parts->kids[n == 1 ? 1 : i] = name;
  }
  Sugar s(Sugar::kSpecial, kSlice);
  s.closure = parts;
  return s;
}
const Ast* Emitter::slice_of(const Ast& e) {
  Sugar s;
  if (const Sugar* known = e.is(A::kName) ? find(e.text) : nullptr)
    s = *known;
  else if (e.is(A::kCall) && is_named(e[0], "slice"))
    if (const Sugar callee = sugar(e[0]); callee.kind == Sugar::kSpecial && callee.text == "slice") s = make_slice(e);
  if (s.kind != Sugar::kSpecial || s.text != kSlice) return nullptr;
  for (const Ast* bound : s.closure->kids)  // of one branch alone
    if (bound->is(A::kName) && !find(bound->text)) fail(e, str_cat("undefined value ", e.text));
  return s.closure;
}
const Ast& Emitter::with_slices(const Ast& subscript) {
  Ast* changed = nullptr;
  for (size_t i = 1; i < subscript.kids.size(); ++i)
    if (const Ast* slice = slice_of(subscript[i])) {
      if (!changed) changed = &made_.emplace_back(subscript);
      changed->kids[i] = slice;
    }
  return changed ? *changed : subscript;
}

std::optional<Sugar> Emitter::special(const std::string& id, const Ast& e, TypePtr hint) {
  const Range where(e);
  const size_t n = e.kids.size() - 1;
  const auto need = [&](size_t least, size_t most) {
    if (n < least || n > most)
      fail(e, str_cat(id, " expected ", least == most ? "" : "at least ", least, " arguments, got ", n));
  };
  for (const Alias& a : kAliases)
    if (id == a.name) {
      std::vector<Argument> args = arguments(e);
      if (!args.empty() && args[0].value->type->is(K::kClass))
        return call_method(args[0].value, "__" + id + "__", {args.begin() + 1, args.end()}, where);
      return op(a.op, std::move(args), where);
    }
  if (id == "print") {
    std::vector<Val*> in;
    for (const Argument& a : arguments(e)) in.push_back(a.value);
    node(N::kPrint, std::move(in), where);
    return none(where);
  }
  if (id == "len") {
    need(1, 1);
    const Sugar s = sugar(e[1]);
    if (s.kind == Sugar::kItems) return integer(static_cast<int64_t>(s.items.size()), where);
    Val* v = value_of(s, e[1]);
    if (v->type->is(K::kTuple)) return integer(static_cast<int64_t>(v->type->elems.size()), where);
    if (v->type->is_module()) {
      if (v->type->def->module_kind != ModuleKind::kPlain && !has_own(v, "__len__", where))
        return integer(static_cast<int64_t>(iterate(s, e).unrolled.size()), where);
      return call_method(v, "__len__", {}, where);
    }
    if (v->type->is(K::kClass)) return call_method(v, "__len__", {}, where);
    return op("aten::len", {v}, where);
  }
  if (id == "range" || id == "enumerate" || id == "zip" || id == "reversed") {
    Sugar s(Sugar::kIterable, id);
    for (size_t i = 1; i <= n; ++i) s.items.push_back(sugar(e[i].is(A::kKeyword) ? e[i][0] : e[i]));
    return s;
  }
  if (id == "slice") return make_slice(e);
  if (id == "min" || id == "max") {
    need(1, 64);
    std::vector<Argument> args = arguments(e);
    if (args.size() == 1) return op("prim::" + id, std::move(args), where);
    Val* v = args[0].value;
    for (size_t i = 1; i < args.size(); ++i) v = op("prim::" + id, {v, args[i].value}, where);
    return v;
  }
  if (id == "sum") {
    std::vector<Argument> args = arguments(e);
    return op("aten::sum", std::move(args), where);
  }
  if (id == "sorted") {
    std::vector<Argument> args = arguments(e);
    if (!args.empty() && args[0].value->type->is(K::kDict)) args[0].value = op("aten::keys", {args[0].value}, where);
    return op("aten::sorted", std::move(args), where);
  }
  if (id == "list" || id == "tuple") {
    if (n == 0) {
      if (id == "tuple") return tuple({}, where);
      TypePtr t = hint && hint->is(K::kList) ? hint : list_of(tensor_type());
      return node_value(N::kList, {}, t, where);
    }
    need(1, 1);
    Sugar s = sugar(e[1]);
    if (s.kind == Sugar::kValue && id == "list" && (s.value->type->is(K::kList) || s.value->type->is(K::kStr)))
      return op("aten::list", {s.value}, where);
    if (s.kind == Sugar::kValue && s.value->type->is(K::kTuple)) {
      std::vector<Val*> items = unpacked(s.value, 0, where);
      if (id == "tuple") return tuple(items, where);
      TypePtr t = items.empty() ? tensor_type() : items[0]->type;
      for (Val* v : items) {
        t = unify(t, v->type);
        if (!t) fail(e, "list() of a tuple needs elements of one type");
      }
      return node_value(N::kList, std::move(items), list_of(t), where);
    }
    const Iteration it = iterate(s, e[1]);
    if (it.is_unrolled) {
      std::vector<Val*> items;
      for (const Sugar& x : it.unrolled) items.push_back(value_of(x, e));
      if (id == "tuple") return tuple(items, where);
      return node_value(N::kList, items, list_of(items.empty() ? tensor_type() : items[0]->type), where);
    }
    if (id == "tuple") fail(e, "tuple() of something without a known length isn't supported");
    Node* make = node(N::kList, {}, where);
    Val* result = graph_.add_out(make, nullptr);
    Node* l = node(N::kLoop, {it.trips, truth(true, where)}, where);
    Block* inner = graph_.new_block(l);
    l->blocks = {inner};
    Val* index = graph_.add_param(inner, int_type());
    Block* const block = block_;
    block_ = inner;
    Val* v = value_of(element(it, index, where), where);
    result->type = list_of(v->type);
    op("aten::append", {result, v}, where);
    inner->returns = {truth(true, where)};
    block_ = block;
    return result;
  }
  if (id == "dict" || id == "OrderedDict") {
    if (n == 0) {
      TypePtr t = hint && hint->is(K::kDict) ? hint : dict_of(str_type(), tensor_type());
      return node_value(N::kDict, {}, t, where);
    }
    if (e[1].is(A::kKeyword)) {
      std::vector<Val*> items;
      TypePtr t = nullptr;
      for (const Argument& a : arguments(e)) {
        items.push_back(text(a.name, where));
        items.push_back(a.value);
        t = t ? unify(t, a.value->type) : a.value->type;
        if (!t) fail(e, "dict() needs values of one type");
      }
      return node_value(N::kDict, std::move(items), dict_of(str_type(), t), where);
    }
    if (n > 1 &&
        std::ranges::all_of(e.kids.begin() + 2, e.kids.end(), [](const Ast* k) { return k->is(A::kKeyword); })) {
      Ast first = e;  // dict(x), and then its items by name
      first.kids.resize(2);
      Val* made = value_of(*special(id, first, hint), where);
      for (const Argument& a : arguments(e, 2)) op("aten::_set_item", {made, text(a.name, where), a.value}, where);
      return made;
    }
    need(1, 1);
    if (e[1].is(A::kList) || e[1].is(A::kTuple)) {
      std::vector<Val*> items;
      TypePtr t[2] = {nullptr, nullptr};
      for (const Ast* pair : e[1].kids) {
        Val* p = expr(*pair);
        const std::vector<Val*> kv = unpacked(p, 2, where);
        if (kv.size() != 2) fail(*pair, "dict() needs pairs");
        for (size_t i = 0; i < 2; ++i) {
          items.push_back(kv[i]);
          t[i] = t[i] ? unify(t[i], kv[i]->type) : kv[i]->type;
          if (!t[i]) fail(*pair, "dict() needs keys and values of one type each");
        }
      }
      return node_value(N::kDict, std::move(items), t[0] ? dict_of(t[0], t[1]) : dict_of(str_type(), tensor_type()),
                        where);
    }
    Sugar s = sugar(e[1]);
    if (s.kind == Sugar::kValue && s.value->type->is(K::kDict)) return op("aten::dict", {s.value}, where);
    const Iteration it = iterate(s, e[1]);
    if (it.is_unrolled) fail(e, "dict() of this isn't supported");
    Node* make = node(N::kDict, {}, where);
    Val* result = graph_.add_out(make, nullptr);
    Node* l = node(N::kLoop, {it.trips, truth(true, where)}, where);
    Block* inner = graph_.new_block(l);
    l->blocks = {inner};
    Val* index = graph_.add_param(inner, int_type());
    Block* const block = block_;
    block_ = inner;
    const std::vector<Val*> kv = unpacked(value_of(element(it, index, where), where), 2, where);
    result->type = dict_of(kv[0]->type, kv[1]->type);
    op("aten::_set_item", {result, kv[0], kv[1]}, where);
    inner->returns = {truth(true, where)};
    block_ = block;
    return result;
  }
  if (id == "isinstance") return isinstance_call(e);
  if (id == "hasattr" || id == "getattr") {
    need(2, 3);
    const Sugar s = sugar(e[1]);
    if (!e[2].is(A::kString)) fail(e, str_cat(id, "'s second argument must be a string literal"));
    if (id == "hasattr") {
      if (s.kind == Sugar::kValue && s.value->type->is(K::kOptional))
        fail(e, "hasattr's first argument must not be an Optional");
      const size_t mark = block_->nodes.size();
      bool there = true;
      try {
        attribute(s, e[2].text, where);
      } catch (const CompileError&) { there = false; }
      block_->nodes.resize(mark);
      return truth(there, where);
    }
    if (n == 3) {
      const size_t mark = block_->nodes.size();
      try {
        return attribute(s, e[2].text, where);
      } catch (const CompileError&) {
        block_->nodes.resize(mark);
        return sugar(e[3]);
      }
    }
    return attribute(s, e[2].text, where);
  }
  if (id == "annotate" || id == "cast" || id == "unchecked_cast" || id == "Attribute") {
    need(2, 2);
    const bool swapped = id == "Attribute";
    TypePtr t = annotation(e[swapped ? 2 : 1]);
    Val* v = expr(e[swapped ? 1 : 2], t);
    if (id == "unchecked_cast" || id == "cast") return same(v->type, t) ? v : cast(v, t, where);
    if (v->node && v->node->kind == N::kConstant && v->node->constant.is_none() && accepts_none(t)) {
      v = node_value(N::kConstant, {}, t, where);
      return v;
    }
    v = cast_to(v, t, where, "annotate", -1, true);
    return same(v->type, t) ? v : cast(v, t, where);
  }
  if (id == "uninitialized") return uninitialized(annotation(e[1]), where);
  if (id == "_unwrap_optional") {
    need(1, 1);
    Val* v = expr(e[1]);
    if (!v->type->is(K::kOptional)) return v;
    return op("aten::_unwrap_optional", {v}, where);
  }
  if (id == "fork") return fork_call(e);
  if (id == "wait") {
    need(1, 1);
    Val* v = expr(e[1]);
    if (!v->type->is(K::kFuture)) fail(e, str_cat("wait() expects a Future, got ", v->type->described()));
    return node_value(N::kWait, {v}, v->type->elem(), where);
  }
  if (id == "is_scripting") return truth(true, where);
  if (id == "is_tracing") return truth(false, where);
  if (id == "has_torch_function") return truth(false, where);
  if (id == "_assert") {
    need(1, 2);
    Node* nn = node(N::kIf, {to_bool(expr(e[1]), where)}, where);
    nn->blocks = {graph_.new_block(nn), graph_.new_block(nn)};
    Block* const block = block_;
    block_ = nn->blocks[1];
    Val* message = n == 2 ? expr(e[2]) : text("", where);
    emit_raise(where, op("aten::format", {text("AssertionError: {}", where), message}, where), "");
    block_ = block;
    return none(where);
  }
  if (id == "warn") {
    std::vector<Argument> args = arguments(e);
    if (args.empty()) fail(e, "warn() needs a message");
    Val* m = args[0].value;
    if (!m->type->is(K::kStr)) m = op("aten::str", {m}, where);
    op("aten::warn", {m}, where);
    return none(where);
  }
  if (id == "no_grad" || id == "enable_grad" || id == "inference_mode" || id == "record_function")
    fail(e, str_cat(id, "() can only be used in a with statement"));
  if (id == "type") {  // messages show it: of a program all types are known
    need(1, 1);
    std::string shown = expr(e[1])->type->annotation();
    shown.resize(std::min(shown.find('['), shown.size()));
    if (shown == "Tensor")
      shown = "torch.Tensor";
    else if (shown == "List" || shown == "Dict" || shown == "Tuple")
      shown[0] = static_cast<char>(shown[0] - 'A' + 'a');
    return text(str_cat("<class '", shown, "'>"), where);
  }
  if (id == "RaiseException") {
    const std::vector<Argument> args = arguments(e);
    if (args.empty() || args.size() > 2) fail(e, "RaiseException takes a message and the name of a class");
    node(N::kRaise, {args[0].value, args.size() > 1 ? args[1].value : none(where)}, where);
    return none(where);
  }
  if (id == "super") return Sugar(Sugar::kSpecial, "super");
  return std::nullopt;
}

}  // namespace tessera::jit
