// JSON (RFC 8259), read with no trust in the text: the files of exported programs are made of it.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::exported {

enum class JsonKind : uint8_t { kNull, kBool, kInt, kFloat, kString, kList, kObject };

class JsonDocument;

// A value of a document, which outlives it. Reading it as another kind than it is: Error, which names the member.
class Json {
 public:
  JsonKind kind() const;
  bool is(JsonKind k) const { return kind() == k; }
  bool is_null() const { return is(JsonKind::kNull); }
  bool boolean() const;
  int64_t integer() const;
  double number() const;  // ints, too
  std::string_view text() const;

  // Lists and objects: their values in order.
  class Iterator {
   public:
    Iterator(const JsonDocument* d, uint32_t at) : document_(d), at_(at) {}
    Json operator*() const { return Json(document_, at_); }
    Iterator& operator++();
    bool operator!=(const Iterator& o) const { return at_ != o.at_; }

   private:
    const JsonDocument* document_;
    uint32_t at_;
  };
  Iterator begin() const;
  Iterator end() const;
  size_t size() const;
  std::string_view key() const;  // under which it stands in its object
  bool has(std::string_view key) const;
  Json operator[](std::string_view key) const;  // Error if the object has no such member
  // The only member of an object such as {"as_int": 3}. Error for others.
  Json only() const;

 private:
  friend class JsonDocument;
  Json(const JsonDocument* d, uint32_t at) : document_(d), at_(at) {}
  uint32_t find(std::string_view key) const;  // 0: there is none
  const Json& expect(JsonKind k) const;

  const JsonDocument* document_;
  uint32_t at_;
};

class JsonDocument {
 public:
  // Error with the place for what is no JSON, nests deeper than 256, or has an int of more than 64 bits.
  explicit JsonDocument(std::string text);
  JsonDocument(const JsonDocument&) = delete;
  Json root() const { return Json(this, 0); }

 private:
  friend class Json;
  friend class JsonParser;
  // A value and all that is in it are neighbours: the values inside begin behind it and end at `end`.
  struct Node {
    JsonKind kind = JsonKind::kNull;
    uint32_t end = 0, count = 0;
    std::string_view key, text;
    union {
      int64_t integer = 0;
      double number;
    };
  };

  std::string text_;
  std::deque<std::string> unescaped_;  // strings that stand in the text in another form
  std::vector<Node> nodes_;
};

}  // namespace tessera::exported
