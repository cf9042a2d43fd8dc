#include "jit/function.h"

#include <mutex>

#include "jit/classes/custom_class.h"
#include "jit/source/emitter.h"
#include "jit/interpreter.h"
#include "jit/passes.h"

namespace tessera::jit {
namespace {

// Compilation is one at a time; running is not.
std::recursive_mutex& compiler() { return compile_lock(); }

struct NamedType {
  const char* name;
  K kind;
};
constexpr NamedType kTypeNames[] = {{"Tensor", K::kTensor},   {"int", K::kInt},
                                    {"float", K::kFloat},     {"bool", K::kBool},
                                    {"complex", K::kComplex}, {"str", K::kStr},
                                    {"None", K::kNone},       {"NoneType", K::kNone},
                                    {"Device", K::kDevice},   {"device", K::kDevice},
                                    {"Any", K::kAny},         {"number", K::kNumber},
                                    {"Scalar", K::kNumber},   {"Generator", K::kGenerator},
                                    {"Storage", K::kStorage}, {"Stream", K::kStream},
                                    {"Layout", K::kInt},      {"dtype", K::kInt},
                                    {"layout", K::kInt},      {"memory_format", K::kInt},
                                    {"PyObject", K::kPython}, {"AnyEnumType", K::kAny},
                                    {"AnyClassType", K::kAny}};
constexpr NamedType kGenericNames[] = {{"List", K::kList},         {"list", K::kList},       {"Dict", K::kDict},
                                       {"dict", K::kDict},         {"Tuple", K::kTuple},     {"tuple", K::kTuple},
                                       {"Optional", K::kOptional}, {"Union", K::kUnion},     {"Future", K::kFuture},
                                       {"RRef", K::kRRef},         {"Await", K::kAwait},     {"Final", K::kAny},
                                       {"Sequence", K::kList},     {"OrderedDict", K::kDict}};
template <size_t N>
const NamedType* named(const NamedType (&table)[N], std::string_view name) {
  for (const NamedType& t : table)
    if (name == t.name) return &t;
  return nullptr;
}
// "typing.List" and "torch.Tensor" are List and Tensor.
std::string last_part(const Ast& a) { return a.is(A::kName) || a.is(A::kAttr) ? a.text : std::string(); }

}  // namespace

std::recursive_mutex& compile_lock() {
  static auto* m = new std::recursive_mutex;
  return *m;
}

bool builtin_name(const std::string& name, Sugar* out) {
  constexpr const char* specials[] = {
      "print", "len", "range",  "enumerate", "zip",  "reversed",   "sorted",  "min",     "max",  "sum", "abs",
      "round", "pow", "divmod", "any",       "all",  "isinstance", "hasattr", "getattr", "ord",  "chr", "hex",
      "oct",   "bin", "hash",   "list",      "dict", "tuple",      "super",   "type",    "slice"};
  for (const char* s : specials)
    if (name == s) {
      *out = Sugar(Sugar::kSpecial, name);
      return true;
    }
  for (std::string_view t : {"int", "float", "bool", "str", "complex"})
    if (name == t) {
      *out = Sugar::of_type(simple_type(named(kTypeNames, name)->kind));
      return true;
    }
  for (std::string_view e :
       {"Exception", "RuntimeError", "ValueError", "TypeError", "IndexError", "KeyError", "AssertionError",
        "NotImplementedError", "AttributeError", "OverflowError", "ArithmeticError", "StopIteration",
        "ZeroDivisionError", "LookupError", "OSError", "NameError"})
    if (name == e) {
      *out = Sugar(Sugar::kException, "builtins." + name);
      return true;
    }
  return false;
}

TypePtr type_of_annotation(const Ast& a, Resolver* resolver, Unit& unit) {
  const auto inner = [&](const Ast& x) { return type_of_annotation(x, resolver, unit); };
  switch (a.kind) {
    case A::kNone:
      return none_type();
    case A::kString: {
      Source& s = const_cast<Source*>(a.source)->inner(a.text, a.begin);
      return inner(*parse_expression(s));
    }
    case A::kBinary:
      if (a.text == "|") return union_of({inner(a[0]), inner(a[1])});
      break;
    case A::kTuple: {
      std::vector<TypePtr> all;
      for (const Ast* k : a.kids) all.push_back(inner(*k));
      return tuple_of(std::move(all));
    }
    case A::kName:
    case A::kAttr: {
      Sugar s;
      bool found = false;
      if (resolver) {
        if (a.is(A::kName)) {
          found = resolver->resolve(a.text, a, &s);
        } else {
          std::string path = a.text;
          const Ast* at = &a[0];
          for (; at->is(A::kAttr); at = &(*at)[0]) path = at->text + "." + path;
          if (at->is(A::kName)) found = resolver->resolve(at->text + "." + path, a, &s);
          if (!found && at->is(A::kName)) {  // attribute by attribute
            Sugar base;
            found = resolver->resolve(at->text, a, &base);
            size_t from = 0;
            while (found && base.kind == Sugar::kHost) {
              const size_t dot = path.find('.', from);
              Sugar next;
              found = base.host->attribute(path.substr(from, dot == std::string::npos ? dot : dot - from), a, &next);
              if (!found) break;
              if (dot == std::string::npos) {
                s = next;
                break;
              }
              base = next, from = dot + 1;
            }
          }
        }
      }
      if (found && s.kind == Sugar::kType) return s.type;
      if (found && s.kind == Sugar::kConstant && s.constant.is_none()) return none_type();
      const std::string name = last_part(a);
      if (!found || s.kind == Sugar::kSpecial || s.kind == Sugar::kHost || s.kind == Sugar::kException) {
        if (const NamedType* t = named(kTypeNames, name)) return simple_type(t->kind);
        if (const NamedType* g = named(kGenericNames, name)) {
          if (g->kind == K::kAny) return nullptr;  // Final alone
          if (name == "list" || name == "dict" || name == "tuple" || g->kind == K::kList || g->kind == K::kDict ||
              g->kind == K::kTuple)
            fail(a, str_cat("Attempted to use ", name, " without a contained type. Please add a contained type, e.g. ",
                            name, "[int]"));
        }
      }
      break;
    }
    case A::kSubscript: {
      const std::string name = last_part(a[0]);
      if (name.starts_with("BroadcastingList") && a.kids.size() == 2) return list_of(inner(a[1]));
      if (name == "Annotated") return inner(a[1]);
      const NamedType* g = named(kGenericNames, name);
      if (Sugar alias; !g && resolver && a[0].is(A::kName) && resolver->resolve(a[0].text, a, &alias) &&
                       alias.kind == Sugar::kSpecial)  // from typing import List as Many
        g = named(kGenericNames, alias.text);
      if (!g) break;
      std::vector<TypePtr> all;
      for (size_t i = 1; i < a.kids.size(); ++i) {
        if (a[i].is(A::kEllipsis)) fail(a, "a tuple of unknown length isn't supported in TorchScript");
        if (a[i].is(A::kTuple) && a.kids.size() == 2) {
          if (a[i].kids.empty()) break;  // Tuple[()]
          for (const Ast* k : a[i].kids) all.push_back(inner(*k));
          break;
        }
        all.push_back(inner(a[i]));
      }
      const auto need = [&](size_t n) {
        if (all.size() != n) fail(a, str_cat(name, " takes ", n, " types, got ", all.size()));
      };
      switch (g->kind) {
        case K::kTuple:
          return tuple_of(std::move(all));
        case K::kUnion:
          return union_of(std::move(all));
        case K::kOptional:
          need(1);
          return optional_of(all[0]);
        case K::kAny:
          need(1);
          return all[0];
        case K::kDict:
          need(2);
          return make_type(K::kDict, std::move(all));
        default:
          need(1);
          return make_type(g->kind, std::move(all));
      }
    }
    default:
      break;
  }
  const std::string text = a.source->text().substr(a.begin, a.end - a.begin);
  if (const ClassDef* registered = custom::find(text)) return registered->type;
  fail(a, str_cat("Unknown type name '", text, "'"));
}

void Function::read_signature() {
  if (signature_read_ || !source) return;
  signature_read_ = true;
  const Ast& def = *source;
  const Ast& params = def[0];
  for (size_t i = 0; i < params.kids.size(); ++i) {
    const Ast& p = params[i];
    Param x;
    x.name = p.text;
    x.keyword_only = p.number != 0;
    if (i == 0 && owner && !is_static)
      x.type = owner->type;
    else if (p[0].is(A::kEmpty))
      x.type = inferred_tensor();
    else
      x.type = type_of_annotation(p[0], resolver.get(), *unit);
    const Ast* note = p.kids[0];  // also inside of Optional[]
    if (note->is(A::kSubscript) && last_part((*note)[0]) == "Optional") note = note->kids[1];
    if (note->is(A::kSubscript) && last_part((*note)[0]).starts_with("BroadcastingList"))
      x.size = last_part((*note)[0]).back() - '0';
    if (!p[1].is(A::kEmpty)) x.default_source = p.kids[1], x.has_default = true;
    args.push_back(std::move(x));
  }
  if (!def[1].is(A::kEmpty)) {
    ret = type_of_annotation(def[1], resolver.get(), *unit);
    ret_annotated = true;
  }
  if (is_init) ret = none_type(), ret_annotated = true;
  for (Param& p : args) {
    if (!p.default_source) continue;
    Graph g;
    Function scratch;
    scratch.unit = unit, scratch.resolver = resolver;
    Emitter(scratch, g, resolver.get()).run_expression(*p.default_source, p.type->inferred ? nullptr : p.type, p.size);
    if (!is_subtype(g.top->returns[0]->type, p.type))
      fail(*p.default_source,
           str_cat("Expected a default value of type ", p.type->described(), " on parameter \"", p.name, "\"."));
    p.default_value = run_graph(g, nullptr, 0);
  }
}

void Function::ensure_schema() {
  const std::lock_guard lock(compiler());
  read_signature();
  if (ret) return;
  if (host || !refused.empty() || is_declaration) {
    ret = is_declaration ? none_type() : tensor_type();
    return;
  }
  if (compiling_)
    fail(*source, str_cat("function '", name, "' is called recursively. Recursive calls are not supported"));
  ensure_graph();
}

Graph& Function::ensure_graph() {
  const std::lock_guard lock(compiler());
  if (graph) return *graph;
  read_signature();
  if (compiling_)
    fail(*source, str_cat("function '", name, "' is called recursively. Recursive calls are not supported"));
  compiling_ = true;
  struct Done {
    bool& flag;
    ~Done() { flag = false; }
  } done{compiling_};
  auto g = std::make_unique<Graph>();
  Emitter(*this, *g, resolver.get()).run(*source);
  remove_dead_code(*g);
  graph = std::move(g);
  return *graph;
}

void Function::set_graph(std::unique_ptr<Graph> g) {
  graph = std::move(g);
  signature_read_ = true;
  args.clear();
  for (const Val* p : graph->top->params) {
    Param x;
    const size_t dot = p->name.rfind('.');
    x.name = p->name.substr(0, dot);
    x.type = p->type->facts ? tensor_type() : p->type;
    args.push_back(std::move(x));
  }
  ret = graph->top->returns[0]->type;
  if (ret->facts) ret = tensor_type();
  ret_annotated = true;
}

std::string Function::schema() const {
  std::string s = name + "(";
  bool only = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (i) s += ", ";
    if (args[i].keyword_only && !only) s += "*, ", only = true;
    s += str_cat(args[i].type->str(), " ", args[i].name);
    if (!args[i].has_default) continue;
    const Value& v = args[i].default_value;
    s += "=" + (v.tag() == Value::Tag::kString ? quote(v.string()) : to_text(v, true));
  }
  // One tuple, not several results.
  return s + ") -> " + (!ret ? "?" : ret->str().starts_with("(") ? str_cat("(", ret->str(), ")") : ret->str());
}

Function* define(Unit& unit, const Ast& def, const std::string& qualified, IntrusivePtr<Resolver> resolver,
                 ClassDef* owner) {
  auto f = std::make_unique<Function>();
  f->name = def.text;
  f->qualified = qualified;
  f->source = &def;
  f->resolver = std::move(resolver);
  f->owner = owner;
  f->is_init = owner && !owner->is_module && def.text == "__init__";
  return unit.add_function(std::move(f));
}

ClassDef* define_class(Unit& unit, const Ast& source, const std::string& qualified, IntrusivePtr<Resolver> resolver) {
  const std::string base = source[1].is(A::kEmpty) ? "" : last_part(source[1]);
  if (base == "NamedTuple") {
    std::vector<std::string> fields;
    std::vector<TypePtr> types;
    for (const Ast* s : source[0].kids)
      if (s->is(A::kAnnAssign)) {
        fields.push_back((*s)[0].text);
        types.push_back(type_of_annotation((*s)[1], resolver.get(), unit));
      }
    named_tuple(unit, qualified, std::move(fields), std::move(types));
    return nullptr;
  }
  ClassDef* def = unit.new_class(base.ends_with("Interface") ? K::kInterface
                                 : base == "Enum"            ? K::kEnum
                                                             : K::kClass,
                                 qualified);
  def->is_module = base == "Module";
  std::vector<std::string> parameters, buffers, hooks, pre_hooks;
  const auto strings = [](const Ast& list) {
    std::vector<std::string> all;
    for (const Ast* k : list.kids)
      if (k->is(A::kString)) all.push_back(k->text);
    return all;
  };
  const auto evaluate = [&](const Ast& e, TypePtr t) {
    Graph g;
    Function scratch;
    scratch.unit = &unit, scratch.resolver = resolver;
    Emitter(scratch, g, resolver.get()).run_expression(e, t);
    return std::pair(run_graph(g, nullptr, 0), g.top->returns[0]->type);
  };
  const auto add_attribute = [&](const std::string& name, const Ast& type) {
    Attribute a;
    a.name = name;
    a.type = type_of_annotation(type, resolver.get(), unit);
    for (const std::string& p : parameters) a.is_parameter = a.is_parameter || p == name;
    for (const std::string& b : buffers) a.is_buffer = a.is_buffer || b == name;
    def->attributes.push_back(std::move(a));
  };
  bool has_init = false;
  for (const Ast* s : source[0].kids) {
    if (s->is(A::kAssign) && (*s)[1].is(A::kName)) {
      const std::string& name = (*s)[1].text;
      if (name == "__parameters__")
        parameters = strings((*s)[0]);
      else if (name == "__buffers__")
        buffers = strings((*s)[0]);
      else if (name == "__forward_hooks__")
        hooks = strings((*s)[0]);
      else if (name == "__forward_pre_hooks__")
        pre_hooks = strings((*s)[0]);
      else if (name == "__constants__" || name == "__annotations__" || name == "__slots__") {
      } else if (def->type->is(K::kEnum)) {
        auto [v, t] = evaluate((*s)[0], nullptr);
        def->items.push_back({name, std::move(v), t});
      } else {
        auto [v, t] = evaluate((*s)[0], nullptr);
        def->constants.push_back({name, std::move(v), t});
      }
    } else if (s->is(A::kAssign) && (*s)[1].is(A::kSubscript) && (*s)[1][0].is(A::kName) &&
               (*s)[1][0].text == "__annotations__" && (*s)[1][1].is(A::kString)) {
      add_attribute((*s)[1][1].text, (*s)[0]);
    } else if (s->is(A::kAnnAssign) && (*s)[0].is(A::kName)) {
      const Ast& type = (*s)[1];
      const std::string& name = (*s)[0].text;
      if (!(*s)[2].is(A::kEmpty)) {
        TypePtr t = type_of_annotation(type, resolver.get(), unit);
        auto [v, own] = evaluate((*s)[2], t);
        if (def->type->is(K::kEnum))
          def->items.push_back({name, std::move(v), own});
        else
          def->constants.push_back({name, std::move(v), t ? t : own});
      } else {
        add_attribute(name, type);
      }
    } else if (s->is(A::kDef)) {
      bool is_static = false, is_property = false, skip = false;
      std::string setter_of;
      for (size_t k = 3; k < s->kids.size(); ++k) {
        const std::string d = last_part((*s)[k]);
        is_static = is_static || d == "staticmethod";
        is_property = is_property || d == "property";
        if (d == "setter") setter_of = s->text;
        skip = skip || d == "unused" || d == "ignore";
      }
      Function* f = define(unit, *s, qualified + "." + s->text, resolver, def);
      f->is_static = is_static;
      f->is_declaration = def->type->is(K::kInterface);
      if (skip) f->refused = "Non-scriptable method " + s->text + " was called";
      if (is_property)
        def->add_property(s->text, f);
      else if (!setter_of.empty())
        def->add_setter(setter_of, f);
      else
        (is_static ? def->statics : def->methods).push_back(f);
      has_init = has_init || f->is_init;
    }
  }
  for (const std::string& h : hooks)
    if (Function* f = def->method(h)) def->hooks.push_back(f);
  for (const std::string& h : pre_hooks)
    if (Function* f = def->method(h)) def->pre_hooks.push_back(f);
  if (has_init && !def->is_module) def->building = def->attributes.empty();
  return def;
}

std::string called_method(ClassDef& def) {
  constexpr char kName[] = "__hooked__";
  if (def.hooks.empty() && def.pre_hooks.empty()) return "forward";
  Function* forward = def.method("forward");
  if (!forward || !forward->source) return "forward";
  if (!def.method(kName)) {
    const Ast& params = (*forward->source)[0];
    std::string text(params.source->text().substr(params.begin, params.end - params.begin)), given;
    for (size_t i = 1; i < params.kids.size(); ++i)
      given += str_cat(i > 1 ? ", " : "", params[i].number ? params[i].text + "=" : "", params[i].text);
    text = str_cat("def ", kName, text, ":\n  return ", params[0].text, "(", given, ")\n");
    const Ast& made = *parse_source(forward->unit->add_source(std::move(text), "<hooks>", 1));
    def.methods.push_back(define(*forward->unit, made[0], str_cat(def.name, ".", kName), forward->resolver, &def));
  }
  return kName;
}

}  // namespace tessera::jit
