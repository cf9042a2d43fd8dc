// What a device reports.
#pragma once

#include <string>

#include "tensor/core/error.h"

namespace tessera {

// torch.AcceleratorError: a RuntimeError with the number that the device's runtime gave.
class AcceleratorError : public Error {
 public:
  AcceleratorError(const std::string& what, int code) : Error(what), code_(code) {}
  int code() const { return code_; }

 private:
  int code_;
};

}  // namespace tessera
