// C++ exceptions as Python's: a source of every extension module.
#pragma once

#include "python/bindings/common.h"
#include "tensor/core/error.h"

namespace tessera::python {

// A Python exception on its way through C++ that may run without the GIL or on another thread (a hook that failed in
// backward).
class PythonError : public Error {
 public:
  PythonError();  // takes the exception that is set
  ~PythonError() override;
  PythonError(const PythonError& o);
  void restore() const;

 private:
  PyObject* type_ = nullptr;
  PyObject* value_ = nullptr;
  PyObject* trace_ = nullptr;
};

// Exception classes that Python does not have: tessera._C makes them, each extension module says how it gets at them.
enum class ErrorClass { kLinAlg, kOutOfMemory, kAccelerator };
Ref error_class(ErrorClass which);

}  // namespace tessera::python
