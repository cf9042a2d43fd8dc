// Memory of other Python objects.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "python/bindings/common.h"

namespace tessera::python {

// The bytes of an object with the buffer protocol, as long as this lives. Made and destroyed with Python's lock.
class Buffer {
 public:
  Buffer(PyObject* o, int flags) { check(PyObject_GetBuffer(o, &view_, flags)); }
  ~Buffer() { PyBuffer_Release(&view_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  // Null, and no exception, where the object has none of that kind.
  static std::unique_ptr<Buffer> find(PyObject* o, int flags) {
    try {
      return std::make_unique<Buffer>(o, flags);
    } catch (const ErrorAlreadySet&) {
      PyErr_Clear();
      return nullptr;
    }
  }
  std::span<uint8_t> bytes() const { return {static_cast<uint8_t*>(view_.buf), static_cast<size_t>(view_.len)}; }
  int64_t size() const { return view_.len; }

 private:
  Py_buffer view_;
};

}  // namespace tessera::python
