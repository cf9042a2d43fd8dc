#include "tools/opgen/formula.h"

#include <cctype>
#include <cstring>

namespace tessera::opgen {
namespace {

bool ident_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

// The next or previous token that is not space; tokens.size() if there is none.
size_t next(const std::vector<FormulaToken>& t, size_t i) {
  for (++i; i < t.size() && t[i].kind == FormulaToken::Kind::kSpace; ++i) {}
  return i;
}
size_t previous(const std::vector<FormulaToken>& t, size_t i) {
  while (i-- > 0)
    if (t[i].kind != FormulaToken::Kind::kSpace) return i;
  return t.size();
}
bool text_is(const std::vector<FormulaToken>& t, size_t i, const char* text) {
  return i < t.size() && t[i].text == text;
}

}  // namespace

std::vector<FormulaToken> tokenize_formula(const std::string& s) {
  std::vector<FormulaToken> out;
  for (size_t i = 0; i < s.size();) {
    const size_t begin = i;
    FormulaToken t;
    if (std::isspace(static_cast<unsigned char>(s[i]))) {
      while (i < s.size() && std::isspace(static_cast<unsigned char>(s[i]))) ++i;
      t.kind = FormulaToken::Kind::kSpace;
    } else if (std::isdigit(static_cast<unsigned char>(s[i])) ||
               (s[i] == '.' && i + 1 < s.size() && std::isdigit(static_cast<unsigned char>(s[i + 1])))) {
      while (i < s.size() && (ident_char(s[i]) || s[i] == '.' || s[i] == '\'' ||
                              ((s[i] == '-' || s[i] == '+') && (s[i - 1] == 'e' || s[i - 1] == 'E'))))
        ++i;
      t.kind = FormulaToken::Kind::kNumber;
    } else if (ident_char(s[i])) {
      while (i < s.size() && ident_char(s[i])) ++i;
      t.kind = FormulaToken::Kind::kIdent;
    } else if (s[i] == '"' || s[i] == '\'') {
      const char quote = s[i++];
      while (i < s.size() && s[i] != quote) i += s[i] == '\\' ? 2 : 1;
      i = i < s.size() ? i + 1 : s.size();
      t.kind = FormulaToken::Kind::kString;
    } else {
      i += s.compare(i, 2, "::") == 0 || s.compare(i, 2, "->") == 0 ? 2 : 1;
    }
    t.text = s.substr(begin, i - begin);
    out.push_back(std::move(t));
  }
  return out;
}

std::vector<FormulaName> value_names(const std::vector<FormulaToken>& t) {
  std::vector<FormulaName> out;
  for (size_t i = 0; i < t.size(); ++i) {
    if (t[i].kind != FormulaToken::Kind::kIdent) continue;
    const size_t p = previous(t, i), n = next(t, i);
    if (text_is(t, p, ".") || text_is(t, p, "->") || text_is(t, p, "::") || text_is(t, n, "::") || text_is(t, n, "("))
      continue;
    FormulaName name{i, t[i].text, "", i + 1};
    if (text_is(t, n, ".")) {
      const size_t method = next(t, n), open = next(t, method), close = next(t, open);
      if (method < t.size() && t[method].kind == FormulaToken::Kind::kIdent && text_is(t, open, "(") &&
          text_is(t, close, ")")) {
        name.method = t[method].text;
        name.end = close + 1;
      }
    }
    out.push_back(std::move(name));
  }
  return out;
}

std::string formula_imbalance(const std::vector<FormulaToken>& tokens) {
  std::string open;
  for (const FormulaToken& t : tokens) {
    if (t.kind == FormulaToken::Kind::kString && (t.text.size() < 2 || t.text.back() != t.text[0]))
      return "unterminated string";
    if (t.kind != FormulaToken::Kind::kPunct || t.text.size() != 1) continue;
    const char c = t.text[0];
    if (std::strchr("([{", c)) open += c;
    static constexpr char kOpen[] = "([{", kClose[] = ")]}";
    if (const char* at = std::strchr(kClose, c)) {
      if (open.empty() || open.back() != kOpen[at - kClose]) return std::string("'") + c + "' closes nothing";
      open.pop_back();
    }
  }
  return open.empty() ? "" : std::string("'") + open.back() + "' is not closed";
}

bool is_plain_identifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (char c : text)
    if (!ident_char(c)) return false;
  return true;
}

}  // namespace tessera::opgen
