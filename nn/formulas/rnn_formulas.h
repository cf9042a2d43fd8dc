// Derivatives of recurrent layers.
#pragma once

#include <array>
#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::autograd::formulas {

// Gradients of gates, h0, c0, w_hh, b_hh and w_hr of nn's _rnn_layer. With gradients recorded (create_graph) they are
// computed of other operators step by step, so that they can be differentiated again.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> rnn_layer_backward(
    const Tensor& grad_output, const Tensor& grad_h_n, const Tensor& grad_c_n, const Tensor& gates, const Tensor& h0,
    const Tensor& c0, const Tensor& w_hh, const Tensor& b_hh, const Tensor& w_hr, const Tensor& output,
    const Tensor& values, const Tensor& extra, int64_t kind, bool reverse, IntList batch_sizes,
    std::array<bool, 6> mask);

}  // namespace tessera::autograd::formulas
