#include <algorithm>

#include "jit/source/emitter.h"

namespace tessera::jit {
namespace {

bool is_flag(const std::string& name) { return name[0] == '$' && name != "$value"; }

// The names that a statement may give a value to, and how it may leave a loop.
struct Scan {
  std::set<std::string> names;
  bool breaks = false, returns = false;
  void target(const Ast& t) {
    if (t.is(A::kName)) names.insert(t.text);
    if (t.is(A::kTuple) || t.is(A::kList) || t.is(A::kStarred))
      for (const Ast* k : t.kids) target(*k);
  }
  void walk(const Ast& s, bool in_loop = true) {
    switch (s.kind) {
      case A::kAssign:
        for (size_t i = 1; i < s.kids.size(); ++i) target(s[i]);
        return;
      case A::kAnnAssign:
      case A::kAugAssign:
        return target(s[0]);
      case A::kFor:
        target(s[0]);
        return walk(s[2], false);
      case A::kWhile:
        return walk(s[1], false);
      case A::kBreak:
        breaks = breaks || in_loop;
        return;
      case A::kReturn:
        returns = true;
        return;
      case A::kWith:
        for (size_t i = 1; i + 1 < s.kids.size(); i += 2) target(s[i]);
        return walk(*s.kids.back(), in_loop);
      case A::kIf:
      case A::kBlock:
        for (const Ast* k : s.kids) walk(*k, in_loop);
        return;
      default:
        return;
    }
  }
};

std::string error_name(const std::string& name) { return name[0] == '$' ? "the result" : name; }

}  // namespace

Emitter::Emitter(Function& function, Graph& graph, Resolver* resolver)
    : function_(function), graph_(graph), resolver_(resolver), block_(graph.top) {}

// --- variables ---

const Sugar* Emitter::find(const std::string& name, const Frame** where) const {
  for (const Frame* f = frame_; f; f = f->outer)
    if (const auto it = f->variables.find(name); it != f->variables.end()) {
      if (where) *where = f;
      return &it->second;
    }
  return nullptr;
}
Sugar Emitter::lookup(const std::string& name, const Range& where) {
  if (const Sugar* s = find(name)) {
    if (s->kind == Sugar::kError) throw CompileError(str_cat("\n\n", s->text, "and was used here:\n", where.excerpt()));
    return *s;
  }
  Sugar s;
  if (resolver_ && resolver_->resolve(name, where, &s)) return s;
  if (builtin_name(name, &s)) return s;
  fail(where, str_cat("undefined value ", name));
}
TypePtr Emitter::declared_type(const std::string& name) const {
  for (const Frame* f = frame_; f; f = f->outer)
    if (const auto it = f->declared.find(name); it != f->declared.end()) return it->second;
  return nullptr;
}
// The type of what was assigned, not of what a test found it to be.
TypePtr Emitter::settled_type(const std::string& name) const {
  if (TypePtr t = declared_type(name)) return t;
  for (const Frame* f = frame_; f; f = f->outer)
    if (f->assigned.contains(name)) {
      const auto it = f->variables.find(name);
      return it != f->variables.end() && it->second.kind == Sugar::kValue ? it->second.value->type : nullptr;
    }
  return nullptr;
}
void Emitter::set(const std::string& name, Sugar s, const Range& where, bool refined) {
  if (s.kind == Sugar::kValue && !refined && name[0] != '$') {
    TypePtr before = nullptr;
    const Frame* own = frame_;
    while (own->rest && own->outer && !own->assigned.contains(name)) own = own->outer;
    if (!own->assigned.contains(name) || declared_type(name)) before = settled_type(name);
    if (before && s.value->type->is(K::kTuple))  // (1, 2) where a list was
      if (Val* list = convert(s.value, Formal{nullptr, before, false, false, nullptr, -1, true}, before, false, where))
        s.value = list;
    if (before && !is_subtype(s.value->type, before)) {
      std::string hint;
      if (before->inferred && !s.value->type->is(K::kTensor)) hint = "\n";
      fail(where, str_cat("Variable '", name, "' previously had type ", before->described(),
                          " but is now being assigned to a value of type ", s.value->type->described(), "\n"));
    }
    if (s.value->name.empty()) graph_.set_name(s.value, name);
  }
  if (!refined) frame_->assigned.insert(name);
  frame_->variables[name] = std::move(s);
}
void Emitter::refine(const std::vector<Refinement>& all, const Range& where) {
  for (const Refinement& r : all) {
    const Sugar* s = find(r.name);
    if (!s || s->kind != Sugar::kValue) continue;
    TypePtr t = narrowed(s->value->type, r.types, r.is_one);
    if (!t || same(t, s->value->type)) continue;
    Val* v = cast(s->value, t, where);
    graph_.set_name(v, r.name);
    set(r.name, v, where, true);
  }
}

Val* Emitter::branch_value(const std::string& name, const Frame& f, bool unneeded) {
  if (unneeded && !is_flag(name) && name != "$value") return nullptr;
  for (const Frame* at = &f; at; at = at->outer)
    if (const auto it = at->variables.find(name); it != at->variables.end())
      return it->second.kind == Sugar::kValue ? it->second.value : nullptr;
  return nullptr;
}

// Both branches' values become outputs of the condition. The frame is the outer one again.
Emitter::Exit Emitter::merge(Node* n, Frame& a, Frame& b, Exit ea, Exit eb, const Range& where) {
  Frame* const frames[2] = {&a, &b};
  const Exit exits[2] = {ea, eb};
  Exit both;
  const bool always[2] = {ea.ends == Ends::kAlways, eb.ends == Ends::kAlways};
  both.raises = (ea.ends != Ends::kNever || eb.ends != Ends::kNever) && (ea.raises || ea.ends == Ends::kNever) &&
                (eb.raises || eb.ends == Ends::kNever);
  both.dead = (ea.dead || ea.ends == Ends::kNever) && (eb.dead || eb.ends == Ends::kNever);
  if (always[0] && always[1]) {
    both.ends = Ends::kAlways;
  } else if ((ea.ends == Ends::kNever || (always[0] && ea.raises)) &&
             (eb.ends == Ends::kNever || (always[1] && eb.raises))) {
    both.ends = Ends::kNever;
    both.raises = both.dead = false;
  } else {
    both.ends = Ends::kSometimes;
  }

  std::set<std::string> names;
  for (Frame* f : frames) names.insert(f->assigned.begin(), f->assigned.end());
  const auto add = [&](const std::string& name, Val* x, Val* y, TypePtr type) {
    Val* v = graph_.add_out(n, type);
    n->blocks[0]->returns.push_back(x);
    n->blocks[1]->returns.push_back(y);
    if (name[0] != '$') graph_.set_name(v, name);
    return v;
  };
  Block* const outer = block_;
  const auto in_branch = [&](int i, auto make) {
    block_ = n->blocks[static_cast<size_t>(i)];
    Val* v = make();
    block_ = outer;
    return v;
  };
  for (const std::string& name : names) {
    if (both.ends == Ends::kAlways && both.dead && name[0] != '$') continue;  // nothing comes behind
    Val* v[2];
    bool unneeded[2];
    for (int i = 0; i < 2; ++i) {
      unneeded[i] = always[i] && exits[i].dead && (name[0] != '$' || exits[i].raises);
      v[i] = branch_value(name, *frames[i], unneeded[i]);
    }
    const Sugar* sugar[2];
    for (int i = 0; i < 2; ++i) {
      const auto it = frames[i]->variables.find(name);
      sugar[i] = it == frames[i]->variables.end() ? find(name) : &it->second;
    }
    if (!v[0] && !v[1]) {  // something that is no value: it has to be the same
      const int i = unneeded[0] ? 1 : 0;
      if (sugar[i] && (unneeded[0] || unneeded[1]))
        frame_->variables[name] = *sugar[i];
      else if (sugar[0])
        frame_->variables[name] = *sugar[0];
      continue;
    }
    for (int i = 0; i < 2; ++i) {
      if (v[i]) continue;
      if (is_flag(name))
        v[i] = in_branch(i, [&] { return truth(false, where); });
      else if (name == "$value" || unneeded[i] || always[i])
        v[i] = in_branch(i, [&] { return uninitialized(v[1 - i]->type, where); });
    }
    if (!v[0] || !v[1]) {
      const int missing = v[0] ? 1 : 0;
      std::string reason;
      if (sugar[missing] && sugar[missing]->kind == Sugar::kError)
        reason = sugar[missing]->text;
      else
        reason = str_cat(error_name(name), " is not defined in the ", missing ? "false" : "true", " branch:\n",
                         where.excerpt());
      frame_->variables[name] = Sugar(Sugar::kError, reason);
      frame_->assigned.insert(name);
      continue;
    }
    if (v[0] == v[1]) {
      frame_->variables[name] = v[0];
      frame_->assigned.insert(name);
      continue;
    }
    TypePtr t = unneeded[0] ? v[1]->type : unneeded[1] ? v[0]->type : unify(v[0]->type, v[1]->type);
    if (name == "$value" && !function_.ret_annotated)  // a branch without a return only has what a loop began with
      for (size_t i = 0; i < 2; ++i)
        if (!frames[i]->assigned.contains(name) && v[i]->type->is(K::kNone)) t = v[1 - i]->type;
    TypePtr declared = declared_type(name);
    for (Frame* f : frames)
      if (const auto it = f->declared.find(name); it != f->declared.end()) declared = it->second;
    if (name == "$value" && function_.ret_annotated) declared = function_.ret;
    if (declared) {  // of an Optional or a Union what both branches leave of it
      const bool is_wide = name != "$value" && (declared->is(K::kOptional) || declared->is(K::kUnion));
      TypePtr left = is_wide && !t ? unify(v[0]->type, v[1]->type, true) : t;
      t = is_wide && left && is_subtype(left, declared) ? left : declared;
    }
    if (!t) {
      if (name == "$value")
        fail(where, str_cat("Previous return statement returned a value of type ", v[0]->type->described(),
                            " but this return statement returns a value of type ", v[1]->type->described()));
      frame_->variables[name] =
          Sugar(Sugar::kError, str_cat("Type mismatch: ", name, " is set to type ", v[0]->type->described(),
                                       " in the true branch and type ", v[1]->type->described(),
                                       " in the false branch:\n", where.excerpt()));
      frame_->assigned.insert(name);
      continue;
    }
    frame_->variables[name] = add(name, v[0], v[1], t);
    frame_->assigned.insert(name);
  }
  if (both.ends == Ends::kSometimes) {
    Val* f[2];
    for (int i = 0; i < 2; ++i)
      f[i] = exits[i].ends == Ends::kSometimes ? exits[i].flag : in_branch(i, [&] { return truth(always[i], where); });
    both.flag = add("$flag", f[0], f[1], bool_type());
  }
  return both;
}

// --- statements ---

Emitter::Exit Emitter::statements(const std::vector<const Ast*>& list, size_t from) {
  for (size_t i = from; i < list.size(); ++i) {
    Exit e = statement(*list[i], list, i);
    if (e.consumed || e.ends == Ends::kAlways) {
      e.consumed = false;
      return e;
    }
    if (e.ends == Ends::kSometimes) return rest_of(e, list, i + 1, *list[i]);
  }
  return {};
}
// What follows a statement that may have ended the list.
Emitter::Exit Emitter::rest_of(Exit e, const std::vector<const Ast*>& list, size_t from, const Range& where) {
  if (e.ends == Ends::kAlways || from >= list.size()) return e;
  if (e.ends == Ends::kNever) return statements(list, from);
  Node* n = node(N::kIf, {e.flag}, where);
  Frame a, b;
  a.outer = b.outer = frame_;
  b.rest = true;
  Frame* const outer = frame_;
  Block* const block = block_;
  n->blocks = {graph_.new_block(n), graph_.new_block(n)};
  frame_ = &b, block_ = n->blocks[1];
  const Exit rest = statements(list, from);
  frame_ = outer, block_ = block;
  Exit left = e;
  left.ends = Ends::kAlways, left.flag = nullptr;
  return merge(n, a, b, left, rest, where);
}

Emitter::Exit Emitter::statement(const Ast& s, const std::vector<const Ast*>& list, size_t at) {
  switch (s.kind) {
    case A::kExpr:
      if (s[0].is(A::kString)) return {};
      if (s[0].is(A::kEllipsis)) return {};
      sugar(s[0]);
      return {};
    case A::kAssign: {
      const Range where(s);
      TypePtr hint = s[1].is(A::kName) ? declared_type(s[1].text) : nullptr;
      Sugar v = sugar(s[0], hint);
      if (v.kind == Sugar::kConstant) v = value_of(v, s[0]);
      if (v.kind == Sugar::kValue && v.value->type->is(K::kNone) && v.value->node &&
          v.value->node->kind == N::kConstant)
        v = none(s[0]);
      for (size_t i = 1; i < s.kids.size(); ++i) assign(s[i], v, s[i]);
      return {};
    }
    case A::kAnnAssign:
      annotated(s);
      return {};
    case A::kAugAssign:
      augmented(s);
      return {};
    case A::kIf:
      return if_statement(s, list, at);
    case A::kWhile:
      return loop(s, s[1], nullptr, &s[0], [](Val*) {});
    case A::kFor:
      return for_loop(s);
    case A::kReturn:
      return return_statement(s);
    case A::kRaise:
      raise_statement(s);
      return {Ends::kAlways, true, true, false, nullptr};
    case A::kAssert:
      return assertion(s);
    case A::kBreak:
    case A::kContinue:
      if (stop_.empty())
        fail(s, s.is(A::kBreak) ? "Syntax error: 'break' outside loop" : "Syntax error: 'continue' outside loop");
      if (s.is(A::kBreak)) set(stop_, truth(true, s), s);
      return {Ends::kAlways, false, false, false, nullptr};
    case A::kDelete:
      delete_statement(s);
      return {};
    case A::kWith:
      return with_statement(s, list, at);
    case A::kPass:
      return {};
    case A::kDef:
      if (s.text.starts_with("__forked_function") && s[0].kids.empty()) {  // of archives
        Sugar closure(Sugar::kSpecial, "$closure");
        closure.closure = &s;
        frame_->variables[s.text] = std::move(closure);
        frame_->assigned.insert(s.text);
        return {};
      }
      throw UnsupportedError("function definitions aren't supported", s);
    case A::kClass:
      throw UnsupportedError("class definitions aren't supported", s);
    default:
      fail(s, "this statement isn't supported");
  }
}

Emitter::Exit Emitter::if_statement(const Ast& s, const std::vector<const Ast*>& list, size_t at) {
  const Condition c = condition(s[0]);
  if (c.known) {
    refine(*c.known ? c.if_true : c.if_false, s[0]);
    return statements(s[*c.known ? 1 : 2].kids, 0);
  }
  Node* n = node(N::kIf, {c.value}, s);
  n->blocks = {graph_.new_block(n), graph_.new_block(n)};
  Frame frames[2];
  Exit exits[2];
  Frame* const outer = frame_;
  Block* const block = block_;
  for (size_t i = 0; i < 2; ++i) {
    frames[i].outer = outer;
    frame_ = &frames[i], block_ = n->blocks[i];
    refine(i ? c.if_false : c.if_true, s[0]);
    exits[i] = statements(s[1 + i].kids, 0);
  }
  bool consumed = false;
  for (size_t i = 0; i < 2 && !consumed; ++i) {
    if (exits[1 - i].ends != Ends::kAlways || exits[i].ends == Ends::kAlways || at + 1 >= list.size()) continue;
    frame_ = &frames[i], block_ = n->blocks[i];
    frame_->rest = true;
    exits[i] = rest_of(exits[i], list, at + 1, s);
    consumed = true;
  }
  frame_ = outer, block_ = block;
  Exit e = merge(n, frames[0], frames[1], exits[0], exits[1], s);
  e.consumed = consumed;
  return e;
}

template <class Bind>
Emitter::Exit Emitter::loop(const Ast& s, const Ast& body, Val* trips, const Ast* test, Bind bind) {
  Scan scan;
  scan.walk(body, true);
  const Range where(s);
  if (s.is(A::kFor)) scan.target(s[0]);
  if (scan.returns) {
    if (!find("$returned")) set("$returned", truth(false, where), where);
    if (!find("$value"))
      set("$value", uninitialized(function_.ret_annotated ? function_.ret : none_type(), where), where);
    scan.names.insert("$returned");
    scan.names.insert("$value");
  }
  Condition first;
  if (test) first = condition(*test);
  Val* start = test ? condition_value(first, *test) : truth(true, where);
  Node* n = node(N::kLoop, {trips ? trips : integer(INT64_MAX, where), start}, where);
  Block* inner = graph_.new_block(n);
  n->blocks = {inner};
  Val* index = graph_.add_param(inner, int_type());
  std::vector<std::string> carried;
  Frame frame;
  frame.outer = frame_;
  std::vector<TypePtr> types;
  for (const std::string& name : scan.names) {
    const Sugar* v = find(name);
    if (!v || v->kind != Sugar::kValue) continue;
    carried.push_back(name);
    n->in.push_back(v->value);
    TypePtr t = name[0] == '$' ? v->value->type : settled_type(name);
    types.push_back(t ? (t->inferred ? tensor_type() : t) : v->value->type);
    Val* p = graph_.add_param(inner, types.back(), name[0] == '$' ? "" : name);
    frame.variables[name] = p;
  }
  Frame* const outer = frame_;
  Block* const block = block_;
  const std::string outer_stop = std::exchange(stop_, str_cat("$stop", ++loop_depth_));
  frame_ = &frame, block_ = inner;
  if (test) refine(first.if_true, *test);
  bind(index);
  statements(body.kids, 0);
  // whether there is a next round
  const auto stop = frame.variables.find(stop_);
  Val* next;
  if (stop == frame.variables.end()) {
    next = test ? condition_value(condition(*test), *test) : truth(true, where);
  } else {
    Node* decide = node(N::kIf, {stop->second.value}, where);
    decide->blocks = {graph_.new_block(decide), graph_.new_block(decide)};
    block_ = decide->blocks[0];
    decide->blocks[0]->returns = {truth(false, where)};
    block_ = decide->blocks[1];
    decide->blocks[1]->returns = {test ? condition_value(condition(*test), *test) : truth(true, where)};
    block_ = inner;
    next = graph_.add_out(decide, bool_type());
  }
  inner->returns.push_back(next);
  for (size_t i = 0; i < carried.size(); ++i) {
    const std::string& name = carried[i];
    Val* v = branch_value(name, frame, false);
    if (!v) {
      const Sugar* bad = find(name);
      if (bad && bad->kind == Sugar::kError) throw CompileError("\n\n" + bad->text);
      fail(where, str_cat("the value of ", error_name(name), " is not known at the end of the loop"));
    }
    if (name == "$value" && !function_.ret_annotated) {  // the type that the returns in the body have
      types[i] = v->type;
      inner->params[1 + i]->type = v->type;
      if (n->in[2 + i]->node && n->in[2 + i]->node->kind == N::kUninitialized) n->in[2 + i]->type = v->type;
    }
    inner->returns.push_back(v);
  }
  frame_ = outer, block_ = block;
  stop_ = outer_stop;
  for (size_t i = 0; i < carried.size(); ++i) {
    Val* v = graph_.add_out(n, types[i]);
    set(carried[i], v, where);
  }
  // what only the body defines may not have been defined
  for (const std::string& name : frame.assigned)
    if (!find(name) && name[0] != '$')
      frame_->variables[name] =
          Sugar(Sugar::kError, str_cat(name, " is not defined if the loop does not run:\n", where.excerpt()));
  if (!scan.returns) return {};
  Val* returned = find("$returned")->value;
  if (!stop_.empty()) {
    const Sugar* before = find(stop_);
    set(stop_, before ? op("aten::__or__", {before->value, returned}, where) : returned, where);
  }
  return {Ends::kSometimes, false, true, false, returned};
}

Emitter::Exit Emitter::for_loop(const Ast& s) {
  const Iteration it = iterate_ast(s[1]);
  if (it.is_unrolled) {
    Scan scan;
    scan.walk(s[2], true);
    // one copy of the body after the other; what may leave the loop in one of them goes around the rest
    Exit e;
    const std::string outer_stop = std::exchange(stop_, str_cat("$stop", ++loop_depth_));
    struct Unroll {
      Emitter& self;
      const Ast& s;
      const Iteration& it;
      Exit from(size_t i) {
        if (i == it.unrolled.size()) return {};
        self.assign(s[0], it.unrolled[i], s[0]);
        Exit one = self.statements(s[2].kids, 0);
        if (one.ends == Ends::kNever) return from(i + 1);
        const Sugar* stop = self.find(self.stop_);
        if (!stop && one.dead) {
          if (one.ends == Ends::kAlways || i + 1 == it.unrolled.size()) return one;
        }
        if (!stop && !one.dead) return from(i + 1);  // only `continue`
        if (one.ends == Ends::kAlways && (one.dead || known(stop->value))) return one;
        Val* flag = one.dead || !stop ? one.flag : stop->value;
        if (!flag) return one;
        Node* n = self.node(N::kIf, {flag}, s);
        n->blocks = {self.graph_.new_block(n), self.graph_.new_block(n)};
        Frame a, b;
        a.outer = b.outer = self.frame_;
        Frame* const outer = self.frame_;
        Block* const block = self.block_;
        self.frame_ = &b, self.block_ = n->blocks[1];
        const Exit rest = from(i + 1);
        self.frame_ = outer, self.block_ = block;
        Exit left = one;
        left.ends = Ends::kAlways, left.flag = nullptr;
        return self.merge(n, a, b, left, rest, s);
      }
    };
    e = Unroll{*this, s, it}.from(0);
    stop_ = outer_stop;
    if (!scan.returns) return {};
    return e;
  }
  return loop(s, s[2], it.trips, nullptr, [&](Val* index) {
    if (it.plain_range && s[0].is(A::kName)) return set(s[0].text, index, s[0], false);
    assign(s[0], element(it, index, s[1]), s[0]);
  });
}

Emitter::Exit Emitter::return_statement(const Ast& s) {
  TypePtr want = function_.ret_annotated ? function_.ret : nullptr;
  Val* v = s[0].is(A::kEmpty) ? none(s) : expr(s[0], want);
  if (want) {
    if (!is_subtype(v->type, want)) {
      const Formal f{nullptr, want, false, false, nullptr, -1, false};
      Val* converted = v->type->is(K::kTensor) || want->is(K::kTensor) ? nullptr : convert(v, f, want, true, s);
      if (!converted)
        fail(s, str_cat("Return value was annotated as having type ", want->annotation(), " but is actually of type ",
                        v->type->described()));
      v = converted;
    }
  } else if (returned_) {
    TypePtr both = unify(returned_, v->type);
    if (!both)
      fail(s, str_cat("Previous return statement returned a value of type ", returned_->described(),
                      " but this return statement returns a value of type ", v->type->described()));
    returned_ = both;
  } else {
    returned_ = v->type->inferred ? tensor_type() : v->type;
  }
  set("$value", v, s);
  if (!stop_.empty()) {
    set("$returned", truth(true, s), s);
    set(stop_, truth(true, s), s);
  }
  return {Ends::kAlways, false, true, false, nullptr};
}

void Emitter::finish_function(Exit e, const Range& where) {
  Val* result;
  if (e.ends == Ends::kAlways && !e.raises && find("$value")) {
    result = find("$value")->value;
  } else if (e.ends == Ends::kNever || e.raises) {
    if (e.raises && e.ends == Ends::kAlways && function_.ret_annotated) {
      result = uninitialized(function_.ret, where);
    } else {
      if (function_.ret_annotated && !accepts_none(function_.ret) && !function_.is_declaration)
        fail(where, str_cat("Function was not annotated as having type None, but does not return along all paths"));
      result = none(where);
    }
  } else {
    Val* value = find("$value")->value;
    if (function_.ret_annotated && !accepts_none(function_.ret))
      fail(where, "Function was not annotated as having type None, but does not return along all paths");
    // without an annotation, what is not returned is None
    TypePtr result_type = function_.ret_annotated ? value->type : unify(value->type, none_type());
    Node* n = node(N::kIf, {e.flag}, where);
    n->blocks = {graph_.new_block(n), graph_.new_block(n)};
    n->blocks[0]->returns = {value};
    block_ = n->blocks[1];
    n->blocks[1]->returns = {none(where)};
    block_ = graph_.top;
    result = graph_.add_out(n, result_type);
  }
  if (!function_.ret_annotated) { function_.ret = result->type->inferred ? tensor_type() : result->type; }
  graph_.top->returns = {result};
}

void Emitter::run(const Ast& def) {
  Frame frame;
  frame_ = &frame;
  for (const Param& p : function_.args) {
    Val* v = graph_.add_param(graph_.top, p.type, p.name);
    frame.variables[p.name] = v;
    frame.assigned.insert(p.name);
    if (p.type->is(K::kUnion)) frame.declared[p.name] = p.type;  // branches may leave different members of it
  }
  const Ast& body = def[2];
  const Exit e = statements(body.kids, 0);
  finish_function(e, def);
  frame_ = nullptr;
}
void Emitter::run_expression(const Ast& e, TypePtr t, int64_t size) {
  Frame frame;
  frame_ = &frame;
  Val* v = expr(e, t);
  if (t) {  // as an operator's argument: 1 will do for a float
    static const std::string name;
    Val* fitting = convert(v, Formal{&name, t, false, false, nullptr, size, true}, t, true, e);
    v = fitting ? fitting : cast_to(v, t, e, "the default", size);
  }
  graph_.top->returns = {v};
  frame_ = nullptr;
}

void Emitter::emit_raise(const Range& where, Val* message, const std::string& cls) {
  Val* c = cls.empty() ? none(where) : text(cls, where);
  node(N::kRaise, {message, c}, where);
}
Emitter::Exit Emitter::assertion(const Ast& s) {
  const Condition c = condition(s[0]);
  if (c.known) {
    refine(*c.known ? c.if_true : c.if_false, s[0]);
    if (*c.known) return {};
    emit_raise(s, assertion_message(s), "");
    return {Ends::kAlways, true, true, false, nullptr};
  }
  Node* n = node(N::kIf, {condition_value(c, s[0])}, s);
  n->blocks = {graph_.new_block(n), graph_.new_block(n)};
  Block* const block = block_;
  block_ = n->blocks[1];
  Frame frame;
  frame.outer = frame_;
  Frame* const outer = std::exchange(frame_, &frame);
  refine(c.if_false, s[0]);
  emit_raise(s, assertion_message(s), "");
  frame_ = outer;
  block_ = block;
  refine(c.if_true, s[0]);
  return {};
}
Val* Emitter::assertion_message(const Ast& s) {
  Val* message = s[1].is(A::kEmpty) ? text("", s) : expr(s[1]);
  if (const Value* k = known(message); k && message->type->is(K::kStr))
    return text(str_cat("AssertionError: ", k->string()), s);
  return op("aten::format", {text("AssertionError: {}", s), message}, s);
}
void Emitter::raise_statement(const Ast& s) {
  if (s[0].is(A::kEmpty)) return emit_raise(s, text("", s), "");
  const bool called = s[0].is(A::kCall);
  Sugar cls = sugar(called ? s[0][0] : s[0]);
  if (cls.kind == Sugar::kValue && cls.value->type->is(K::kStr)) return emit_raise(s, cls.value, "");
  if (cls.kind == Sugar::kType && cls.type->is(K::kClass) && cls.type->def->is_exception)
    cls = Sugar(Sugar::kException, cls.type->name);
  if (cls.kind != Sugar::kException) fail(s, "exceptions must derive from BaseException");
  Val* message = text("", s);
  if (called && s[0].kids.size() > 1) {
    std::vector<Argument> args = arguments(s[0]);
    message = args.size() == 1 ? args[0].value : nullptr;
    if (!message) {
      std::vector<Val*> all;
      for (const Argument& a : args) all.push_back(a.value);
      message = tuple(all, s);
    }
    if (!message->type->is(K::kStr)) message = op("aten::str", {message}, s);
  }
  emit_raise(s, message, cls.text);
}

Emitter::Exit Emitter::with_statement(const Ast& s, const std::vector<const Ast*>&, size_t) {
  std::vector<std::pair<Val*, Val*>> open;  // object, or null and what grad mode was before
  const Ast& body = *s.kids.back();
  for (size_t i = 0; i + 1 < s.kids.size(); i += 2) {
    const Range where(s[i]);
    if (s[i].is(A::kCall)) {
      const Sugar callee = sugar(s[i][0]);
      if (callee.kind == Sugar::kSpecial && (callee.text == "no_grad" || callee.text == "enable_grad" ||
                                             callee.text == "set_grad_enabled" || callee.text == "inference_mode")) {
        Val* before = op("aten::is_grad_enabled", std::initializer_list<Val*>{}, where);
        Val* on = callee.text == "set_grad_enabled" ? to_bool(expr(s[i][1]), where)
                                                    : truth(callee.text == "enable_grad", where);
        op("aten::set_grad_enabled", {on}, where);
        open.emplace_back(nullptr, before);
        continue;
      }
      if (callee.kind == Sugar::kSpecial &&
          (callee.text == "record_function" || callee.text == "strict_fusion" || callee.text == "ignore_context")) {
        for (const Argument& a : arguments(s[i])) (void)a;
        open.emplace_back(nullptr, nullptr);
        continue;
      }
    }
    Val* object = expr(s[i]);
    if (!object->type->is(K::kClass) || !object->type->def->method("__enter__") ||
        !object->type->def->method("__exit__"))
      fail(where, "With item expression must return an object with methods __enter__ and __exit__");
    Val* entered = call_method(object, "__enter__", {}, where);
    node(N::kEnter, {object}, where);
    if (!s[i + 1].is(A::kEmpty)) assign(s[i + 1], entered, where);
    open.emplace_back(object, nullptr);
  }
  const Exit e = statements(body.kids, 0);
  for (size_t k = open.size(); k-- > 0;) {
    const Range where(s[2 * k]);
    if (open[k].first) {
      node(N::kExit, {open[k].first}, where);
      call_method(open[k].first, "__exit__",
                  {{where, "", none(where)}, {where, "", none(where)}, {where, "", none(where)}}, where);
    } else if (open[k].second) {
      op("aten::set_grad_enabled", {open[k].second}, where);
    }
  }
  return e;
}

// --- assignments ---

void Emitter::assign(const Ast& target, Sugar value, const Range& where) {
  switch (target.kind) {
    case A::kName:
      if (value.kind == Sugar::kConstant) value = value_of(value, where);
      if (value.kind == Sugar::kItems && value.text == "tuple") value = value_of(value, where);
      return set(target.text, std::move(value), where);
    case A::kTuple:
    case A::kList:
      return unpack(target, value, where);
    case A::kAttr:
      return attribute_assign(target, value_of(value, where), where);
    case A::kSubscript:
      return subscript_assign(target, value_of(value, where), where);
    default:
      fail(target, "unexpected expression on left-hand side of assignment");
  }
}
void Emitter::unpack(const Ast& target, const Sugar& value, const Range& where) {
  size_t star = target.kids.size();
  for (size_t i = 0; i < target.kids.size(); ++i) {
    if (!target[i].is(A::kStarred)) continue;
    if (star < target.kids.size()) fail(where, "Only one starred expression is allowed on the lhs");
    star = i;
  }
  const bool starred = star < target.kids.size();
  const size_t fixed = target.kids.size() - starred;
  std::vector<Sugar> items;
  if (value.kind == Sugar::kItems) {
    items = value.items;
  } else {
    Val* v = value_of(value, where);
    if (starred && !v->type->is(K::kTuple)) fail(where, "a starred target needs a tuple on the right");
    for (Val* x : unpacked(v, fixed, where, !starred)) items.push_back(x);
  }
  if (starred ? items.size() < fixed : items.size() != fixed)
    fail(where, items.size() < fixed
                    ? str_cat("need ", starred ? "at least " : "", fixed, " values to unpack but got ", items.size())
                    : str_cat("too many values to unpack: need ", fixed, " but found ", items.size()));
  size_t at = 0;
  for (size_t i = 0; i < target.kids.size(); ++i) {
    if (i != star) {
      assign(target[i], items[at++], target[i]);
      continue;
    }
    std::vector<Val*> rest;
    for (size_t k = items.size() - fixed; k > 0; --k) rest.push_back(value_of(items[at++], where));
    assign(target[i][0], tuple(rest, where), target[i]);
  }
}
void Emitter::annotated(const Ast& s) {
  TypePtr t = annotation(s[1]);
  if (s[2].is(A::kEmpty)) {
    if (s[0].is(A::kName)) frame_->declared[s[0].text] = t;
    return;
  }
  Val* v = cast_to(expr(s[2], t), t, s, "the variable");
  if (!s[0].is(A::kName)) return assign(s[0], v, s);
  if (const TypePtr before = declared_type(s[0].text);
      before && !same(before, t) && frame_->declared.contains(s[0].text))
    fail(s,
         str_cat("Attempting to declare and annotate the type of variable '", s[0].text, "' that is already declared"));
  if (!same(v->type, t) && !known(v)) v = cast(v, t, s);
  frame_->declared[s[0].text] = t;
  set(s[0].text, v, s);
}

namespace {
const char* inplace_name(const std::string& op) {
  constexpr const char* table[][2] = {
      {"+", "aten::add_"},         {"-", "aten::sub_"},         {"*", "aten::mul_"},    {"/", "aten::div_"},
      {"%", "aten::fmod_"},        {"&", "aten::__iand__"},     {"|", "aten::__ior__"}, {"^", "aten::__ixor__"},
      {"<<", "aten::__ilshift__"}, {">>", "aten::__irshift__"}, {"**", "aten::pow_"},   {"//", "aten::floor_divide_"}};
  for (const auto& row : table)
    if (op == row[0]) return row[1];
  return nullptr;
}
const char* magic_name(const std::string& op) {
  constexpr const char* table[][2] = {{"+", "__iadd__"}, {"-", "__isub__"}, {"*", "__imul__"}, {"/", "__itruediv__"}};
  for (const auto& row : table)
    if (op == row[0]) return row[1];
  return nullptr;
}
}  // namespace

void Emitter::augmented(const Ast& s) {
  const Ast& target = s[0];
  const Range where(s);
  const auto combined = [&](Val* old) {
    TypePtr hint = old->type->is(K::kList) ? old->type : nullptr;
    Val* with = expr(s[1], hint);
    if (old->type->is(K::kClass) && magic_name(s.text) && old->type->def->method(magic_name(s.text)))
      return call_method(old, magic_name(s.text), {{where, "", with}}, where);
    const char* name = inplace_name(s.text);
    if (name && (old->type->is(K::kTensor) || (old->type->is(K::kList) && (s.text == "+" || s.text == "*"))))
      return op(name, {old, with}, where);
    return arithmetic(s.text, old, with, where);
  };
  if (target.is(A::kName)) return set(target.text, combined(expr(target)), where);
  if (target.is(A::kAttr)) {
    Val* old = expr(target);
    Val* v = combined(old);
    return attribute_assign(target, v, where);
  }
  if (!target.is(A::kSubscript)) fail(target, "unexpected expression on left-hand side of augmented assignment");
  Val* base = expr(target[0]);
  if (base->type->is(K::kTensor)) {
    std::vector<Val*> indices;
    Val* view = tensor_indices(base, target, &indices);
    if (indices.empty()) {
      combined(view);
      return;
    }
    Val* list = node_value(N::kList, indices, list_of(optional_of(tensor_type())), where);
    Val* old = op("aten::index", {view, list}, where);
    op("aten::index_put_", {view, list, combined(old)}, where);
    return;
  }
  Val* index = expr(target[1]);
  Val* old = base->type->is(K::kClass) ? call_method(base, "__getitem__", {{where, "", index}}, where)
                                       : op("aten::__getitem__", {base, index}, where);
  Val* v = combined(old);
  if (base->type->is(K::kClass))
    call_method(base, "__setitem__", {{where, "", index}, {where, "", v}}, where);
  else
    op("aten::_set_item", {base, index, v}, where);
}
void Emitter::delete_statement(const Ast& s) {
  for (const Ast* t : s.kids) {
    if (t->is(A::kName)) {
      if (!find(t->text)) fail(*t, str_cat("undefined value ", t->text));
      frame_->variables[t->text] = Sugar(Sugar::kError, str_cat(t->text, " was deleted:\n", Range(s).excerpt()));
      continue;
    }
    if (!t->is(A::kSubscript)) fail(*t, "del statements are only supported for deleting list and dict items");
    Val* base = expr((*t)[0]);
    if (base->type->is(K::kClass))
      call_method(base, "__delitem__", {{*t, "", expr((*t)[1])}}, *t);
    else
      op("aten::Delete", {base, expr((*t)[1])}, *t);
  }
}
void Emitter::attribute_assign(const Ast& target, Val* value, const Range& where) {
  Val* object = expr(target[0]);
  TypePtr t = object->type;
  if (!t->is(K::kClass))
    fail(where, str_cat("Tried to set an attribute: ", target.text, " on a non-class: ", t->annotation()));
  ClassDef* def = t->def;
  if (const Property* p = def->property(target.text)) {
    if (!p->setter)
      fail(where, str_cat("Tried to set property ", target.text, " of ", def->name, ", which has no setter"));
    call_function(*p->setter, {{where, "", value}}, where, object);
    return;
  }
  const Attribute* a = def->attribute(target.text);
  if (!a && def->building && function_.is_init && function_.owner == def) {
    def->attributes.push_back({target.text, value->type->inferred ? tensor_type() : value->type, false, false});
    a = &def->attributes.back();
  }
  if (!a && def->constant(target.text))
    fail(where, str_cat("Tried to set a constant attribute: ", target.text, " of ", def->name));
  if (!a)
    fail(where, str_cat("Tried to set nonexistent attribute: ", target.text,
                        ". Did you forget to initialize it in __init__()?"));
  Val* fitting = is_subtype(value->type, a->type) ? value : nullptr;
  if (!fitting && value->node && value->node->kind == N::kList && value->node->in.empty() && a->type->is(K::kList)) {
    value->type = a->type;
    fitting = value;
  }
  if (!fitting)
    fail(where, str_cat("Wrong type for attribute assignment. Expected ", a->type->annotation(), " but got ",
                        value->type->annotation()));
  Node* n = node(N::kSetAttr, {object, fitting}, where);
  n->name = target.text;
}
void Emitter::subscript_assign(const Ast& target, Val* value, const Range& where) {
  Val* base = expr(target[0]);
  if (base->type->is(K::kTensor)) {
    std::vector<Val*> indices;
    Val* view = tensor_indices(base, target, &indices);
    const bool number = !value->type->is(K::kTensor);
    if (number) {
      Val* dtype = op("prim::dtype", {view}, where);
      Val* device = op("prim::device", {view}, where);
      value = op("aten::tensor", {{where, "", value}, {where, "dtype", dtype}, {where, "device", device}}, where);
    }
    if (indices.empty()) {
      op("aten::copy_", {view, value}, where);
    } else {
      Val* list = node_value(N::kList, indices, list_of(optional_of(tensor_type())), where);
      op("aten::index_put_", {view, list, value}, where);
    }
    return;
  }
  if (target.kids.size() != 2 || with_slices(target)[1].is(A::kSlice))
    fail(where, "Sliced expression not yet supported for subscripted assignment of lists");
  Val* index = expr(target[1]);
  if (base->type->is(K::kClass)) {
    call_method(base, "__setitem__", {{where, "", index}, {where, "", value}}, where);
    return;
  }
  if (!base->type->is(K::kList) && !base->type->is(K::kDict))
    fail(where, str_cat("Subscripted assign isn't supported for ", base->type->annotation()));
  op("aten::_set_item", {base, index, value}, where);
}

}  // namespace tessera::jit
