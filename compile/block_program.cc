#include "compile/block_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/core/parallel.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/ops/pointwise_observer.h"

namespace tessera::compile {
namespace {

constexpr int64_t kBlock = 1024;         // elements, at most
constexpr int64_t kScratch = 48 * 1024;  // bytes for all slots of a thread
constexpr size_t kMostTensors = 24, kMostOutputs = 8, kMostParams = 4, kMostValues = 64;

// Sees the calls, and lets go of what a call of Meta tensors needs of the thread.
class OneCall final : public pointwise::Observer {
 public:
  OneCall() {
    pointwise::observer = this;
    thread_state.included = 0;
    thread_state.grad_enabled = false;
  }
  ~OneCall() {
    pointwise::observer = outer_;
    thread_state = state_;
  }
  void saw(const PointwiseOp& op, pointwise::Inputs inputs, pointwise::Params params, const Tensor& result) override {
    ++count;
    op_ = &op, result_ = result;
    inputs_.clear();
    for (const Tensor* t : inputs) inputs_.push_back(*t);
    params_.assign(params.begin(), params.end());
  }
  std::optional<PointwiseCall> call(std::span<const Tensor> given, const Tensor& result) const {
    if (count != 1 || !result.is_same(result_) || op_->num_outputs != 1 || op_->bool_inputs ||
        op_->result != ResultKind::kSame || result.dtype() != given[0].dtype() || params_.size() > kMostParams)
      return {};
    PointwiseCall c{op_, {}, {}, params_};
    for (const Tensor& t : inputs_) {
      const auto at = std::ranges::find_if(given, [&](const Tensor& g) { return g.is_same(t); });
      if (at != given.end()) {
        c.inputs.push_back(static_cast<int>(at - given.begin()));
      } else if (t.is_cpu() && t.dim() == 0 && !t.is_complex()) {
        c.inputs.push_back(~static_cast<int>(c.numbers.size()));
        c.numbers.push_back(t.item_scalar());
      } else {
        return {};
      }
    }
    return c;
  }
  int count = 0;

 private:
  pointwise::Observer* outer_ = pointwise::observer;
  const ThreadState state_ = thread_state;
  const PointwiseOp* op_ = nullptr;
  std::vector<Tensor> inputs_;
  std::vector<Scalar> params_;
  Tensor result_;
};

std::optional<PointwiseCall> observed(const std::function<Tensor(std::span<const Tensor>)>& run, size_t n, DType d) {
  constexpr int64_t sizes[] = {2, 3};
  std::vector<Tensor> given;
  for (size_t k = 0; k < n; ++k) given.push_back(empty_tensor(sizes, {}, d, Device(DeviceType::kMeta)));
  OneCall look;
  try {
    return look.call(given, run(given));
  } catch (const std::exception&) { return {}; }
}
bool same_numbers(const std::vector<Scalar>& a, const std::vector<Scalar>& b) {
  return std::ranges::equal(
      a, b, {}, [](const Scalar& s) { return s.to_double(); }, [](const Scalar& s) { return s.to_double(); });
}

// In memory of the CPU, and no layer asks for it.
bool is_plain(const Tensor& t) {
  return (t.keys().bits() & ~(DispatchKeySet(DispatchKey::kCPU) | kAutogradKeys).bits()) == 0;
}
void repeat(double value, DType d, char* to, int64_t n) {
  if (d == DType::kFloat32)
    std::fill_n(reinterpret_cast<float*>(to), n, static_cast<float>(value));
  else
    std::fill_n(reinterpret_cast<double*>(to), n, value);
}

}  // namespace

std::optional<PointwiseCall> observe(const std::function<Tensor(std::span<const Tensor>)>& run, size_t tensors) {
  if (!tensors) return {};
  const auto narrow = observed(run, tensors, DType::kFloat32), wide = observed(run, tensors, DType::kFloat64);
  if (!narrow || !wide || narrow->op != wide->op || narrow->inputs != wide->inputs ||
      !same_numbers(narrow->numbers, wide->numbers) || !same_numbers(narrow->params, wide->params))
    return {};
  for (const DType d : {DType::kFloat32, DType::kFloat64})
    if (!narrow->op->kernels[static_cast<int>(d)]) return {};
  return narrow;
}

int BlockProgram::input(int tensor, int part, int parts) {
  Value v;
  v.tensor = tensor, v.part = part, v.parts = parts;
  values_.push_back(std::move(v));
  return static_cast<int>(values_.size()) - 1;
}
int BlockProgram::number(const Scalar& s) {
  Value v;
  v.constant = s.to_double();
  values_.push_back(std::move(v));
  return static_cast<int>(values_.size()) - 1;
}
int BlockProgram::call(const PointwiseCall& c, std::span<const int> tensors) {
  Value v;
  v.op = c.op;
  for (const int k : c.inputs)
    v.inputs.push_back(k >= 0 ? tensors[static_cast<size_t>(k)] : number(c.numbers[static_cast<size_t>(~k)]));
  for (const Scalar& s : c.params) v.params.push_back(s.to_double());
  values_.push_back(std::move(v));
  ++calls_;
  return static_cast<int>(values_.size()) - 1;
}

void BlockProgram::finish() {
  std::vector<size_t> last(values_.size());
  for (size_t i = 0; i < values_.size(); ++i) {
    last[i] = values_[i].op ? i : values_.size();  // what is no result of a call is there for all blocks
    for (const int k : values_[i].inputs) last[static_cast<size_t>(k)] = std::max(last[static_cast<size_t>(k)], i);
  }
  for (size_t k = 0; k < outputs_.size(); ++k) values_[static_cast<size_t>(outputs_[k])].result = static_cast<int>(k);
  std::vector<int> free;
  for (size_t i = 0; i < values_.size(); ++i) {
    Value& v = values_[i];
    std::vector<int> done = v.inputs;
    std::ranges::sort(done);
    done.erase(std::unique(done.begin(), done.end()), done.end());
    for (const int k : done)  // a kernel may write where it reads
      if (const Value& in = values_[static_cast<size_t>(k)]; in.slot >= 0 && last[static_cast<size_t>(k)] == i)
        free.push_back(in.slot);
    if (v.result >= 0) continue;
    if (!v.op || free.empty()) {  // a number is written once, before the first call
      v.slot = slots_++;
      continue;
    }
    v.slot = free.back();
    free.pop_back();
  }
}

// What one run is over.
struct BlockProgram::Call {
  DType dtype;
  IntList sizes;
  int64_t n, columns, item;  // elements; of a row; bytes of one
  const char* data[kMostTensors];
  bool is_number[kMostTensors];
  double numbers[kMostTensors];
  char* out[kMostOutputs];
};

bool BlockProgram::prepare(std::span<const Tensor* const> tensors, Call* c) const {
  if (thread_state.included || tensors.empty() || tensors.size() > kMostTensors || outputs_.size() > kMostOutputs ||
      values_.size() > kMostValues)
    return false;
  for (const Tensor* t : tensors)
    if (!t->defined() || !is_plain(*t) || (thread_state.grad_enabled && t->requires_grad())) return false;
  // the tensor that gives the shape
  const Value* giver = nullptr;
  for (const Value& v : values_)
    if (v.tensor >= 0 &&
        (!giver || tensors[static_cast<size_t>(v.tensor)]->dim() > tensors[static_cast<size_t>(giver->tensor)]->dim()))
      giver = &v;
  if (!giver) return false;
  const Tensor& shape = *tensors[static_cast<size_t>(giver->tensor)];
  c->dtype = shape.dtype();
  if (c->dtype != DType::kFloat32 && c->dtype != DType::kFloat64) return false;
  for (size_t k = 0; k < tensors.size(); ++k) {
    const Tensor& t = *tensors[k];
    c->is_number[k] = t.dim() < shape.dim() || (t.impl()->is_wrapped_number() && !shape.impl()->is_wrapped_number());
    if (c->is_number[k]) {
      if (t.dim() != 0 || t.is_complex()) return false;
      c->numbers[k] = t.item_scalar().to_double();
      if (std::abs(c->numbers[k]) > 9007199254740992.0) return false;  // rounded already
    } else {
      if (t.dtype() != c->dtype || !t.is_contiguous() || t.impl()->is_wrapped_number()) return false;
      c->data[k] = static_cast<const char*>(t.data_ptr());
    }
  }
  const IntList whole = shape.sizes();
  const int64_t width = whole.empty() ? 1 : whole.back();
  c->columns = width / giver->parts;
  c->n = shape.numel() / giver->parts;
  if (c->n == 0 || (giver->parts > 1 && (whole.empty() || width % giver->parts))) return false;
  for (const Value& v : values_) {
    if (v.tensor < 0) continue;
    if (c->is_number[v.tensor]) {
      if (v.parts > 1) return false;
      continue;
    }
    const IntList own = tensors[static_cast<size_t>(v.tensor)]->sizes();
    if (own.size() != whole.size() || (!own.empty() && own.back() != c->columns * v.parts) ||
        !std::equal(own.begin(), own.end() - (own.empty() ? 0 : 1), whole.begin()))
      return false;
  }
  c->sizes = whole;
  c->item = item_size(c->dtype);
  return true;
}

bool BlockProgram::run(std::span<const Tensor* const> tensors, Tensor* results) const {
  Call c;
  if (!prepare(tensors, &c)) return false;
  IntVector sizes(c.sizes.begin(), c.sizes.end());
  if (!sizes.empty()) sizes.back() = c.columns;
  for (size_t k = 0; k < outputs_.size(); ++k) {
    results[k] = empty_kernel(sizes, c.dtype);
    c.out[k] = static_cast<char*>(results[k].data_ptr());
  }
  // Blocks of a size that depends on the program alone: results do not depend on it anyway.
  int64_t block = kBlock;
  while (block > 16 && block * c.item * slots_ > kScratch) block /= 2;
  const auto piece = [&](int64_t begin, int64_t end) {
    alignas(64) char scratch[kScratch];
    const char* at[kMostValues];
    const int64_t slot = (std::min(block, end - begin) * c.item + 63) / 64 * 64;
    for (size_t i = 0; i < values_.size(); ++i) {
      const Value& v = values_[i];
      const bool number = !v.op && (v.tensor < 0 || c.is_number[v.tensor]);
      if (!number) continue;
      char* to = scratch + v.slot * slot;
      repeat(v.tensor < 0 ? v.constant : c.numbers[v.tensor], c.dtype, to, std::min(block, end - begin));
      at[i] = to;
    }
    for (int64_t b = begin; b < end; b += block) {
      const int64_t n = std::min(block, end - b);
      for (size_t i = 0; i < values_.size(); ++i) {
        const Value& v = values_[i];
        if (v.op) {
          char* to = v.result >= 0 ? c.out[v.result] + b * c.item : scratch + v.slot * slot;
          void* outs[] = {to};
          const void* ins[4];
          KernelParam params[kMostParams];
          for (size_t k = 0; k < v.inputs.size(); ++k) ins[k] = at[v.inputs[k]];
          for (size_t k = 0; k < v.params.size(); ++k) params[k].f = v.params[k];
          v.op->kernels[static_cast<int>(c.dtype)](n, outs, ins, params);
          at[i] = to;
        } else if (v.tensor >= 0 && !c.is_number[v.tensor]) {
          const char* from = c.data[v.tensor];
          if (v.parts == 1 || c.columns == c.n) {
            at[i] = from + (v.part * c.columns + b) * c.item;
            continue;
          }
          char* to = scratch + v.slot * slot;
          at[i] = to;
          for (int64_t e = b; e < b + n;) {  // the rest of a row at a time
            const int64_t row = e / c.columns, column = e % c.columns, m = std::min(c.columns - column, b + n - e);
            std::memcpy(to, from + ((row * v.parts + v.part) * c.columns + column) * c.item,
                        static_cast<size_t>(m * c.item));
            to += m * c.item, e += m;
          }
        }
      }
    }
  };
  if (c.n <= 4 * kBlock)
    piece(0, c.n);
  else
    parallel_for(c.n, 16 * kBlock, piece);
  return true;
}

}  // namespace tessera::compile
