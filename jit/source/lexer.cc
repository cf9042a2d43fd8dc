#include "jit/source/lexer.h"

#include <cstring>

namespace tessera::jit {
namespace {

constexpr std::string_view kOperators[] = {"**=", "//=", ">>=", "<<=", "...", "->", "**", "//", ">>", "<<", "<=", ">=",
                                           "==",  "!=",  ":=",  "+=",  "-=",  "*=", "/=", "%=", "&=", "|=", "^=", "@="};

bool name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80); }
bool digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(const Source& source) : source_(source), s_(source.text()) {}

  Lexed run() {
    bool line_start = true;
    while (true) {
      if (line_start && !depth_) {
        if (!indentation()) break;
        line_start = false;
      }
      const char c = peek();
      if (at_ >= s_.size()) break;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\f') {
        ++at_;
      } else if (c == '\\' && peek(1) == '\n') {
        at_ += 2;
      } else if (c == '\\' && peek(1) == '\r') {
        at_ += 3;
      } else if (c == '\n') {
        if (!depth_) add(T::kNewline, at_, at_ + 1), line_start = true;
        ++at_;
      } else if (c == '#') {
        comment();
      } else if (is_string_start()) {
        string();
      } else if (name_start(c)) {
        const size_t b = at_;
        while (name_start(peek()) || digit(peek())) ++at_;
        add(T::kName, b, at_);
      } else if (digit(c) || (c == '.' && digit(peek(1)))) {
        number();
      } else {
        op();
      }
    }
    add(T::kNewline, s_.size(), s_.size());
    while (indents_.back() > 0) indents_.pop_back(), add(T::kDedent, s_.size(), s_.size());
    add(T::kEnd, s_.size(), s_.size());
    return std::move(out_);
  }

 private:
  char peek(size_t k = 0) const { return at_ + k < s_.size() ? s_[at_ + k] : '\0'; }
  void add(T kind, size_t b, size_t e) {
    out_.tokens.push_back({kind, static_cast<uint32_t>(b), static_cast<uint32_t>(e), s_.substr(b, e - b)});
  }
  [[noreturn]] void bad(const char* why, size_t at) {
    Range r;
    r.source = &source_, r.begin = static_cast<uint32_t>(at),
    r.end = static_cast<uint32_t>(std::min(at + 1, s_.size()));
    fail(r, why);
  }
  // At the beginning of a line: INDENT or DEDENT; lines without code count for nothing. False at the end.
  bool indentation() {
    while (true) {
      size_t width = 0, p = at_;
      for (; p < s_.size() && (s_[p] == ' ' || s_[p] == '\t'); ++p) width += s_[p] == '\t' ? 8 - width % 8 : 1;
      if (p >= s_.size()) {
        at_ = p;
        return false;
      }
      if (s_[p] == '\n' || s_[p] == '\r') {
        at_ = p + 1;
        continue;
      }
      if (s_[p] == '#') {
        at_ = p;
        comment();
        continue;
      }
      at_ = p;
      if (width > indents_.back()) {
        indents_.push_back(width);
        add(T::kIndent, p, p);
      }
      while (width < indents_.back()) {
        indents_.pop_back();
        add(T::kDedent, p, p);
        if (width > indents_.back()) bad("unindent does not match any outer indentation level", p);
      }
      return true;
    }
  }
  void comment() {
    const size_t b = at_;
    while (at_ < s_.size() && s_[at_] != '\n') ++at_;
    std::string_view text = s_.substr(b + 1, at_ - b - 1);
    while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
    if (!text.starts_with("type:")) return;
    text.remove_prefix(5);
    while (!text.empty() && text[0] == ' ') text.remove_prefix(1);
    if (text.starts_with("ignore")) return;
    const size_t from = static_cast<size_t>(text.data() - s_.data());
    out_.type_comments.push_back({T::kName, static_cast<uint32_t>(from), static_cast<uint32_t>(at_), text});
  }
  bool is_string_start() const {
    for (size_t k = 0; k < 3; ++k) {
      const char c = peek(k);
      if (c == '"' || c == '\'') return true;
      if (!c || !std::strchr("rRbBfFuU", c)) return false;
    }
    return false;
  }
  void string() {
    const size_t b = at_;
    Token t{T::kString, 0, 0, {}};
    for (; peek() != '"' && peek() != '\''; ++at_) {
      const char c = peek() | 0x20;
      if (c == 'r') t.raw = true;
      if (c == 'b') t.bytes = true;
      if (c == 'f') t.kind = T::kFormatted;
    }
    const char q = peek();
    const bool triple = peek(1) == q && peek(2) == q;
    at_ += triple ? 3 : 1;
    const size_t from = at_;
    while (true) {
      if (at_ >= s_.size() || (!triple && peek() == '\n')) bad("the string has no end", b);
      if (peek() == '\\') {
        at_ += 2;
        continue;
      }
      if (peek() == q && (!triple || (peek(1) == q && peek(2) == q))) break;
      ++at_;
    }
    t.text = s_.substr(from, at_ - from);
    at_ += triple ? 3 : 1;
    t.begin = static_cast<uint32_t>(b), t.end = static_cast<uint32_t>(at_);
    out_.tokens.push_back(t);
  }
  void number() {
    const size_t b = at_;
    if (peek() == '0' && std::strchr("xXbBoO", peek(1)) && peek(1)) {
      at_ += 2;
      while (name_start(peek()) || digit(peek())) ++at_;
    } else {
      while (digit(peek()) || peek() == '_') ++at_;
      if (peek() == '.') ++at_;
      while (digit(peek()) || peek() == '_') ++at_;
      if ((peek() | 0x20) == 'e' && (digit(peek(1)) || ((peek(1) == '+' || peek(1) == '-') && digit(peek(2))))) {
        at_ += 2;
        while (digit(peek())) ++at_;
      }
      if ((peek() | 0x20) == 'j') ++at_;
    }
    add(T::kNumber, b, at_);
  }
  void op() {
    size_t n = 1;
    for (std::string_view o : kOperators)
      if (s_.substr(at_).starts_with(o)) {
        n = o.size();
        break;
      }
    const char c = peek();
    if (n == 1 && !std::strchr("()[]{}:,.;@=+-*/%&|^~<>", c)) bad("this character has no meaning here", at_);
    if (c == '(' || c == '[' || c == '{') ++depth_;
    if ((c == ')' || c == ']' || c == '}') && depth_) --depth_;
    add(T::kOperator, at_, at_ + n);
    at_ += n;
  }

  const Source& source_;
  std::string_view s_;
  size_t at_ = 0;
  int depth_ = 0;  // of brackets, in which lines and indentation mean nothing
  std::vector<size_t> indents_{0};
  Lexed out_;
};

void put_utf8(std::string& s, uint32_t c) {
  if (c < 0x80) {
    s += static_cast<char>(c);
  } else if (c < 0x800) {
    s += static_cast<char>(0xc0 | c >> 6);
    s += static_cast<char>(0x80 | (c & 63));
  } else if (c < 0x10000) {
    s += static_cast<char>(0xe0 | c >> 12);
    s += static_cast<char>(0x80 | (c >> 6 & 63));
    s += static_cast<char>(0x80 | (c & 63));
  } else {
    s += static_cast<char>(0xf0 | c >> 18);
    s += static_cast<char>(0x80 | (c >> 12 & 63));
    s += static_cast<char>(0x80 | (c >> 6 & 63));
    s += static_cast<char>(0x80 | (c & 63));
  }
}
int hex(char c) {
  if (digit(c)) return c - '0';
  c = static_cast<char>(c | 0x20);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

Lexed lex(const Source& source) { return Lexer(source).run(); }

std::string unescape(const Token& t, std::string_view text, const Source& source) {
  if (t.raw || text.find('\\') == std::string_view::npos) return std::string(text);
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    constexpr std::string_view from = "ntrabfv\\'\"0", to("\n\t\r\a\b\f\v\\'\"\0", 11);
    if (c >= '0' && c <= '7') {
      uint32_t v = 0;
      size_t n = 0;
      for (; n < 3 && i < text.size() && text[i] >= '0' && text[i] <= '7'; ++n) v = v * 8 + (text[i++] - '0');
      --i;
      put_utf8(out, v & 0xff);
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t n = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t v = 0;
      for (size_t k = 0; k < n; ++k) {
        const int h = ++i < text.size() ? hex(text[i]) : -1;
        Range r;
        r.source = &source, r.begin = t.begin, r.end = t.end;
        if (h < 0) fail(r, "an escape sequence of this string is not complete");
        v = v * 16 + static_cast<uint32_t>(h);
      }
      put_utf8(out, v);
    } else if (c == '\n') {
    } else if (const size_t k = from.find(c); k != std::string_view::npos) {
      out += to[k];
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace tessera::jit
