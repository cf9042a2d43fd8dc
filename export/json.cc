#include "export/json.h"

#include <charconv>

#include "tensor/core/error.h"

namespace tessera::exported {
namespace {

constexpr int kMaxDepth = 256;
constexpr const char* kKindNames[] = {"null", "a bool", "an int", "a number", "a string", "a list", "an object"};

void append_utf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    *out += static_cast<char>(c);
    return;
  }
  const int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  constexpr uint8_t kFirst[] = {0, 0xc0, 0xe0, 0xf0};
  *out += static_cast<char>(kFirst[more] | c >> 6 * more);
  for (int i = more - 1; i >= 0; --i) *out += static_cast<char>(0x80 | (c >> 6 * i & 0x3f));
}

}  // namespace

class JsonParser {
 public:
  explicit JsonParser(JsonDocument* d) : d_(*d), at_(d->text_.data()), end_(at_ + d->text_.size()) {}

  void document() {
    value({}, 0);
    spaces();
    if (at_ != end_) fail("something follows the value");
  }

 private:
  [[noreturn]] void fail(const char* reason) const {
    throw Error(str_cat("no JSON: ", reason, " at byte ", at_ - d_.text_.data()));
  }
  void spaces() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  bool accept(char c) {
    spaces();
    if (at_ == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  void word(std::string_view w) {
    if (!std::string_view(at_, static_cast<size_t>(end_ - at_)).starts_with(w)) fail("an unknown word");
    at_ += w.size();
  }

  void value(std::string_view key, int depth) {
    if (depth > kMaxDepth) fail("values are nested too deeply");
    spaces();
    if (at_ == end_) fail("a value is missing");
    const size_t index = d_.nodes_.size();
    d_.nodes_.emplace_back().key = key;
    JsonDocument::Node node;
    node.key = key;
    switch (*at_) {
      case '{':
      case '[':
        node.kind = *at_ == '{' ? JsonKind::kObject : JsonKind::kList;
        node.count = container(*at_ == '{', depth);
        break;
      case '"':
        node.kind = JsonKind::kString;
        node.text = string();
        break;
      case 't':
      case 'f':
        node.kind = JsonKind::kBool;
        node.integer = *at_ == 't';
        word(*at_ == 't' ? "true" : "false");
        break;
      case 'n':
        word("null");
        break;
      default:
        number(&node);
    }
    node.end = static_cast<uint32_t>(d_.nodes_.size());
    d_.nodes_[index] = node;
  }

  uint32_t container(bool object, int depth) {
    const char close = object ? '}' : ']';
    ++at_;
    if (accept(close)) return 0;
    uint32_t count = 0;
    do {
      std::string_view key;
      if (object) {
        spaces();
        if (at_ == end_ || *at_ != '"') fail("expected a member's name");
        key = string();
        if (!accept(':')) fail("expected ':'");
      }
      value(key, depth + 1);
      ++count;
    } while (accept(','));
    if (!accept(close)) fail(object ? "expected ',' or '}'" : "expected ',' or ']'");
    return count;
  }

  std::string_view string() {
    const char* begin = ++at_;
    for (; at_ != end_ && *at_ != '"' && *at_ != '\\'; ++at_)
      if (static_cast<uint8_t>(*at_) < 0x20) fail("a control character in a string");
    if (at_ != end_ && *at_ == '"') return {begin, static_cast<size_t>(at_++ - begin)};
    std::string text(begin, at_);
    while (at_ != end_ && *at_ != '"') {
      if (static_cast<uint8_t>(*at_) < 0x20) fail("a control character in a string");
      if (*at_ != '\\')
        text += *at_++;
      else
        escape(&text);
    }
    if (at_ == end_) fail("a string without an end");
    ++at_;
    return d_.unescaped_.emplace_back(std::move(text));
  }

  void escape(std::string* out) {
    if (++at_ == end_) fail("a string without an end");
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char c = *at_++;
    if (const size_t i = kLetters.find(c); i != std::string_view::npos) {
      *out += kMeant[i];
      return;
    }
    if (c != 'u') fail("an unknown escape");
    uint32_t code = hexadecimal();
    if (code >= 0xdc00 && code < 0xe000) fail("half of a character");
    if (code >= 0xd800 && code < 0xdc00) {
      if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u') fail("half of a character");
      at_ += 2;
      const uint32_t low = hexadecimal();
      if (low < 0xdc00 || low >= 0xe000) fail("half of a character");
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    append_utf8(code, out);
  }
  uint32_t hexadecimal() {
    uint32_t code = 0;
    if (end_ - at_ < 4 || std::from_chars(at_, at_ + 4, code, 16).ptr != at_ + 4) fail("expected four digits");
    at_ += 4;
    return code;
  }

  void number(JsonDocument::Node* node) {
    const char* begin = at_;
    bool whole = true;
    if (*at_ == '-') ++at_;
    const char* first = at_;
    digits();
    if (*first == '0' && at_ - first > 1) fail("a number that begins with 0");
    if (at_ != end_ && *at_ == '.') whole = false, ++at_, digits();
    if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
      whole = false;
      if (++at_ != end_ && (*at_ == '+' || *at_ == '-')) ++at_;
      digits();
    }
    node->kind = whole ? JsonKind::kInt : JsonKind::kFloat;
    const std::errc error =
        whole ? std::from_chars(begin, at_, node->integer).ec : std::from_chars(begin, at_, node->number).ec;
    if (error != std::errc()) fail("a number out of range");
  }
  void digits() {
    const char* begin = at_;
    while (at_ != end_ && *at_ >= '0' && *at_ <= '9') ++at_;
    if (at_ == begin) fail("expected a value");
  }

  JsonDocument& d_;
  const char* at_;
  const char* end_;
};

JsonDocument::JsonDocument(std::string text) : text_(std::move(text)) {
  TESSERA_CHECK(text_.size() < (uint64_t{1} << 31), "no JSON: the text is too long");
  JsonParser(this).document();
}

JsonKind Json::kind() const { return document_->nodes_[at_].kind; }
const Json& Json::expect(JsonKind k) const {
  if (kind() != k) [[unlikely]]
    throw Error(str_cat("expected ", kKindNames[static_cast<int>(k)], " as ", key(), ", got ",
                        kKindNames[static_cast<int>(kind())]));
  return *this;
}
bool Json::boolean() const { return expect(JsonKind::kBool).document_->nodes_[at_].integer != 0; }
int64_t Json::integer() const { return expect(JsonKind::kInt).document_->nodes_[at_].integer; }
double Json::number() const {
  return is(JsonKind::kInt) ? static_cast<double>(integer()) : expect(JsonKind::kFloat).document_->nodes_[at_].number;
}
std::string_view Json::text() const { return expect(JsonKind::kString).document_->nodes_[at_].text; }

Json::Iterator& Json::Iterator::operator++() {
  at_ = document_->nodes_[at_].end;
  return *this;
}
Json::Iterator Json::begin() const {
  if (!is(JsonKind::kObject)) expect(JsonKind::kList);
  return {document_, at_ + 1};
}
Json::Iterator Json::end() const { return {document_, document_->nodes_[at_].end}; }
size_t Json::size() const { return document_->nodes_[at_].count; }
std::string_view Json::key() const { return document_->nodes_[at_].key; }

uint32_t Json::find(std::string_view key) const {
  for (const Json member : expect(JsonKind::kObject))
    if (member.key() == key) return member.at_;
  return 0;
}
bool Json::has(std::string_view key) const { return find(key) != 0; }
Json Json::operator[](std::string_view key) const {
  const uint32_t found = find(key);
  TESSERA_CHECK(found, "the member ", key, " is missing", this->key().empty() ? "" : " in ", this->key());
  return Json(document_, found);
}
Json Json::only() const {
  expect(JsonKind::kObject);
  TESSERA_CHECK(size() == 1, "expected one member in ", key(), ", got ", size());
  return *begin();
}

}  // namespace tessera::exported
