// The tree of modules, and layers against numbers that PyTorch gave for the same seeds.
#include "nn/modules/modules.h"

#include <gtest/gtest.h>

#include <cmath>

#include "autograd/autograd.h"
#include "tensor/ops/api.h"

namespace tessera::nn {
namespace {

Tensor floats(std::vector<float> values, IntVector sizes) {
  Tensor t = empty_kernel(sizes, DType::kFloat32);
  std::copy(values.begin(), values.end(), t.data<float>());
  return t;
}
std::vector<float> values_of(const Tensor& t) {
  const Tensor c = t.contiguous();
  return {c.data<float>(), c.data<float>() + c.numel()};
}
void expect_near(const Tensor& t, std::vector<float> expected) {
  const std::vector<float> got = values_of(t);
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5) << i;
}
void seed(uint64_t s) { default_cpu_generator()->manual_seed(s); }
std::shared_ptr<Sequential> small_net() {
  return Sequential::make({std::make_shared<Conv2d>(1, 2, 3, Conv2dOptions{.padding = 1}),
                           std::make_shared<BatchNorm2d>(2), std::make_shared<ReLU>(), std::make_shared<MaxPool2d>(2),
                           std::make_shared<Flatten>(), std::make_shared<Linear>(8, 3)});
}
template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "no error";
}

TEST(Module, SameSeedSameWeights) {
  seed(0);
  const auto net = small_net();
  const Embedding embedding(4, 2, {.padding_idx = -1});
  const NamedTensors state = net->state_dict();
  EXPECT_EQ(state[0].first, "0.weight");
  const std::vector<float> conv = values_of(state[0].second);
  EXPECT_EQ(conv[0], -0.0024956068955361843f);
  EXPECT_EQ(conv[3], -0.24531301856040955f);
  EXPECT_EQ(values_of(state[8].second),
            (std::vector<float>{-0.2554657459259033f, -0.18226736783981323f, 0.22307024896144867f}));
  expect_near(embedding.weight, {-1.1088484525680542f, 1.6253527402877808f, 1.2333362102508545f, -0.18318551778793335f,
                                 -1.3140254020690918f, -1.6894433498382568f, 0, 0});
}

TEST(Module, NamesAndRepr) {
  const auto net = small_net();
  std::vector<std::string> names;
  for (const auto& [name, t] : net->named_parameters()) names.push_back(name);
  EXPECT_EQ(names, (std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias", "5.weight", "5.bias"}));
  EXPECT_EQ(net->named_buffers().size(), 3u);
  EXPECT_EQ(net->repr(),
            "Sequential(\n  (0): Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))\n"
            "  (1): BatchNorm2d(2, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)\n  (2): ReLU()\n"
            "  (3): MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)\n  (4): "
            "Flatten(start_dim=1, end_dim=-1)\n"
            "  (5): Linear(in_features=8, out_features=3, bias=True)\n)");
  Module m;
  const auto child = std::make_shared<Linear>(1, 1);
  m.register_module("a", child);
  m.register_module("b", child);
  EXPECT_EQ(m.named_parameters().size(), 2u);  // once
  EXPECT_EQ(m.state_dict().size(), 4u);        // under both names
  EXPECT_THROW(m.register_module("a", child), ValueError);
  EXPECT_THROW(m.register_buffer("x.y", Tensor()), ValueError);
  EXPECT_THROW(m.register_buffer("", Tensor()), ValueError);
  EXPECT_THROW(child->register_module("self", child), ValueError);
  EXPECT_THROW(m.register_parameter("p", mul(child->weight, child->weight)), ValueError);
  EXPECT_THROW(m.forward(child->weight), NotImplementedError);
}

TEST(Module, StateDictIsStrictAndWhole) {
  const auto a = small_net(), b = small_net();
  b->load_state_dict(a->state_dict());
  for (size_t i = 0; i < 6; ++i) EXPECT_EQ(values_of(a->parameters()[i]), values_of(b->parameters()[i]));
  EXPECT_TRUE(b->parameters()[0].requires_grad() && !b->state_dict()[0].second.requires_grad());
  const NamedTensors bad = {{"0.weight", floats({0}, {1})}, {"5.weight", zeros({3, 8})}, {"x", floats({0}, {1})}};
  EXPECT_EQ(message_of([&] { b->load_state_dict(bad); }),
            "Error(s) in loading state_dict for Sequential:\n\tMissing key(s) in state_dict: \"0.bias\", \"1.weight\", "
            "\"1.bias\", \"1.running_mean\", \"1.running_var\", \"5.bias\". "
            "\n\tUnexpected key(s) in state_dict: \"x\". "
            "\n\tsize mismatch for 0.weight: copying a param with shape torch.Size([1]) from checkpoint, the shape in "
            "current model is torch.Size([2, 1, 3, 3]).");
  EXPECT_EQ(values_of(a->parameters()[4]), values_of(b->parameters()[4]));  // nothing half done
  b->load_state_dict({{"5.weight", zeros({3, 8})}}, false);
  EXPECT_EQ(values_of(b->parameters()[4]), std::vector<float>(24));
}

TEST(Module, ModesDTypesAndGradients) {
  const auto net = small_net();
  net->eval();
  net->apply([](Module& m) { EXPECT_FALSE(m.is_training()); });
  const Tensor weight = net->parameters()[0];
  const Tensor x = floats(std::vector<float>(16, 0.5f), {1, 1, 4, 4});
  sum((*net)(x)).backward();
  EXPECT_TRUE(weight.grad().defined());
  net->to(DType::kFloat64);
  EXPECT_EQ(weight.dtype(), DType::kFloat64);
  EXPECT_EQ(weight.grad().dtype(), DType::kFloat64);
  EXPECT_TRUE(weight.requires_grad() && net->parameters()[0].is_same(weight));
  EXPECT_EQ(net->buffers()[2].dtype(), DType::kInt64);
  EXPECT_THROW(net->to(DType::kInt32), TypeError);
  net->zero_grad(false);
  EXPECT_EQ(weight.grad().data<double>()[0], 0);
  net->zero_grad();
  EXPECT_FALSE(weight.grad().defined());
  net->requires_grad_(false);
  EXPECT_FALSE((*net)(x.to(DType::kFloat64)).requires_grad());
}

TEST(Layers, Forward) {
  const Tensor x = floats({1, 2, 3, 4, 5, 6, 7, 9}, {2, 4});
  expect_near(LayerNorm({4}).forward(floats({1, 2, 3, 4}, {1, 4})), {-1.3416355f, -0.4472118f, 0.4472118f, 1.3416355f});
  expect_near(AvgPool2d(2).forward(x.reshape({1, 2, 4})), {3.5f, 5.75f});
  expect_near(MaxPool2d({1, 2}).forward(x.reshape({1, 2, 4})), {2, 4, 6, 9});
  expect_near(GELU().forward(floats({-1, 1}, {2})), {-0.1586553f, 0.8413447f});
  expect_near(GELU("tanh").forward(floats({-1, 1}, {2})), {-0.1588080f, 0.8411920f});
  expect_near(Tanh().forward(floats({0.5f}, {1})), {0.4621172f});
  expect_near(Sigmoid().forward(floats({0.5f}, {1})), {0.6224593f});
  EXPECT_EQ(ReLU(true).forward(floats({-1, 2}, {2})).data<float>()[0], 0);
  EXPECT_TRUE(Identity().forward(x).is_same(x));
  Embedding table(3, 2);
  const Tensor indices = full({1}, 2, DType::kInt64);
  EXPECT_EQ(values_of(table(indices)), values_of(table.weight[2]));
  EXPECT_THROW(table(full({1}, 3, DType::kInt64)), IndexError);
  EXPECT_THROW(Linear(3, 2)(x), Error);
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 2}), ValueError);
  EXPECT_THROW(BatchNorm2d(3)(x), ValueError);
  EXPECT_THROW(Dropout(1.5), ValueError);
}

TEST(Layers, BatchNormKeepsStatistics) {
  BatchNorm1d norm(1, {.momentum = std::nullopt});
  norm(floats({0, 2}, {2, 1}));
  expect_near(norm(floats({4, 8}, {2, 1})), {-0.9999988f, 0.9999988f});
  expect_near(norm.running_mean, {3.5f});
  expect_near(norm.running_var, {5});
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 2);
  norm.eval();
  expect_near(norm(floats({3.5f}, {1, 1})), {0});
}

// Nor does its mean over all batches: numbers on Meta can't be asked for.
TEST(Layers, BatchNormDoesNotWait) {
  BatchNorm1d norm(2, {.momentum = std::nullopt});
  const auto on_meta = [](Tensor& t) { t = to(t, Device(DeviceType::kMeta), t.dtype()); };
  for (Tensor* t : {&norm.weight, &norm.bias, &norm.running_mean, &norm.running_var, &norm.num_batches_tracked})
    on_meta(*t);
  EXPECT_TRUE(norm(to(zeros({3, 2}), Device(DeviceType::kMeta), DType::kFloat32)).is_meta());
}

TEST(Layers, DropoutOnlyTrains) {
  Dropout dropout(0.5);
  const Tensor x = ones({1000});
  const Tensor y = dropout(x);
  for (float v : values_of(y)) EXPECT_TRUE(v == 0 || v == 2);
  const double mean = y.mean().item<float>();
  EXPECT_GT(mean, 0.8);
  EXPECT_LT(mean, 1.2);
  dropout.eval();
  EXPECT_EQ(values_of(dropout(x)), values_of(x));
}

TEST(Losses, Values) {
  const Tensor scores = floats({1, 2, 3, 1, 2, 3}, {2, 3});
  const Tensor target = empty_kernel(IntVector{2}, DType::kInt64);
  target.data<int64_t>()[0] = 2;
  target.data<int64_t>()[1] = 0;
  expect_near(CrossEntropyLoss()(scores, target), {1.4076059f});
  expect_near(CrossEntropyLoss({.reduction = Reduction::kNone})(scores, target), {0.4076059f, 2.4076059f});
  expect_near(CrossEntropyLoss({.ignore_index = 0, .label_smoothing = 0.1})(scores, target), {0.5076059f});
  expect_near(NLLLoss({.weight = floats({3, 1, 1}, {3})})(log_softmax(scores, 1), target),
              {(0.4076059f + 3 * 2.4076059f) / 4});
  expect_near(MSELoss(Reduction::kSum)(floats({1, 2}, {2}), floats({0, 4}, {2})), {5});
  EXPECT_THROW(NLLLoss({.label_smoothing = 0.1}), ValueError);
}

TEST(Init, BoundsAndErrors) {
  seed(1);
  const Tensor w = empty_kernel(IntVector{30, 20}, DType::kFloat32);
  const auto largest = [&] { return w.abs().max().item<float>(); };
  init::xavier_uniform_(w, 2);
  EXPECT_LE(largest(), 2 * std::sqrt(6.0 / 50));
  EXPECT_GT(largest(), 1.9 * std::sqrt(6.0 / 50));
  init::kaiming_uniform_(w, 0, init::FanMode::kFanOut, "relu");
  EXPECT_LE(largest(), std::sqrt(6.0 / 30));
  init::kaiming_normal_(w);
  EXPECT_NEAR(w.std().item<float>(), std::sqrt(2.0 / 20), 0.03);
  init::xavier_normal_(w);
  EXPECT_NEAR(w.std().item<float>(), std::sqrt(2.0 / 50), 0.03);
  EXPECT_THROW(init::xavier_normal_(floats({1}, {1})), ValueError);
  EXPECT_THROW(init::calculate_gain("nothing"), ValueError);
}

}  // namespace
}  // namespace tessera::nn
