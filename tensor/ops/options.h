// What holds for every op that takes layout=, pin_memory=, sparse= or sparse_grad=. opgen writes the calls for the
// first two.
#pragma once

#include <optional>

#include "tensor/core/tensor.h"

namespace tessera::options {

// NotImplementedError unless a tensor of this layout can be made: strided, or not given.
void check_layout(const char* op, std::optional<Layout> layout);

// RuntimeError if the dtype or device given beside out= is not out's, or a memory format is given.
void check_out(const Tensor& out, std::optional<DType> dtype, std::optional<Device> device,
               std::optional<MemoryFormat> format = {});

// A CPU tensor's elements in pinned memory: t itself if they are there. RuntimeError for other devices, and without an
// accelerator.
Tensor pinned(const Tensor& t);
inline Tensor pinned(Tensor t, std::optional<bool> wanted) { return wanted.value_or(false) ? pinned(t) : t; }

// NotImplementedError if `argument` asks for a sparse gradient of `of`, and that will get a gradient.
void check_gradient_layout(const char* op, const char* argument, bool sparse, const Tensor& of);

}  // namespace tessera::options
