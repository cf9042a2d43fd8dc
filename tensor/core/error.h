// The exceptions of the public API. The Python binding turns each into the Python exception of the same name.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>

namespace tessera {

// RuntimeError in Python; the base of all errors that the library throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};
class IndexError : public Error {
 public:
  using Error::Error;
};
class ValueError : public Error {
 public:
  using Error::Error;
};
class TypeError : public Error {
 public:
  using Error::Error;
};
class NotImplementedError : public Error {
 public:
  using Error::Error;
};  // a RuntimeError in Python too
class LinAlgError : public Error {
 public:
  using Error::Error;
};  // torch.linalg.LinAlgError
class OutOfMemoryError : public Error {
 public:
  using Error::Error;
};
class OverflowError : public Error {
 public:
  using Error::Error;
};
class BufferError : public Error {
 public:
  using Error::Error;
};
class AssertionError : public Error {
 public:
  using Error::Error;
};

namespace internal {
// A part of a message. Pieces keep messages out of the way: a check's code is an array of them and one call, whatever
// it says; and a stream would bring all locales of the C++ library into a static program (0.6 MB). Numbers look as a
// stream shows them.
class Piece {
 public:
  Piece(const char* s) : text_(s), kind_(Kind::kText) {}
  Piece(std::string_view s) : text_(s), kind_(Kind::kText) {}
  Piece(const std::string& s) : text_(s), kind_(Kind::kText) {}
  Piece(char c) : int_(c), kind_(Kind::kChar) {}
  template <class T>
  requires std::is_integral_v<T> Piece(T v)
      : int_(static_cast<int64_t>(v)), kind_(std::is_signed_v<T> ? Kind::kInt : Kind::kUInt) {}
  template <class T>
  requires std::is_floating_point_v<T> Piece(T v) : double_(static_cast<double>(v)), kind_(Kind::kDouble) {}
  void append_to(std::string* s) const;

 private:
  enum class Kind : uint8_t { kText, kChar, kInt, kUInt, kDouble };
  union {
    std::string_view text_;
    int64_t int_;
    double double_;
  };
  Kind kind_;
};
std::string concatenate(std::initializer_list<Piece> pieces);

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void raise_pieces(std::initializer_list<Piece> pieces) {
  throw E(concatenate(pieces));
}
template <class E, class... A>
[[noreturn, gnu::always_inline]] inline void raise(const A&... a) {
  raise_pieces<E>({Piece(a)...});
}
[[noreturn]] void throw_error(std::string message);  // Error
}  // namespace internal

template <class... A>
[[gnu::always_inline]] inline std::string str_cat(const A&... a) {
  return internal::concatenate({internal::Piece(a)...});
}

// TESSERA_CHECK(cond, parts...) throws Error (RuntimeError); the others throw the named type. The message is only built
// on failure.
#define TESSERA_CHECK_AS(E, cond, ...)                       \
  do {                                                       \
    if (!(cond)) [[unlikely]]                                \
      ::tessera::internal::raise<::tessera::E>(__VA_ARGS__); \
  } while (0)
#define TESSERA_CHECK(cond, ...) TESSERA_CHECK_AS(Error, cond, __VA_ARGS__)
#define TESSERA_CHECK_INDEX(cond, ...) TESSERA_CHECK_AS(IndexError, cond, __VA_ARGS__)
#define TESSERA_CHECK_VALUE(cond, ...) TESSERA_CHECK_AS(ValueError, cond, __VA_ARGS__)
#define TESSERA_CHECK_TYPE(cond, ...) TESSERA_CHECK_AS(TypeError, cond, __VA_ARGS__)
#define TESSERA_CHECK_NOT_IMPLEMENTED(cond, ...) TESSERA_CHECK_AS(NotImplementedError, cond, __VA_ARGS__)

}  // namespace tessera
