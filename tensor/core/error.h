// The exceptions of the public API. The Python binding turns each into the Python exception of the same name.
#pragma once

#include <sstream>
#include <stdexcept>
#include <string>

namespace tessera {

// RuntimeError in Python; the base of all errors that the library throws.
class Error : public std::runtime_error { public: using std::runtime_error::runtime_error; };
class IndexError : public Error { public: using Error::Error; };
class ValueError : public Error { public: using Error::Error; };
class TypeError : public Error { public: using Error::Error; };
class NotImplementedError : public Error { public: using Error::Error; };   // a RuntimeError in Python too
class LinAlgError : public Error { public: using Error::Error; };           // torch.linalg.LinAlgError
class OutOfMemoryError : public Error { public: using Error::Error; };
class OverflowError : public Error { public: using Error::Error; };
class BufferError : public Error { public: using Error::Error; };
class AssertionError : public Error { public: using Error::Error; };

template <class... A>
std::string str_cat(const A&... a) {
  std::ostringstream s;
  (s << ... << a);
  return s.str();
}

namespace internal {
[[noreturn]] void throw_error(std::string message);            // Error
template <class E, class... A> [[noreturn, gnu::cold, gnu::noinline]] void raise(const A&... a) { throw E(str_cat(a...)); }
}  // namespace internal

// TESSERA_CHECK(cond, parts...) throws Error (RuntimeError); the others throw the named type. The message is only built on failure.
#define TESSERA_CHECK_AS(E, cond, ...) \
  do { if (!(cond)) [[unlikely]] ::tessera::internal::raise<::tessera::E>(__VA_ARGS__); } while (0)
#define TESSERA_CHECK(cond, ...) TESSERA_CHECK_AS(Error, cond, __VA_ARGS__)
#define TESSERA_CHECK_INDEX(cond, ...) TESSERA_CHECK_AS(IndexError, cond, __VA_ARGS__)
#define TESSERA_CHECK_VALUE(cond, ...) TESSERA_CHECK_AS(ValueError, cond, __VA_ARGS__)
#define TESSERA_CHECK_TYPE(cond, ...) TESSERA_CHECK_AS(TypeError, cond, __VA_ARGS__)
#define TESSERA_CHECK_NOT_IMPLEMENTED(cond, ...) TESSERA_CHECK_AS(NotImplementedError, cond, __VA_ARGS__)

}  // namespace tessera
