// Every module of torch::nn: made from its options, called, printed, copied. tools/cpp_modules compares the names with
// Python's.
#include <gtest/gtest.h>
#include <torch/nn.h>
#include <torch/optim.h>

#include <sstream>

namespace nn = torch::nn;
using torch::Tensor;

namespace {

Tensor wave(at::IntArrayRef sizes) {
  int64_t count = 1;
  for (int64_t s : sizes) count *= s;
  return torch::sin(torch::arange(count, torch::kFloat)).reshape(sizes).contiguous();
}
std::vector<int64_t> sizes_of(const Tensor& t) { return t.sizes().vec(); }
template <class... T>
std::vector<int64_t> sizes_of(const std::tuple<T...>& t) {
  return sizes_of(std::get<0>(t));
}
std::vector<int64_t> sizes_of(const nn::ASMoutput& t) { return sizes_of(t.output); }

template <class M, class... A>
void check(const char* name, M module, const std::vector<int64_t>& sizes, const A&... arguments) {
  SCOPED_TRACE(name);
  EXPECT_EQ(module->name(), std::string("torch::nn::") + name + "Impl");
  std::ostringstream text;
  text << module;
  EXPECT_EQ(text.str().rfind(std::string("torch::nn::") + name, 0), 0u) << text.str();
  EXPECT_EQ(sizes_of(module->forward(arguments...)), sizes);
  const auto copy = module->clone();
  const auto mine = module->named_parameters(), other = copy->named_parameters();
  EXPECT_EQ(mine.keys(), other.keys());
  for (const auto& p : mine) {
    EXPECT_TRUE(torch::equal(*p, other[p.key()])) << p.key();
    EXPECT_FALSE(p->is_same(other[p.key()])) << p.key();
  }
}
#define CHECK_MODULE(Name, ...) check(#Name, nn::Name __VA_ARGS__)

TEST(NnModules, Plain) {
  const Tensor x = wave({3, 4}), image = wave({2, 4, 6, 6});
#define CHECK_SAME(Name, ...) check(#Name, nn::Name(__VA_ARGS__), {3, 4}, x)
  CHECK_SAME(Identity);
  CHECK_SAME(ELU);
  CHECK_SAME(CELU);
  CHECK_SAME(SELU);
  CHECK_SAME(ReLU);
  CHECK_SAME(ReLU6);
  CHECK_SAME(RReLU);
  CHECK_SAME(SiLU);
  CHECK_SAME(Mish);
  CHECK_SAME(GELU);
  CHECK_SAME(Tanh);
  CHECK_SAME(Sigmoid);
  CHECK_SAME(Hardsigmoid);
  CHECK_SAME(Hardswish);
  CHECK_SAME(Hardtanh);
  CHECK_SAME(Hardshrink);
  CHECK_SAME(Softshrink);
  CHECK_SAME(Softplus);
  CHECK_SAME(Softsign);
  CHECK_SAME(Tanhshrink);
  CHECK_SAME(LogSigmoid);
  CHECK_SAME(LeakyReLU);
  CHECK_SAME(PReLU);
  CHECK_SAME(Threshold, 0.1, 2);
  CHECK_SAME(Softmax, 1);
  CHECK_SAME(Softmin, 1);
  CHECK_SAME(LogSoftmax, 1);
  CHECK_SAME(Dropout);
  CHECK_SAME(Dropout1d);
  CHECK_SAME(AlphaDropout);
  CHECK_SAME(LayerNorm, std::vector<int64_t>{4});
  CHECK_SAME(RMSNorm, std::vector<int64_t>{4});
#undef CHECK_SAME
  check("GLU", nn::GLU(), {3, 2}, x);
  for (const auto& drop : {nn::Dropout2d()}) check("Dropout2d", drop, {2, 4, 6, 6}, image);
  check("Dropout3d", nn::Dropout3d(), {2, 4, 6, 6}, image);
  check("FeatureAlphaDropout", nn::FeatureAlphaDropout(), {2, 4, 6, 6}, image);
  check("Softmax2d", nn::Softmax2d(), {2, 4, 6, 6}, image);
  check("Linear", nn::Linear(4, 5), {3, 5}, x);
  check("Bilinear", nn::Bilinear(4, 4, 2), {3, 2}, x, x);
  check("Flatten", nn::Flatten(), {2, 144}, image);
  check("Unflatten", nn::Unflatten(nn::UnflattenOptions(1, {2, 2})), {3, 2, 2}, x);
  check("CosineSimilarity", nn::CosineSimilarity(), {3}, x, x);
  check("PairwiseDistance", nn::PairwiseDistance(), {3}, x, x);
  check("Embedding", nn::Embedding(5, 3), {2, 3}, torch::tensor({1, 4}));
  check("EmbeddingBag", nn::EmbeddingBag(5, 3), {2, 3}, torch::tensor({1, 4, 0}), torch::tensor({0, 2}));
  check("AdaptiveLogSoftmaxWithLoss",
        nn::AdaptiveLogSoftmaxWithLoss(nn::AdaptiveLogSoftmaxWithLossOptions(4, 6, {2, 4}).div_value(1.5)), {3}, x,
        torch::tensor({0, 3, 5}));
}

TEST(NnModules, Spatial) {
  const Tensor line = wave({2, 4, 8}), image = wave({2, 4, 6, 6}), cube = wave({1, 4, 4, 4, 4});
  const std::vector<int64_t> l{2, 4, 4}, i{2, 4, 3, 3}, c{1, 4, 2, 2, 2};
  check("Conv1d", nn::Conv1d(nn::Conv1dOptions(4, 2, 3).padding(torch::kSame)), {2, 2, 8}, line);
  check("Conv2d", nn::Conv2d(4, 2, 3), {2, 2, 4, 4}, image);
  check("Conv3d", nn::Conv3d(nn::Conv3dOptions(4, 2, 3).padding(1).padding_mode(torch::kReplicate)), {1, 2, 4, 4, 4},
        cube);
  check("ConvTranspose1d", nn::ConvTranspose1d(4, 2, 3), {2, 2, 10}, line);
  check("ConvTranspose2d", nn::ConvTranspose2d(nn::ConvTranspose2dOptions(4, 2, 2).stride(2)), {2, 2, 12, 12}, image);
  check("ConvTranspose3d", nn::ConvTranspose3d(4, 2, 2), {1, 2, 5, 5, 5}, cube);
#define CHECK_POOLS(Kind)                       \
  check(#Kind "1d", nn::Kind##1d(2), l, line);  \
  check(#Kind "2d", nn::Kind##2d(2), i, image); \
  check(#Kind "3d", nn::Kind##3d(2), c, cube)
  CHECK_POOLS(MaxPool);
  CHECK_POOLS(AvgPool);
#undef CHECK_POOLS
  check("LPPool1d", nn::LPPool1d(2, 2), l, line);
  check("LPPool2d", nn::LPPool2d(2, 2), i, image);
  check("LPPool3d", nn::LPPool3d(2, 2), c, cube);
  check("AdaptiveAvgPool1d", nn::AdaptiveAvgPool1d(4), l, line);
  check("AdaptiveAvgPool2d", nn::AdaptiveAvgPool2d(3), i, image);
  check("AdaptiveAvgPool3d", nn::AdaptiveAvgPool3d(2), c, cube);
  check("AdaptiveMaxPool1d", nn::AdaptiveMaxPool1d(4), l, line);
  check("AdaptiveMaxPool2d", nn::AdaptiveMaxPool2d(3), i, image);
  check("AdaptiveMaxPool3d", nn::AdaptiveMaxPool3d(2), c, cube);
  const auto [line_max, line_at] = nn::MaxPool1d(2)->forward_with_indices(line);
  const auto [image_max, image_at] = nn::MaxPool2d(2)->forward_with_indices(image);
  const auto [cube_max, cube_at] = nn::MaxPool3d(2)->forward_with_indices(cube);
  check("MaxUnpool1d", nn::MaxUnpool1d(2), {2, 4, 8}, line_max, line_at);
  check("MaxUnpool2d", nn::MaxUnpool2d(2), {2, 4, 6, 6}, image_max, image_at);
  check("MaxUnpool3d", nn::MaxUnpool3d(2), {1, 4, 4, 4, 4}, cube_max, cube_at);
  check("FractionalMaxPool2d", nn::FractionalMaxPool2d(nn::FractionalMaxPool2dOptions(2).output_size(3)), i, image);
  check("FractionalMaxPool3d", nn::FractionalMaxPool3d(nn::FractionalMaxPool3dOptions(2).output_ratio(0.5)), c, cube);
  check("BatchNorm1d", nn::BatchNorm1d(4), {2, 4, 8}, line);
  check("BatchNorm2d", nn::BatchNorm2d(4), {2, 4, 6, 6}, image);
  check("BatchNorm3d", nn::BatchNorm3d(4), {1, 4, 4, 4, 4}, cube);
  check("InstanceNorm1d", nn::InstanceNorm1d(4), {2, 4, 8}, line);
  check("InstanceNorm2d", nn::InstanceNorm2d(4), {2, 4, 6, 6}, image);
  check("InstanceNorm3d", nn::InstanceNorm3d(4), {1, 4, 4, 4, 4}, cube);
  check("GroupNorm", nn::GroupNorm(2, 4), {2, 4, 6, 6}, image);
  check("LocalResponseNorm", nn::LocalResponseNorm(2), {2, 4, 6, 6}, image);
  check("CrossMapLRN2d", nn::CrossMapLRN2d(3), {2, 4, 6, 6}, image);
#define CHECK_PADS(Kind, ...)                                        \
  check(#Kind "1d", nn::Kind##1d(__VA_ARGS__), {2, 4, 10}, line);    \
  check(#Kind "2d", nn::Kind##2d(__VA_ARGS__), {2, 4, 8, 8}, image); \
  check(#Kind "3d", nn::Kind##3d(__VA_ARGS__), {1, 4, 6, 6, 6}, cube)
  CHECK_PADS(ReflectionPad, 1);
  CHECK_PADS(ReplicationPad, 1);
  CHECK_PADS(CircularPad, 1);
  CHECK_PADS(ZeroPad, 1);
  CHECK_PADS(ConstantPad, 1, 2.5);
#undef CHECK_PADS
  check("PixelShuffle", nn::PixelShuffle(2), {2, 1, 12, 12}, image);
  check("PixelUnshuffle", nn::PixelUnshuffle(2), {2, 16, 3, 3}, image);
  check("ChannelShuffle", nn::ChannelShuffle(2), {2, 4, 6, 6}, image);
  check("Upsample", nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2, 1.5})), {2, 4, 12, 9},
        image);
  check("UpsamplingNearest2d", nn::UpsamplingNearest2d(nn::UpsampleOptions().size(std::vector<int64_t>{3, 4})),
        {2, 4, 3, 4}, image);
  check("UpsamplingBilinear2d", nn::UpsamplingBilinear2d(nn::UpsampleOptions().size(std::vector<int64_t>{3, 4})),
        {2, 4, 3, 4}, image);
  check("Unfold", nn::Unfold(nn::UnfoldOptions({2, 2}).stride(2)), {2, 16, 9}, image);
  check("Fold", nn::Fold(nn::FoldOptions({4, 4}, {2, 2}).stride(2)), {2, 1, 4, 4}, wave({2, 4, 4}));
}

TEST(NnModules, Sequences) {
  const Tensor x = wave({3, 2, 4});
  check("RNN", nn::RNN(nn::RNNOptions(4, 3).num_layers(2).bidirectional(true)), {3, 2, 6}, x);
  check("LSTM", nn::LSTM(nn::LSTMOptions(4, 3).proj_size(2)), {3, 2, 2}, x);
  check("GRU", nn::GRU(nn::GRUOptions(4, 3).batch_first(true)), {3, 2, 3}, x);
  check("RNNCell", nn::RNNCell(4, 3), {2, 3}, x[0]);
  check("LSTMCell", nn::LSTMCell(4, 3), {2, 3}, x[0]);
  check("GRUCell", nn::GRUCell(4, 3), {2, 3}, x[0]);
  check("MultiheadAttention", nn::MultiheadAttention(4, 2), {3, 2, 4}, x, x, x);
  check("TransformerEncoderLayer", nn::TransformerEncoderLayer(4, 2), {3, 2, 4}, x);
  check("TransformerDecoderLayer", nn::TransformerDecoderLayer(4, 2), {3, 2, 4}, x, x);
  const nn::TransformerEncoderLayerOptions encoder(4, 2);
  check("TransformerEncoder",
        nn::TransformerEncoder(
            nn::TransformerEncoderOptions(encoder, 2).norm(nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({4}))))),
        {3, 2, 4}, x);
  const nn::TransformerDecoderLayerOptions decoder(4, 2);
  check("TransformerDecoder", nn::TransformerDecoder(nn::TransformerDecoderOptions(decoder, 2)), {3, 2, 4}, x, x);
  check("Transformer", nn::Transformer(nn::TransformerOptions(4, 2, 1, 1).dim_feedforward(8)), {3, 2, 4}, x, x);
}

TEST(NnModules, Losses) {
  const Tensor x = wave({3, 4}), y = torch::cos(x), sign = x.sign(), one = torch::ones({3}),
               labels = torch::tensor({1, 0, 3});
  const std::vector<int64_t> scalar;
  check("L1Loss", nn::L1Loss(), scalar, x, y);
  check("MSELoss", nn::MSELoss(torch::kNone), {3, 4}, x, y);
  check("SmoothL1Loss", nn::SmoothL1Loss(), scalar, x, y);
  check("HuberLoss", nn::HuberLoss(), scalar, x, y);
  check("KLDivLoss", nn::KLDivLoss(torch::kBatchMean), scalar, x, y.abs());
  check("BCELoss", nn::BCELoss(), scalar, x.sigmoid(), y.sigmoid());
  check("BCEWithLogitsLoss", nn::BCEWithLogitsLoss(), scalar, x, y.sigmoid());
  check("HingeEmbeddingLoss", nn::HingeEmbeddingLoss(), scalar, x, sign);
  check("SoftMarginLoss", nn::SoftMarginLoss(), scalar, x, sign);
  check("PoissonNLLLoss", nn::PoissonNLLLoss(), scalar, x, y.abs());
  check("GaussianNLLLoss", nn::GaussianNLLLoss(), scalar, x, y, torch::ones({3, 4}));
  check("NLLLoss", nn::NLLLoss(), scalar, x.log_softmax(1), labels);
  check("CrossEntropyLoss", nn::CrossEntropyLoss(), scalar, x, labels);
  check("MultiMarginLoss", nn::MultiMarginLoss(), scalar, x, labels);
  check("MultiLabelMarginLoss", nn::MultiLabelMarginLoss(), scalar, x[0], torch::tensor({2, 0, -1, 1}));
  check("MultiLabelSoftMarginLoss", nn::MultiLabelSoftMarginLoss(), scalar, x, y.sigmoid());
  check("CosineEmbeddingLoss", nn::CosineEmbeddingLoss(), scalar, x, y, one);
  check("MarginRankingLoss", nn::MarginRankingLoss(), scalar, x, y, sign);
  check("TripletMarginLoss", nn::TripletMarginLoss(), scalar, x, y, sign);
  check("TripletMarginWithDistanceLoss", nn::TripletMarginWithDistanceLoss(), scalar, x, y, sign);
  check("CTCLoss", nn::CTCLoss(), scalar, wave({5, 2, 4}).log_softmax(2), torch::tensor({{1, 2}, {3, 1}}),
        torch::tensor({5, 5}), torch::tensor({2, 2}));
}

TEST(NnModules, Containers) {
  nn::Sequential chain(nn::Linear(4, 3), nn::ReLU());
  check("Sequential", chain, {3, 3}, wave({3, 4}));
  nn::ModuleList list(nn::Linear(1, 1), nn::ReLU());
  EXPECT_EQ(std::dynamic_pointer_cast<nn::ModuleListImpl>(list->clone())->size(), 2u);
  nn::ModuleDict dict;
  dict->insert("a", nn::Linear(1, 1));
  EXPECT_EQ(std::dynamic_pointer_cast<nn::ModuleDictImpl>(dict->clone())->keys(), std::vector<std::string>{"a"});
  nn::ParameterList parameters(torch::ones({2}));
  EXPECT_EQ(std::dynamic_pointer_cast<nn::ParameterListImpl>(parameters->clone())->size(), 1u);
  nn::ParameterDict named;
  named->insert("w", torch::ones({2}));
  EXPECT_TRUE(std::dynamic_pointer_cast<nn::ParameterDictImpl>(named->clone())->contains("w"));
  check("Functional", nn::Functional([](Tensor x) { return x * 2; }), {2}, torch::ones({2}));
}

TEST(Lists, OfParameters) {
  const auto a = torch::ones({2}), b = torch::zeros({3});
  nn::ParameterList list(a), other(b, a);
  list->extend(*other);
  *list += *other;
  EXPECT_EQ(list->size(), 5u);
  EXPECT_TRUE(list[3].equal(b));
  EXPECT_THROW(list->at(5), c10::Error);
  nn::ParameterDict dict, more;
  dict->insert("a", a);
  more->insert("a", b);
  dict->update(*more);
  EXPECT_TRUE(dict["a"].equal(b));
  more->insert("b", b);
  EXPECT_THROW(dict->update(*more), c10::Error);
}

TEST(Recurrent, OptionsOfTheBase) {
  const auto base = nn::LSTM(nn::LSTMOptions(3, 4).num_layers(2).proj_size(2))->options_base;
  EXPECT_EQ(base.mode().index(), nn::LSTM(1, 2)->options_base.mode().index());
  EXPECT_NE(base.mode().index(), nn::GRU(1, 2)->options_base.mode().index());
  EXPECT_EQ(base.num_layers(), 2);
  EXPECT_EQ(base.proj_size(), 2);
  const auto packed = nn::utils::rnn::pack_sequence({torch::ones({3, 2}), torch::ones({1, 2})});
  const auto moved = packed.to(torch::device(torch::kCPU).dtype(torch::kDouble));
  EXPECT_EQ(moved.data().scalar_type(), torch::kDouble);
  EXPECT_EQ(packed.to(torch::kCPU).data().scalar_type(), torch::kFloat);
  EXPECT_EQ(std::get<0>(nn::utils::rnn::pad_packed_sequence(packed, false, 0, 5)).size(0), 5);
  EXPECT_THROW(nn::utils::rnn::pad_packed_sequence(packed, false, 0, -1), c10::Error);
}

TEST(Options, AreChecked) {
  EXPECT_THROW(nn::Hardtanh(nn::HardtanhOptions().min_val(1).max_val(1)), c10::Error);
  std::vector<torch::Tensor> params{torch::ones({1})};
  torch::optim::SGD optimizer(params, 0.1);
  EXPECT_THROW(optimizer.add_param_group(torch::optim::OptimizerParamGroup(params)), c10::Error);
  EXPECT_THROW((torch::OrderedDict<std::string, int>().front()), c10::Error);
}

TEST(States, OfParametersAreCompared) {
  torch::optim::AdamParamState a, b;
  EXPECT_TRUE(a == b);
  b.exp_avg(torch::ones({2}));
  EXPECT_FALSE(a == b);
  a.exp_avg(torch::ones({2}));
  EXPECT_TRUE(a == b);
  torch::optim::LBFGSParamState c, d;
  c.old_dirs().push_back(torch::ones({1}));
  EXPECT_FALSE(c == d);
}

TEST(AnyModules, SayHowManyArgumentsTheyTake) {
  struct Sum : nn::Module {
    int forward(int a, int b = 2, int c = 3) { return a + b + c; }
    FORWARD_HAS_DEFAULT_ARGS({1, nn::AnyValue(2)}, {2, nn::AnyValue(3)})
  };
  nn::AnyModule any(std::make_shared<Sum>());
  EXPECT_EQ(any.forward<int>(1), 6);
  try {
    any.forward<int>();
    FAIL();
  } catch (const c10::Error& e) {
    EXPECT_NE(std::string(e.what()).find("at least 1 argument(s) and at most 3"), std::string::npos) << e.what();
  }
  EXPECT_THROW(any.forward<int>(1, 2, 3, 4), c10::Error);
}

}  // namespace
