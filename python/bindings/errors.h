// Exceptions between the languages.
#pragma once

#include "python/bindings/common.h"

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

// Makes LinAlgError and OutOfMemoryError, and installs the warning handler.
void init_errors(PyObject* module);

}  // namespace tessera::python
