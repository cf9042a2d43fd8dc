// Graphs from their printed form.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "jit/function.h"
#include "jit/ir.h"
#include "jit/operator.h"

namespace tessera::jit {
namespace {

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text), g_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> run() {
    expect("graph");
    params(g_->top);
    expect(":");
    while (!take("return")) node(g_->top);
    g_->top->returns = values();
    skip();
    if (at_ < text_.size()) fail("the end");
    return std::move(g_);
  }

 private:
  [[noreturn]] void fail(const std::string& wanted) const {
    const size_t line = static_cast<size_t>(std::count(text_.begin(), text_.begin() + static_cast<int64_t>(at_), '\n'));
    const size_t end = std::min(text_.find('\n', at_), text_.size());
    throw Error(str_cat("line ", line + 1, " of the graph: expected ", wanted, " before '",
                        text_.substr(at_, std::min<size_t>(end - at_, 40)), "'"));
  }
  void skip() {
    while (at_ < text_.size()) {
      if (std::isspace(static_cast<unsigned char>(text_[at_])))
        ++at_;
      else if (text_[at_] == '#')
        at_ = std::min(text_.find('\n', at_), text_.size());
      else
        return;
    }
  }
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }
  // A word or a sign.
  bool take(std::string_view s) {
    skip();
    if (!std::string_view(text_).substr(at_).starts_with(s)) return false;
    if (is_word(s.back()) && at_ + s.size() < text_.size() && is_word(text_[at_ + s.size()])) return false;
    at_ += s.size();
    return true;
  }
  void expect(std::string_view s) {
    if (!take(s)) fail(str_cat("'", s, "'"));
  }
  std::string word(const char* more = "") {
    skip();
    const size_t from = at_;
    while (at_ < text_.size() && (is_word(text_[at_]) || std::strchr(more, text_[at_]))) ++at_;
    if (at_ == from) fail("a name");
    return text_.substr(from, at_ - from);
  }
  std::string value_name() {
    expect("%");
    return word(".");
  }
  Val* value() {
    const std::string name = value_name();
    const auto it = vals_.find(name);
    TESSERA_CHECK(it != vals_.end(), "the graph uses %", name, " before it is computed");
    return it->second;
  }
  std::vector<Val*> values() {
    std::vector<Val*> all;
    expect("(");
    while (!take(")")) {
      all.push_back(value());
      take(",");
    }
    return all;
  }
  void name(Val* v, const std::string& text) {
    g_->set_name(v, text);
    vals_[text] = v;
  }
  void params(Block* b) {
    expect("(");
    while (!take(")")) {
      const std::string n = value_name();
      TypePtr t = take(":") ? type() : tensor_type();
      name(g_->add_param(b, t), n);
      take(",");
    }
  }

  // --- types ---

  std::vector<TypePtr> types(const char* end) {
    std::vector<TypePtr> all;
    while (!take(end)) {
      all.push_back(type());
      take(",");
    }
    return all;
  }
  TypePtr type() {
    TypePtr t = plain_type();
    while (true) {
      if (take("[]"))
        t = list_of(t);
      else if (take("?"))
        t = optional_of(t);
      else
        return t;
    }
  }
  TypePtr plain_type() {
    if (take("(")) return tuple_of(types(")"));
    const std::string n = word(".*");
    static constexpr std::pair<const char*, K> nested[] = {
        {"Dict", K::kDict},   {"Future", K::kFuture}, {"RRef", K::kRRef}, {"Await", K::kAwait},
        {"Union", K::kUnion}, {"Tuple", K::kTuple},   {"List", K::kList}, {"Optional", K::kOptional}};
    for (const auto& [text, k] : nested)
      if (n == text && (take("(") || take("["))) {
        auto inside = types(text_[at_ - 1] == '(' ? ")" : "]");
        if (inside.empty()) fail("a type");
        return k == K::kUnion ? union_of(std::move(inside)) : make_type(k, std::move(inside));
      }
    for (int k = 0; k <= static_cast<int>(K::kPython); ++k)
      if (static_cast<K>(k) != K::kVariable && simple_type(static_cast<K>(k))->str() == n && n != "Tensor")
        return simple_type(static_cast<K>(k));
    if (n == "Tensor" || n == "Dynamic") return n == "Tensor" ? tensor(TensorFacts()) : tensor_type();
    TensorFacts f;
    for (int d = 0; d <= static_cast<int>(DType::kComplex128); ++d)
      if (n == type_name_of(static_cast<DType>(d))) f.dtype = static_cast<DType>(d);
    if (!f.dtype) fail(str_cat("a type, not '", n, "',"));
    return tensor(std::move(f));
  }
  TypePtr tensor(TensorFacts f) {
    if (!take("(")) return tensor_with(std::move(f));
    std::vector<int64_t> sizes;
    bool known = true;
    while (!take(")")) {
      if (take("strides")) {
        expect("=");
        expect("[");
        f.strides.emplace();
        while (!take("]")) f.strides->push_back(integer()), take(",");
      } else if (take("requires_grad")) {
        expect("=");
        f.requires_grad = integer() != 0;
      } else if (take("device")) {
        expect("=");
        f.device = Device(word(":"));
      } else if (take("*")) {
        known = false;
      } else {
        sizes.push_back(integer());
      }
      take(",");
    }
    if (known) f.sizes = std::move(sizes);
    return tensor_with(std::move(f));
  }

  // --- constants ---

  int64_t integer() {
    skip();
    char* end = nullptr;
    const int64_t i = std::strtoll(text_.c_str() + at_, &end, 10);
    if (end == text_.c_str() + at_) fail("a number");
    at_ = static_cast<size_t>(end - text_.c_str());
    return i;
  }
  std::string quoted() {
    expect("\"");
    std::string s;
    for (; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
        const char c = text_[++at_];
        s += c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
      } else {
        s += text_[at_];
      }
    }
    expect("\"");
    return s;
  }
  Value constant(TypePtr t) {
    if (t->is(K::kOptional)) t = t->elem();
    switch (t->kind) {
      case K::kInt:
        return Value::of(integer());
      case K::kBool:
        if (take("True")) return Value::of(true);
        return Value::of(take("False") ? false : integer() != 0);
      case K::kFloat: {
        skip();
        char* end = nullptr;
        const double d = std::strtod(text_.c_str() + at_, &end);
        if (end == text_.c_str() + at_) fail("a number");
        at_ = static_cast<size_t>(end - text_.c_str());
        return Value::of(d);
      }
      case K::kStr:
        return Value::of(quoted());
      case K::kDevice:
        return Value::of(Device(quoted()));
      case K::kList: {
        expect("[");
        std::vector<Value> items;
        while (!take("]")) items.push_back(constant(t->elem())), take(",");
        return make_value<List>(t->elem(), std::move(items));
      }
      default:
        fail(str_cat("a constant that texts can hold (no ", t->annotation(), ")"));
    }
  }

  // --- nodes ---

  void attributes(Node* n) {
    do {
      const std::string key = word();
      expect("=");
      if (n->kind == N::kConstant && key == "value") {
        n->constant = constant(n->out[0]->type);
      } else if (n->kind == N::kTupleSlice) {
        n->ints[key == "end"] = integer();
      } else if (key == "name") {
        n->name = quoted();
      } else {
        fail(str_cat("no attribute '", key, "' of ", n->kind_name()));
      }
    } while (take(","));
    expect("]");
  }
  void node(Block* b) {
    std::vector<std::pair<std::string, TypePtr>> out;
    skip();
    while (at_ < text_.size() && text_[at_] == '%') {
      std::string n = value_name();
      TypePtr t = take(":") ? type() : nullptr;
      out.emplace_back(std::move(n), t);
      if (!take(",")) break;
      skip();
    }
    if (!out.empty()) expect("=");
    std::string kind = word(".");
    expect("::");
    kind += "::" + word(".");
    Node* n = g_->new_node(kind_named(kind));
    for (auto& [text, t] : out) name(g_->add_out(n, t ? t : tensor_type()), text);
    if (take("[")) attributes(n);
    n->in = values();
    if (n->kind == N::kForeign) {
      Node* typed = create_node(*g_, kind, n->in);
      if (typed->kind == N::kOp)
        n->kind = N::kOp, n->op = typed->op;
      else
        n->name = kind;
      for (size_t i = 0; n->op && i < out.size() && i < n->op->rets.size(); ++i)
        if (!out[i].second && !has_variables(n->op->rets[i])) n->out[i]->type = n->op->rets[i];
    }
    n->owner = b;
    b->nodes.push_back(n);
    if (take(", scope:")) n->scope = text_.substr(at_, text_.find_first_of("\n#", at_) - at_), at_ += n->scope.size();
    skip();
    while (std::string_view(text_).substr(at_).starts_with("block")) {
      word();
      Block* inner = g_->new_block(n);
      n->blocks.push_back(inner);
      params(inner);
      expect(":");
      while (!take("->")) node(inner);
      inner->returns = values();
      skip();
    }
  }

  const std::string& text_;
  size_t at_ = 0;
  std::unique_ptr<Graph> g_;
  std::unordered_map<std::string, Val*> vals_;
};

}  // namespace

std::unique_ptr<Graph> parse_ir(const std::string& text) { return Parser(text).run(); }

}  // namespace tessera::jit
