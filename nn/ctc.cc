// Connectionist temporal classification: checks and memory; the arithmetic is in nn/cpu/ctc.cc.
#include "nn/cpu/ctc.h"

#include <algorithm>
#include <vector>

#include "nn/loss_kernels.h"
#include "nn/nn_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/result_memory.h"

namespace tessera::kernels {
namespace {

void check_lengths(const char* name, IntList lengths, int64_t batch, int64_t most) {
  TESSERA_CHECK(static_cast<int64_t>(lengths.size()) == batch, name, " must be of size batch_size: expected ", batch,
                " values, but got ", lengths.size());
  for (int64_t n : lengths)
    TESSERA_CHECK(n >= 0 && n <= most, "Expected ", name, " to have value at most ", most,
                  " and at least 0, but got value ", n, " (while checking arguments for ctc_loss)");
}

int64_t longest(IntList lengths) { return lengths.empty() ? 0 : std::ranges::max(lengths); }

void check_sequences(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
                     int64_t blank) {
  TESSERA_CHECK(log_probs.dim() == 3, "ctc_loss: expected log_probs of shape (T, N, C), but got ",
                shape_string(log_probs.sizes()));
  TESSERA_CHECK(log_probs.dtype() == DType::kFloat32 || log_probs.dtype() == DType::kFloat64,
                "\"ctc_loss\" not implemented for '", type_name_of(log_probs.dtype()), "'");
  TESSERA_CHECK(is_integral(targets.dtype(), false), "ctc_loss: targets must be integral, but got ",
                name_of(targets.dtype()));
  TESSERA_CHECK(targets.device() == log_probs.device(), "ctc_loss: expected targets on ", log_probs.device().str(),
                ", but got ", targets.device().str());
  const int64_t batch = log_probs.size(1);
  TESSERA_CHECK(batch > 0, "ctc_loss: batch size must be nonzero");
  TESSERA_CHECK(blank >= 0 && blank < log_probs.size(2), "blank must be in label range: expected 0 to ",
                log_probs.size(2) - 1, ", but got ", blank);
  check_lengths("input_lengths", input_lengths, batch, log_probs.size(0));
  check_lengths("target_lengths", target_lengths, batch, INT32_MAX);
  if (targets.dim() == 1) {
    int64_t total = 0;
    for (int64_t n : target_lengths) total += n;
    TESSERA_CHECK(targets.numel() == total, "Expected targets of ", total,
                  " elements (the sum of target_lengths), but got ", targets.numel(),
                  " (while checking arguments for ctc_loss)");
  } else {
    TESSERA_CHECK(targets.dim() == 2 && targets.size(0) == batch && targets.size(1) >= longest(target_lengths),
                  "Expected targets of shape (", batch, ", at least ", longest(target_lengths), "), but got ",
                  shape_string(targets.sizes()), " (while checking arguments for ctc_loss)");
  }
}

// The batch as the engine wants it. Error for labels that are no classes.
class Sequences {
 public:
  Sequences(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
            int64_t blank)
      : labels_(contiguous(to(targets, DType::kInt64))) {
    const int64_t* next = labels_.numel() ? labels_.data<int64_t>() : nullptr;
    for (int64_t n : target_lengths) {
      for (int64_t i = 0; i < n; ++i)
        TESSERA_CHECK(next[i] >= 0 && next[i] < log_probs.size(2), "ctc_loss: a target is not a class: expected 0 to ",
                      log_probs.size(2) - 1, ", but got ", next[i]);
      rows_.push_back(next);
      next += labels_.dim() == 1 ? n : labels_.size(1);
    }
    batch_ = {log_probs.size(0), log_probs.size(1),    log_probs.size(2),    blank, 2 * longest(target_lengths) + 1,
              rows_.data(),      input_lengths.data(), target_lengths.data()};
  }
  const cpu::CtcBatch& batch() const { return batch_; }

 private:
  Tensor labels_;
  std::vector<const int64_t*> rows_;
  cpu::CtcBatch batch_;
};

const void* address(const Tensor& t) { return t.numel() ? t.data_ptr() : nullptr; }

}  // namespace

std::array<OutputSpec, 2> _ctc_loss_meta(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                                         IntList target_lengths, int64_t blank, bool) {
  check_sequences(log_probs, targets, input_lengths, target_lengths, blank);
  const int64_t batch = log_probs.size(1);
  return {OutputSpec(log_probs, IntVector{batch}),
          OutputSpec(log_probs, IntVector{batch, log_probs.size(0), 2 * longest(target_lengths) + 1})};
}
void _ctc_loss_kernel(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
                      int64_t blank, bool, const Tensor& loss, const Tensor& log_alpha) {
  TESSERA_CHECK_NOT_IMPLEMENTED(log_probs.is_cpu(), "_ctc_loss: there is no kernel for ", log_probs.device().str());
  const Tensor x = contiguous(log_probs);
  const Sequences s(x, targets, input_lengths, target_lengths, blank);
  const ResultMemory to_loss(loss), to_alpha(log_alpha);
  cpu::ctc_forward(x.dtype(), s.batch(), address(x), to_loss.data(), to_alpha.data());
  to_loss.finish();
  to_alpha.finish();
}

OutputSpec _ctc_loss_backward_meta(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                                   IntList input_lengths, IntList target_lengths, const Tensor& neg_log_likelihood,
                                   const Tensor& log_alpha, int64_t blank, bool zero_infinity) {
  const auto results = _ctc_loss_meta(log_probs, targets, input_lengths, target_lengths, blank, zero_infinity);
  const std::tuple<const char*, const Tensor*, IntVector> expected[] = {
      {"grad", &grad, results[0].sizes},
      {"neg_log_likelihood", &neg_log_likelihood, results[0].sizes},
      {"log_alpha", &log_alpha, results[1].sizes}};
  for (const auto& [name, t, sizes] : expected) {
    TESSERA_CHECK(to_vector(t->sizes()) == sizes, "_ctc_loss_backward: expected ", name, " of shape ",
                  shape_string(sizes), ", but got ", shape_string(t->sizes()));
    TESSERA_CHECK(t->dtype() == log_probs.dtype(), "_ctc_loss_backward: expected ", name, " to be of dtype ",
                  name_of(log_probs.dtype()), ", but got ", name_of(t->dtype()));
  }
  return OutputSpec(log_probs, log_probs.sizes());
}
void _ctc_loss_backward_kernel(const Tensor& grad, const Tensor& log_probs, const Tensor& targets,
                               IntList input_lengths, IntList target_lengths, const Tensor& neg_log_likelihood,
                               const Tensor& log_alpha, int64_t blank, bool zero_infinity, const Tensor& out) {
  TESSERA_CHECK_NOT_IMPLEMENTED(log_probs.is_cpu(), "_ctc_loss_backward: there is no kernel for ",
                                log_probs.device().str());
  const Tensor x = contiguous(log_probs), loss = contiguous(neg_log_likelihood), alpha = contiguous(log_alpha);
  const Sequences s(x, targets, input_lengths, target_lengths, blank);
  const ResultMemory y(out);
  cpu::ctc_backward(x.dtype(), s.batch(), address(x), address(loss), address(alpha), address(grad), grad.strides()[0],
                    zero_infinity, y.data());
  y.finish();
}

}  // namespace tessera::kernels
