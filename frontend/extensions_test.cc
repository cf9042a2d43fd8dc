// What extensions use beside operators: loops over elements, weak pointers, allocators, checks, libraries that end.
#include <ATen/TensorGeometry.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/TensorIterator.h>
#include <ATen/native/cpu/Loops.h>
#include <c10/core/CPUAllocator.h>
#include <c10/util/Logging.h>
#include <c10/util/accumulate.h>
#include <c10/util/tempfile.h>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/utils/tensor_flatten.h>
#include <torch/library.h>
#include <torch/torch.h>

#include "gtest/gtest.h"

namespace {

TEST(TensorIterator, BroadcastsPromotesAndCasts) {
  at::Tensor out;
  auto it = at::TensorIterator::binary_op(out, torch::arange(3), torch::full({2, 1}, 1.5));
  EXPECT_EQ(it.common_dtype(), at::kFloat);
  at::native::cpu_kernel(it, [](float x, float y) -> float { return x - y; });
  EXPECT_TRUE(it.output().equal(torch::tensor({{-1.5, -.5, .5}, {-1.5, -.5, .5}})));
  at::Tensor wide = torch::empty({3}, at::kDouble);
  auto cast = at::TensorIterator::binary_op(wide, torch::ones(3), torch::ones(3));
  at::native::cpu_kernel(cast, [](float x, float y) { return x + y; });
  EXPECT_TRUE(wide.equal(torch::full({3}, 2., at::kDouble)));
  at::Tensor whole = torch::empty({3}, at::kLong);
  EXPECT_THROW(at::TensorIterator::binary_op(whole, torch::ones(3), torch::ones(3)), c10::Error);
}

TEST(TensorIterator, WalksAnyLayout) {
  const auto big = torch::arange(100000.).view({100, 1000});
  const auto copy = torch::empty({1000, 100});
  auto it = at::TensorIteratorConfig().add_output(copy).add_owned_input(big.t()).build();
  at::native::cpu_kernel(it, [](float x) { return x; });
  EXPECT_TRUE(copy.equal(big.t()));
  const auto p = torch::empty({4}), q = torch::empty({4});
  auto two = at::TensorIteratorConfig().add_output(p).add_output(q).add_owned_input(torch::arange(4.)).build();
  at::native::cpu_kernel_multiple_outputs(two, [](float x) -> std::tuple<float, float> { return {x + 1, x * x}; });
  EXPECT_TRUE(q.equal(torch::arange(4.).square()));
}

TEST(TensorIterator, Refuses) {
  const auto one = torch::empty({1}), two = torch::ones(2);
  using Config = at::TensorIteratorConfig;
  EXPECT_THROW(Config().resize_outputs(false).add_output(one).add_input(two).build(), c10::Error);
  EXPECT_THROW(Config().add_output(one.expand({2})).add_input(two).build(), c10::Error);
  EXPECT_THROW(Config().add_output({}).add_input(two).add_owned_input(two.to(at::kLong)).build(), c10::Error);
}

struct Counted : c10::intrusive_ptr_target {
  explicit Counted(int* gone) : gone(gone) {}
  void release_resources() override { ++*gone; }
  int* gone;
};
TEST(WeakPointer, LocksWhileTheObjectLives) {
  int gone = 0;
  auto p = c10::make_intrusive<Counted>(&gone);
  const c10::weak_intrusive_ptr<Counted> w(p);
  EXPECT_EQ(w.lock().use_count(), 2u);
  EXPECT_FALSE(w.expired());
  p.reset();
  EXPECT_EQ(gone, 1);
  EXPECT_TRUE(w.expired());
  EXPECT_FALSE(w.lock().defined());
}

TEST(Storage, OfAnAllocator) {
  auto* from = c10::GetCPUAllocator();
  auto data = from->allocate(24);
  static_cast<float*>(data.mutable_get())[5] = 7;
  const c10::Storage s(c10::Storage::use_byte_size_t(), 24, std::move(data), from);
  const auto t = torch::empty({0}).set_(s, 0, {2, 3}, {3, 1});
  EXPECT_EQ(t[1][2].item<float>(), 7);
  EXPECT_EQ(t.storage().data_ptr().get(), t.data_ptr());
}

TEST(Logging, ChecksThrow) {
  TORCH_CHECK_EQ(1, 1) << "not evaluated";
  EXPECT_THROW(TORCH_CHECK_EQ(1, 2) << "told", c10::Error);
  EXPECT_THROW(LOG(FATAL) << "told", c10::Error);
}

TEST(Library, EndsWithItsObject) {
  const auto found = [] { return c10::Dispatcher::singleton().findSchema({"passing::f", ""}); };
  {
    auto m = MAKE_TORCH_LIBRARY(passing);
    m.def("f(Tensor x) -> Tensor");
    const auto call = [&] { return found()->typed<at::Tensor(const at::Tensor&)>().call(torch::ones(1)); };
    {
      auto cpu = MAKE_TORCH_LIBRARY_IMPL(passing, CPU);
      cpu.impl("f", [](const at::Tensor& x) { return x * 3; });
      EXPECT_EQ(call().item<float>(), 3);
    }
    EXPECT_ANY_THROW(call());
  }
  EXPECT_FALSE(found().has_value());
}

TEST(Functions, ByTheirFlatWeights) {
  torch::nn::LSTM l(torch::nn::LSTMOptions(2, 3).num_layers(2));
  const auto x = torch::randn({4, 2, 2}), h = torch::zeros({2, 2, 3});
  EXPECT_TRUE(
      std::get<0>(torch::lstm(x, {h, h}, l->parameters(), true, 2, 0., false, false, false)).equal(std::get<0>(l(x))));
  torch::nn::GRUCell c(2, 3);
  EXPECT_TRUE(torch::gru_cell(x[0], h[0], c->weight_ih, c->weight_hh, c->bias_ih, c->bias_hh).equal(c(x[0], h[0])));
  const auto csr = torch::sparse_csr_tensor(torch::tensor({0, 1, 2}), torch::tensor({1, 0}), torch::tensor({5., 6.}),
                                            {2, 2}, at::kFloat);
  EXPECT_TRUE(csr.to_dense().equal(torch::tensor({{0., 5.}, {6., 0.}})));
  const std::vector<int64_t> sizes = {2, 3, 4};
  EXPECT_EQ(c10::numelements_from_dim(1, sizes), 12);
  EXPECT_EQ(c10::numelements_between_dim(2, 0, sizes), 6);
  EXPECT_EQ(torch::ones({2, 2}).nonzero_numpy().size(), 2u);
}

TEST(Options, OfADeviceAndItsNumber) {
  EXPECT_EQ(torch::TensorOptions(torch::kCUDA, int64_t{1}).device(), torch::Device("cuda:1"));
  EXPECT_TRUE(torch::ones({2}).to({torch::kMeta, 0}).is_meta());
  EXPECT_THROW(torch::TensorOptions(torch::kCPU, 2), c10::Error);
}

TEST(Limits, OfReducedTypes) {
  using H = std::numeric_limits<c10::Half>;
  using B = std::numeric_limits<c10::BFloat16>;
  EXPECT_EQ(std::ldexp(1.f, H::min_exponent - 1), static_cast<float>(H::min()));
  EXPECT_EQ(std::ldexp(2.f - static_cast<float>(B::epsilon()), B::max_exponent - 1), static_cast<float>(B::max()));
  EXPECT_EQ(H::max_exponent10, 4);
  EXPECT_EQ(H::min_exponent10, -4);
  EXPECT_EQ(B::max_exponent10, 38);
  EXPECT_EQ(B::min_exponent10, -37);
  const auto x = torch::tensor({H::signaling_NaN(), H::max()}, torch::kHalf);
  EXPECT_TRUE(x.isfinite().equal(torch::tensor({false, true})));
}

TEST(TemporaryFiles, AreGoneWithTheirObjects) {
  std::string name, folder;
  {
    c10::TempFile file = c10::make_tempfile();
    name = file.name;
    torch::save(torch::arange(3), name);
    torch::Tensor read;
    torch::load(read, c10::TempFile(std::move(file)).name);
    EXPECT_TRUE(read.equal(torch::arange(3)));
    const c10::TempDir made = c10::make_tempdir("tessera-");
    folder = made.name;
    EXPECT_EQ(::access(folder.c_str(), F_OK), 0);
  }
  EXPECT_NE(::access(name.c_str(), F_OK), 0);
  EXPECT_NE(::access(folder.c_str(), F_OK), 0);
  EXPECT_FALSE(c10::try_make_tempfile("no such folder/"));
}

TEST(Flattened, ManyAndBack) {
  const std::vector<at::Tensor> all{torch::arange(4.).view({2, 2}).t(), torch::empty({0, 3}), torch::ones({})};
  const at::Tensor flat = torch::utils::flatten_dense_tensors(all);
  EXPECT_TRUE(flat.equal(torch::tensor({0., 2., 1., 3., 1.})));
  const auto back = torch::utils::unflatten_dense_tensors(flat, all);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_TRUE(back[i].equal(all[i]));
  back[2].fill_(7);
  EXPECT_EQ(flat[4].item<float>(), 7);
  EXPECT_THROW(torch::utils::flatten_dense_tensors({}), c10::Error);
}

TEST(Geometry, OfATensorWithoutItsMemory) {
  const at::TensorGeometry plain({2, 3}), turned = plain.transpose(0, -1);
  EXPECT_EQ(turned.sizes(), at::IntArrayRef({3, 2}));
  EXPECT_EQ(turned.strides(), at::IntArrayRef({1, 3}));
  EXPECT_TRUE(plain.is_contiguous() && !turned.is_contiguous());
  const at::TensorGeometry part(torch::arange(12).view({3, 4}).slice(1, 1, 3));
  EXPECT_EQ(part.storage_offset(), 1);
  EXPECT_EQ(part.stride(-2), 4);
  EXPECT_EQ(part.numel(), 6);
  EXPECT_THROW(plain.size(2), c10::IndexError);
}

TEST(Nodes, ThatArePlain) {
  using namespace torch::autograd;
  const auto x = torch::ones({2}, torch::requires_grad());
  const auto kept = DelayedError("not twice", 1).apply({x})[0];
  EXPECT_TRUE(kept.equal(x));
  EXPECT_THROW(kept.sum().backward(), std::runtime_error);
  UndefinedGrad().apply({x})[0].sum().backward();
  EXPECT_FALSE(x.grad().defined());
  const variable_list plain = DelayedError("never", 1).apply({x.detach(), {}});
  EXPECT_FALSE(plain[0].requires_grad());
}

}  // namespace
