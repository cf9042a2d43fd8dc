// Operators on strings.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "jit/builtins/builtins.h"
#include "jit/print.h"

namespace tessera::jit {
namespace {

using Tag = Value::Tag;
using S = std::string_view;

bool space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool upper(char c) { return c >= 'A' && c <= 'Z'; }
bool lower(char c) { return c >= 'a' && c <= 'z'; }
bool digit(char c) { return c >= '0' && c <= '9'; }
bool letter(char c) { return upper(c) || lower(c); }
char flip(char c) { return letter(c) ? static_cast<char>(c ^ 0x20) : c; }

std::string mapped(S s, char (*f)(char)) {
  std::string out(s);
  for (char& c : out) c = f(c);
  return out;
}
bool every(S s, bool (*f)(char)) { return !s.empty() && std::all_of(s.begin(), s.end(), f); }
// The part that begin and end (None: the whole) leave.
S part(S s, const Value& begin, const Value& end) {
  const int64_t n = static_cast<int64_t>(s.size());
  const auto clip = [&](const Value& v, int64_t otherwise) {
    int64_t i = v.is_none() ? otherwise : v.integer();
    if (i < 0) i += n;
    return std::clamp<int64_t>(i, 0, n);
  };
  const int64_t b = clip(begin, 0), e = clip(end, n);
  return e > b ? s.substr(static_cast<size_t>(b), static_cast<size_t>(e - b)) : S();
}
std::string replaced(S s, S old, S with, int64_t most) {
  std::string out;
  size_t at = 0;
  while (most) {
    const size_t k = s.find(old, at);
    if (k == S::npos) break;
    if (old.empty()) {
      if (at > s.size()) break;
      out += with;
      if (at < s.size()) out += s[at];
      if (++at > s.size()) return out;
    } else {
      out += s.substr(at, k - at);
      out += with;
      at = k + old.size();
    }
    --most;
  }
  if (at < s.size()) out += s.substr(at);
  return out;
}
Value strings(std::vector<Value> v) { return make_value<List>(str_type(), std::move(v)); }
Value str(S s) { return Value::of(std::string(s)); }
Value split(S s, const Value& separator, int64_t most, bool from_right) {
  std::vector<Value> out;
  if (separator.is_none()) {
    size_t at = 0;
    while (true) {
      while (at < s.size() && space(s[at])) ++at;
      if (at >= s.size()) break;
      size_t e = at;
      if (most == 0) {
        e = s.size();
        while (e > at && space(s[e - 1])) --e;
      } else {
        while (e < s.size() && !space(s[e])) ++e;
      }
      out.push_back(str(s.substr(at, e - at)));
      at = e;
      --most;
    }
    return strings(std::move(out));
  }
  const S sep = separator.string();
  TESSERA_CHECK_VALUE(!sep.empty(), "empty separator");
  while (most) {
    const size_t k = from_right ? s.rfind(sep) : s.find(sep);
    if (k == S::npos) break;
    out.push_back(str(from_right ? s.substr(k + sep.size()) : s.substr(0, k)));
    s = from_right ? s.substr(0, k) : s.substr(k + sep.size());
    --most;
  }
  out.push_back(str(s));
  if (from_right) std::reverse(out.begin(), out.end());
  return strings(std::move(out));
}
S strip(S s, S chars, bool left, bool right) {
  while (left && !s.empty() && chars.find(s.front()) != S::npos) s.remove_prefix(1);
  while (right && !s.empty() && chars.find(s.back()) != S::npos) s.remove_suffix(1);
  return s;
}
// side: -1 text at the left, 0 in the middle, 1 at the right
std::string padded(S s, int64_t width, S fill, int side) {
  TESSERA_CHECK_TYPE(fill.size() == 1, "the fill character must be exactly one character long");
  const int64_t room = width - static_cast<int64_t>(s.size());
  if (room <= 0) return std::string(s);
  const int64_t left = side < 0 ? 0 : side > 0 ? room : room / 2;
  return std::string(static_cast<size_t>(left), fill[0]) + std::string(s) +
         std::string(static_cast<size_t>(room - left), fill[0]);
}
std::string title(S s) {
  std::string out(s);
  bool inside = false;
  for (char& c : out) {
    if (letter(c)) c = static_cast<char>(inside ? c | 0x20 : c & ~0x20);
    inside = letter(c);
  }
  return out;
}
std::string expand_tabs(S s, int64_t size) {
  std::string out;
  int64_t column = 0;
  for (char c : s) {
    if (c == '\t') {
      const int64_t k = size > 0 ? size - column % size : 0;
      out.append(static_cast<size_t>(k), ' ');
      column += k;
    } else {
      out += c;
      column = c == '\n' ? 0 : column + 1;
    }
  }
  return out;
}
std::string slice_of(S s, const Value* a) {
  const int64_t n = static_cast<int64_t>(s.size()), step = a[3].integer();
  TESSERA_CHECK_VALUE(step != 0, "slice step cannot be zero");
  const auto clip = [&](const Value& v, int64_t otherwise) {
    if (v.is_none()) return otherwise;
    const int64_t i = v.integer() < 0 ? v.integer() + n : v.integer();
    return step > 0 ? std::clamp<int64_t>(i, 0, n) : std::clamp<int64_t>(i, -1, n - 1);
  };
  std::string out;
  int64_t i = clip(a[1], step > 0 ? 0 : n - 1);
  for (const int64_t e = clip(a[2], step > 0 ? n : -1); step > 0 ? i < e : i > e; i += step)
    out += s[static_cast<size_t>(i)];
  return out;
}
// From the first such character on.
S part_from(S s, char c) {
  const size_t k = s.find(c);
  return k == S::npos ? S() : s.substr(k);
}
int64_t parse_int(S s, int64_t base) {
  const S text = strip(s, " \t\n\r", true, true);
  std::string digits(text);
  std::erase(digits, '_');
  char* end = nullptr;
  errno = 0;
  const long long v = std::strtoll(digits.c_str(), &end, static_cast<int>(base));
  TESSERA_CHECK_VALUE(!digits.empty() && !*end, "invalid literal for int() with base ", base, ": '", s, "'");
  return v;
}
double parse_float(S s) {
  const std::string text(strip(s, " \t\n\r", true, true));
  char* end = nullptr;
  const double d = std::strtod(text.c_str(), &end);
  TESSERA_CHECK_VALUE(!text.empty() && !*end, "could not convert string to float: '", s, "'");
  return d;
}
int64_t occurrences(S s, S what) {
  if (what.empty()) return static_cast<int64_t>(s.size()) + 1;
  int64_t n = 0;
  for (size_t k = s.find(what); k != S::npos; k = s.find(what, k + what.size())) ++n;
  return n;
}
int64_t find_in(const Value* a, bool last) {
  const S s = a[0].string(), p = part(s, a[2], a[3]);
  const size_t k = last ? p.rfind(a[1].string()) : p.find(a[1].string());
  return k == S::npos ? -1 : static_cast<int64_t>(k + static_cast<size_t>(p.data() - s.data()));
}
Value index_in(const Value* a, bool last) {
  const int64_t k = find_in(a, last);
  TESSERA_CHECK_VALUE(k >= 0, "ValueError: substring not found");
  return Value::of(k);
}
// [[fill]align][sign][#][0][width][,][.precision][type], as Python's format() reads it.
struct Form {
  char fill = ' ', align = 0, sign = '-', type = 0;
  bool alternate = false, comma = false;
  int64_t width = 0, precision = -1;
};
Form read_form(S s) {
  Form f;
  size_t i = 0;
  const auto is_align = [&](size_t k) { return k < s.size() && std::strchr("<>^=", s[k]); };
  const auto number = [&] {
    int64_t n = 0;
    for (; i < s.size() && digit(s[i]); ++i) n = std::min<int64_t>(n * 10 + (s[i] - '0'), 4096);
    return n;
  };
  if (is_align(1))
    f.fill = s[0], f.align = s[1], i = 2;
  else if (is_align(0))
    f.align = s[0], i = 1;
  if (i < s.size() && std::strchr("+- ", s[i])) f.sign = s[i++];
  if (i < s.size() && s[i] == '#') f.alternate = true, ++i;
  if (i < s.size() && s[i] == '0' && !f.align) f.fill = '0', f.align = '=', ++i;
  f.width = number();
  if (i < s.size() && s[i] == ',') f.comma = true, ++i;
  if (i < s.size() && s[i] == '.') ++i, f.precision = std::min<int64_t>(number(), 100);
  if (i < s.size()) f.type = s[i++];
  TESSERA_CHECK_VALUE(i == s.size(), "Invalid format specifier '", s, "'");
  return f;
}
// Thousands apart.
std::string with_commas(std::string digits) {
  const size_t end = std::min(digits.find_first_of(".eE%"), digits.size());
  for (size_t k = end; k > 3; k -= 3) digits.insert(k - 3, ",");
  return digits;
}
std::string in_base(uint64_t n, char type) {
  const unsigned base = type == 'b' ? 2 : type == 'o' ? 8 : type == 'x' || type == 'X' ? 16 : 10;
  std::string s;
  do s.insert(s.begin(), (type == 'X' ? "0123456789ABCDEF" : "0123456789abcdef")[n % base]);
  while (n /= base);
  return s;
}
// A number without its sign.
std::string digits_of(const Value& v, const Form& f) {
  std::string s;
  if (v.tag() != Tag::kDouble && !(f.type && std::strchr("eEfFgG%", f.type))) {
    TESSERA_CHECK_VALUE(!f.type || std::strchr("dboxXn", f.type), "Unknown format code '", f.type, "' for an int");
    const uint64_t n = static_cast<uint64_t>(v.integer());
    s = in_base(v.integer() < 0 ? 0 - n : n, f.type);
    if (f.alternate && f.type && std::strchr("boxX", f.type)) s = str_cat("0", f.type, s);
  } else {
    const double d = std::abs(v.number());
    if (!f.type && f.precision < 0) {
      s = to_text(Value::of(d));
    } else {
      TESSERA_CHECK_VALUE(!f.type || std::strchr("eEfFgGn%", f.type), "Unknown format code '", f.type, "' for a float");
      const char type = f.type == '%' ? 'f' : !f.type || f.type == 'n' ? 'g' : f.type;
      char room[512];
      const int size = std::snprintf(room, sizeof room, str_cat("%.*", type).c_str(),
                                     static_cast<int>(f.precision < 0 ? 6 : f.precision), f.type == '%' ? d * 100 : d);
      s.assign(room, std::min<size_t>(static_cast<size_t>(size), sizeof room - 1));
      if (f.type == '%') s += '%';
    }
  }
  return f.comma ? with_commas(std::move(s)) : s;
}
std::string formatted(const Value& given, bool repr, S spec) {
  if (repr || spec.empty()) {
    if (spec.empty()) return repr ? to_text(given, true) : shown(given);
    return formatted(Value::of(to_text(given, true)), false, spec);
  }
  const Form f = read_form(spec);
  const bool is_scalar = given.is_tensor() && given.tensor().dim() == 0 && !given.tensor().is_complex();
  const Value v = is_scalar ? Value::of(given.tensor().item_scalar()) : given;
  const bool is_number = (v.tag() == Tag::kBool && f.type) || v.tag() == Tag::kInt || v.tag() == Tag::kDouble;
  std::string sign, body;
  if (is_number) {
    const bool negative = v.tag() == Tag::kDouble ? std::signbit(v.number()) : v.tag() == Tag::kInt && v.integer() < 0;
    sign = negative ? "-" : f.sign == '-' ? "" : std::string(1, f.sign);
    body = digits_of(v.tag() == Tag::kBool ? Value::of(int64_t{v.boolean()}) : v, f);
  } else {
    TESSERA_CHECK_VALUE((!f.type || f.type == 's') && f.align != '=', "Unknown format code '", spec,
                        "' for a value of type ", type_of(v)->annotation());
    body = shown(v);
    if (f.precision >= 0) body.resize(std::min(body.size(), static_cast<size_t>(f.precision)));
  }
  const int64_t size = static_cast<int64_t>(sign.size() + body.size()), lack = std::max<int64_t>(f.width - size, 0);
  const char align = f.align ? f.align : is_number ? '>' : '<';
  const int64_t left = align == '<' ? 0 : align == '^' ? lack / 2 : lack;
  const std::string before(static_cast<size_t>(left), f.fill), after(static_cast<size_t>(lack - left), f.fill);
  return align == '=' ? sign + before + body : before + sign + body + after;
}
// "{} and {}".format(...)
void format(const Value* a, size_t n, Value* r, const Operator&) {
  const S f = a[0].string();
  std::string out;
  size_t used = 1, at = 0;
  while (at < f.size()) {
    if (f.substr(at, 2) == "{{" || f.substr(at, 2) == "}}") {
      out += f[at];
      at += 2;
      continue;
    }
    if (f[at] != '{') {
      out += f[at++];
      continue;
    }
    const size_t e = f.find('}', at);
    TESSERA_CHECK_VALUE(e != S::npos, "expected '}' before end of string");
    const S field = f.substr(at + 1, e - at - 1);
    const S spec = part_from(field, ':'), head = field.substr(0, field.size() - spec.size());
    const S conversion = part_from(head, '!'), place = head.substr(0, head.size() - conversion.size());
    TESSERA_CHECK(std::all_of(place.begin(), place.end(), digit) &&
                      (conversion.empty() || conversion == "!r" || conversion == "!s"),
                  "format(): only {}, {0}, !r, !s and specifications like {:>5} are known, got {", field, "}");
    const size_t k = place.empty() ? used++ : 1 + static_cast<size_t>(parse_int(place, 10));
    TESSERA_CHECK(k < n, "Too few arguments for format string: ", f);
    out += formatted(a[k], conversion == "!r", spec.substr(spec.empty() ? 0 : 1));
    at = e + 1;
  }
  r[0] = Value::of(std::move(out));
}
void percent(const Value* a, size_t n, Value* r, const Operator&) {
  const S f = a[0].string();
  std::vector<Value> given(a + 1, a + n);
  if (n == 2)
    if (const Object* o = object_of(a[1]); o && o->kind == ObjectKind::kTuple)
      given = static_cast<const Tuple*>(o)->items;
  std::string out;
  size_t used = 0;
  for (size_t at = 0; at < f.size(); ++at) {
    if (f[at] != '%') {
      out += f[at];
      continue;
    }
    TESSERA_CHECK(at + 1 < f.size(), "Incomplete format specifier");
    size_t e = at + 1;
    while (e < f.size() && std::strchr("0123456789.+- #", f[e])) ++e;
    const char c = e < f.size() ? f[e] : '%';
    if (c == '%') {
      out += '%', at = e;
      continue;
    }
    TESSERA_CHECK(used < given.size(), "Too few arguments for format string");
    const Value& v = given[used++];
    std::string spec(f.substr(at, e - at));
    char buffer[128];
    if (c == 's' || c == 'r') {
      out += c == 'r' ? to_text(v, true) : shown(v);
    } else if (c == 'c') {
      out += v.tag() == Tag::kInt ? std::string(1, static_cast<char>(v.integer())) : std::string(v.string());
    } else if (std::strchr("diuxXo", c)) {
      TESSERA_CHECK(v.tag() <= Tag::kDouble && v.tag() != Tag::kNone, "%", c,
                    " requires a number for formatting, but got ", type_of(v)->annotation());
      const long long i = v.tag() == Tag::kDouble ? static_cast<long long>(v.number()) : v.integer();
      std::snprintf(buffer, sizeof buffer, (spec + "ll" + (c == 'u' ? 'd' : c)).c_str(), i);
      out += buffer;
    } else if (std::strchr("eEfFgG", c)) {
      TESSERA_CHECK(v.tag() <= Tag::kDouble && v.tag() != Tag::kNone, "%", c,
                    " requires a number for formatting, but got ", type_of(v)->annotation());
      const int size = std::snprintf(buffer, sizeof buffer, (spec + c).c_str(), v.number());
      out.append(buffer, std::min<size_t>(static_cast<size_t>(size), sizeof buffer - 1));
    } else {
      TESSERA_CHECK(false, "The specifier %", c, " is not supported in TorchScript format strings");
    }
    at = e;
  }
  TESSERA_CHECK(used == given.size(), "Too many arguments for format string");
  r[0] = Value::of(std::move(out));
}
Value lines(S s, bool keep) {
  std::vector<Value> out;
  while (!s.empty()) {
    const size_t k = s.find_first_of("\n\r");
    const size_t end = k == S::npos ? s.size() : k;
    const size_t next = k == S::npos ? s.size() : k + (s.substr(k, 2) == "\r\n" ? 2 : 1);
    out.push_back(str(s.substr(0, keep ? next : end)));
    s = s.substr(next);
  }
  return strings(std::move(out));
}
Value partition(S s, S sep, bool last) {
  const size_t k = last ? s.rfind(sep) : s.find(sep);
  std::vector<Value> items;
  if (k != S::npos)
    items = {str(s.substr(0, k)), str(sep), str(s.substr(k + sep.size()))};
  else
    items = {str(last ? S() : s), str(""), str(last ? s : S())};
  return make_value<Tuple>(tuple_of({str_type(), str_type(), str_type()}), std::move(items));
}
void comparison(const Value* a, size_t, Value* r, const Operator& op) {
  const int c = a[0].string().compare(a[1].string());
  const S n = S(op.name).substr(6);
  r[0] = Value::of(n == "eq"   ? c == 0
                   : n == "ne" ? c != 0
                   : n == "lt" ? c < 0
                   : n == "le" ? c <= 0
                   : n == "gt" ? c > 0
                               : c >= 0);
}
bool identifier(S s) {
  return !s.empty() && !digit(s[0]) &&
         std::all_of(s.begin(), s.end(), [](char c) { return letter(c) || digit(c) || c == '_' || (c & 0x80); });
}
bool cased(S s, bool (*is)(char), bool (*is_not)(char)) {
  return std::any_of(s.begin(), s.end(), is) && std::none_of(s.begin(), s.end(), is_not);
}

#define TESSERA_PREDICATE(NAME, TEST) \
  { "aten::" NAME "(str self) -> bool", TESSERA_BUILTIN(const S s = a[0].string(); r[0] = Value::of(TEST)) }

constexpr BuiltinEntry kStrings[] = {
    {"aten::add.str(str a, str b) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(std::string(a[0].string()) += a[1].string()))},
    {"aten::mul.str(str a, int n) -> str",
     TESSERA_BUILTIN(std::string s; for (int64_t i = 0; i < a[1].integer(); ++i) s += a[0].string();
                     r[0] = Value::of(std::move(s)))},
    {"aten::eq.str(str a, str b) -> bool", comparison},
    {"aten::ne.str(str a, str b) -> bool", comparison},
    {"aten::lt.str(str a, str b) -> bool", comparison},
    {"aten::le.str(str a, str b) -> bool", comparison},
    {"aten::gt.str(str a, str b) -> bool", comparison},
    {"aten::ge.str(str a, str b) -> bool", comparison},
    {"aten::len.str(str s) -> int", TESSERA_BUILTIN(r[0] = Value::of(static_cast<int64_t>(a[0].string().size())))},
    {"aten::__getitem__.str(str s, int index) -> str",
     TESSERA_BUILTIN(
         const S s = a[0].string();
         r[0] = Value::of(std::string(1, s[static_cast<size_t>(wrap_index(a[1].integer(), s.size(), "string"))])))},
    {"aten::slice.str(str string, int? start=None, int? end=None, int step=1) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(slice_of(a[0].string(), a)))},
    {"aten::__contains__.str(str self, str item) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(a[0].string().find(a[1].string()) != S::npos))},
    {"aten::list(str t) -> str[]",
     TESSERA_BUILTIN(std::vector<Value> v; for (char c
                                                : a[0].string()) v.push_back(str(S(&c, 1)));
                     r[0] = strings(std::move(v)))},
    {"aten::str(t elem) -> str", TESSERA_BUILTIN(r[0] = Value::of(shown(a[0])))},
    {"aten::format(str self, ...) -> str", format},
    {"aten::percentFormat(str self, ...) -> str", percent},
    {"aten::ord(str string) -> int",
     TESSERA_BUILTIN(
         TESSERA_CHECK(a[0].string().size() == 1, "String for ord() must be 1 character, found ", a[0].string().size());
         r[0] = Value::of(static_cast<int64_t>(static_cast<unsigned char>(a[0].string()[0]))))},
    {"aten::chr(int i) -> str", TESSERA_BUILTIN(TESSERA_CHECK(a[0].integer() >= 0 && a[0].integer() < 256,
                                                              "chr() arg not in range(256), found ", a[0].integer());
                                                r[0] = Value::of(std::string(1, static_cast<char>(a[0].integer()))))},
    {"aten::Int.str(str a) -> int", TESSERA_BUILTIN(r[0] = Value::of(parse_int(a[0].string(), 10)))},
    {"aten::Float.str(str a) -> float", TESSERA_BUILTIN(r[0] = Value::of(parse_float(a[0].string())))},
    {"aten::Bool.str(str a) -> bool", TESSERA_BUILTIN(r[0] = Value::of(!a[0].string().empty()))},
    {"aten::upper(str self) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(mapped(a[0].string(), [](char c) { return lower(c) ? flip(c) : c; })))},
    {"aten::lower(str self) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(mapped(a[0].string(), [](char c) { return upper(c) ? flip(c) : c; })))},
    {"aten::swapcase(str self) -> str", TESSERA_BUILTIN(r[0] = Value::of(mapped(a[0].string(), flip)))},
    {"aten::capitalize(str self) -> str",
     TESSERA_BUILTIN(std::string s = mapped(a[0].string(), [](char c) { return upper(c) ? flip(c) : c; });
                     if (!s.empty() && lower(s[0])) s[0] = flip(s[0]); r[0] = Value::of(std::move(s)))},
    {"aten::title(str self) -> str", TESSERA_BUILTIN(r[0] = Value::of(title(a[0].string())))},
    TESSERA_PREDICATE("isdigit", every(s, digit)),
    TESSERA_PREDICATE("isdecimal", every(s, digit)),
    TESSERA_PREDICATE("isnumeric", every(s, digit)),
    TESSERA_PREDICATE("isalpha", every(s, letter)),
    TESSERA_PREDICATE("isalnum", every(s, [](char c) { return letter(c) || digit(c); })),
    TESSERA_PREDICATE("isspace", every(s, space)),
    TESSERA_PREDICATE("isupper", cased(s, upper, lower)),
    TESSERA_PREDICATE("islower", cased(s, lower, upper)),
    TESSERA_PREDICATE("istitle", std::any_of(s.begin(), s.end(), letter) && title(s) == s),
    TESSERA_PREDICATE("isidentifier", identifier(s)),
    TESSERA_PREDICATE("isprintable", std::all_of(s.begin(), s.end(), [](char c) { return c >= ' ' && c != 127; })),
    {"aten::startswith(str self, str substr, int start=0, int end=-1) -> bool",
     TESSERA_BUILTIN(r[0] = Value::of(
                         part(a[0].string(), a[2], a[3].integer() == -1 ? Value() : a[3]).starts_with(a[1].string())))},
    {"aten::endswith(str self, str substr, int start=0, int end=-1) -> bool",
     TESSERA_BUILTIN(
         r[0] = Value::of(part(a[0].string(), a[2], a[3].integer() == -1 ? Value() : a[3]).ends_with(a[1].string())))},
    {"aten::find(str self, str substr, int start=0, int? end=None) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(find_in(a, false)))},
    {"aten::rfind(str self, str substr, int start=0, int? end=None) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(find_in(a, true)))},
    {"aten::index.str(str self, str substr, int start=0, int? end=None) -> int",
     TESSERA_BUILTIN(r[0] = index_in(a, false))},
    {"aten::rindex(str self, str substr, int start=0, int? end=None) -> int",
     TESSERA_BUILTIN(r[0] = index_in(a, true))},
    {"aten::count(str self, str substr, int start=0, int? end=None) -> int",
     TESSERA_BUILTIN(r[0] = Value::of(occurrences(part(a[0].string(), a[2], a[3]), a[1].string())))},
    {"aten::replace(str self, str old, str new, int max=-1) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(replaced(a[0].string(), a[1].string(), a[2].string(), a[3].integer())))},
    {"aten::split.str(str self, str? separator=None, int max=-1) -> str[]",
     TESSERA_BUILTIN(r[0] = split(a[0].string(), a[1], a[2].integer(), false))},
    {"aten::rsplit(str self, str separator=\" \", int max=-1) -> str[]",
     TESSERA_BUILTIN(r[0] = split(a[0].string(), a[1], a[2].integer(), true))},
    {"aten::splitlines(str self, bool keepends=False) -> str[]",
     TESSERA_BUILTIN(r[0] = lines(a[0].string(), a[1].boolean()))},
    {"aten::join(str self, str[] values) -> str",
     TESSERA_BUILTIN(std::string s; bool first = true; for (const Value& v
                                                            : as<List>(a[1]).items) {
       if (!first) s += a[0].string();
       first = false;
       s += v.string();
     } r[0] = Value::of(std::move(s)))},
    {"aten::strip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
     TESSERA_BUILTIN(r[0] = str(strip(a[0].string(), a[1].string(), true, true)))},
    {"aten::lstrip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
     TESSERA_BUILTIN(r[0] = str(strip(a[0].string(), a[1].string(), true, false)))},
    {"aten::rstrip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
     TESSERA_BUILTIN(r[0] = str(strip(a[0].string(), a[1].string(), false, true)))},
    {"aten::center(str self, int width, str fillchar=\" \") -> str",
     TESSERA_BUILTIN(r[0] = Value::of(padded(a[0].string(), a[1].integer(), a[2].string(), 0)))},
    {"aten::ljust(str self, int width, str fillchar=\" \") -> str",
     TESSERA_BUILTIN(r[0] = Value::of(padded(a[0].string(), a[1].integer(), a[2].string(), -1)))},
    {"aten::rjust(str self, int width, str fillchar=\" \") -> str",
     TESSERA_BUILTIN(r[0] = Value::of(padded(a[0].string(), a[1].integer(), a[2].string(), 1)))},
    {"aten::zfill(str self, int width) -> str",
     TESSERA_BUILTIN(
         const S s = a[0].string(); const bool sign = !s.empty() && (s[0] == '-' || s[0] == '+');
         r[0] = Value::of(std::string(s.substr(0, sign)) + padded(s.substr(sign), a[1].integer() - sign, "0", 1)))},
    {"aten::expandtabs(str self, int tabsize=8) -> str",
     TESSERA_BUILTIN(r[0] = Value::of(expand_tabs(a[0].string(), a[1].integer())))},
    {"aten::partition(str self, str separator) -> (str, str, str)",
     TESSERA_BUILTIN(const Value t = partition(a[0].string(), a[1].string(), false);
                     for (int i = 0; i < 3; ++i) r[i] = as<Tuple>(t).items[static_cast<size_t>(i)])},
    {"aten::rpartition(str self, str separator) -> (str, str, str)",
     TESSERA_BUILTIN(const Value t = partition(a[0].string(), a[1].string(), true);
                     for (int i = 0; i < 3; ++i) r[i] = as<Tuple>(t).items[static_cast<size_t>(i)])},
};

}  // namespace

BuiltinTable string_builtins() { return {kStrings, std::size(kStrings)}; }

}  // namespace tessera::jit
