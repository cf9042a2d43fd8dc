// Runs every optimizer and schedule of the C++ front end and prints what comes out, for test_frontend_optim.py.
#include <torch/optim.h>

#include <cstdio>

namespace {

using namespace torch::optim;
using torch::Tensor;

Tensor start(at::IntArrayRef sizes, at::ScalarType dtype) {
  int64_t n = 1;
  for (const int64_t s : sizes) n *= s;
  return at::arange(n, dtype).sub(2.5).div(4).reshape(sizes).requires_grad_();
}
// The gradient of a bowl with its bottom at 1, whose sides get steeper.
Tensor slope(const Tensor& p) { return p.detach().sub(1).mul(p.detach().mul(p.detach()).add(0.5)); }

template <class Optimizer, class Options>
void run(const char* name, Options options, bool matrices_alone = false) {
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
    std::vector<Tensor> params{start({3, 4}, dtype)};
    if (!matrices_alone) params.push_back(start({5}, dtype));
    Optimizer optimizer(params, options);
    for (int i = 0; i < 7; ++i)
      optimizer.step([&] {
        Tensor loss = at::zeros({}, dtype);
        for (const Tensor& p : params) {
          p.mutable_grad() = slope(p);
          loss.add_(slope(p).abs().sum());
        }
        return loss;
      });
    std::printf("%s %s", name, dtype == at::kFloat ? "float32" : "float64");
    for (const Tensor& p : params)
      for (int64_t i = 0; i < p.numel(); ++i) std::printf(" %a", p.detach().flatten()[i].item<double>());
    std::printf("\n");
  }
}

template <class Make>
void rates(const char* name, Make make) {
  Tensor a = start({2}, at::kDouble), b = start({3}, at::kDouble);
  std::vector<OptimizerParamGroup> groups;
  groups.emplace_back(std::vector<Tensor>{a});
  groups.emplace_back(std::vector<Tensor>{b}, std::make_unique<SGDOptions>(SGDOptions(0.4).momentum(0.5)));
  SGD sgd(groups, SGDOptions(0.1).momentum(0.5));
  auto schedule = make(sgd);
  std::printf("%s rates", name);
  for (int i = 0; i < 12; ++i) {
    for (const OptimizerParamGroup& group : sgd.param_groups())
      std::printf(" %a %a", group.options().get_lr(), static_cast<const SGDOptions&>(group.options()).momentum());
    schedule->step();
  }
  std::printf("\n");
}
#define RATES(Name, ...) rates(#Name, [](Optimizer& o) { return std::make_shared<Name>(o __VA_OPT__(, ) __VA_ARGS__); })

}  // namespace

int main() {
  run<SGD>("SGD.0", SGDOptions(0.02));
  run<SGD>("SGD.1", SGDOptions(0.02).momentum(0.9).nesterov(true));
  run<SGD>("SGD.2", SGDOptions(0.02).momentum(0.8).dampening(0.1).weight_decay(0.05).maximize(true));
  run<Adam>("Adam.0", AdamOptions(0.05).betas({0.8, 0.95}).eps(1e-6));
  run<Adam>("Adam.1", AdamOptions(0.05).amsgrad(true).weight_decay(0.1).maximize(true));
  run<AdamW>("AdamW.0", AdamWOptions(0.05).weight_decay(0.3));
  run<AdamW>("AdamW.1", AdamWOptions(0.05).amsgrad(true));
  run<Adagrad>("Adagrad.0", AdagradOptions(0.2).lr_decay(0.1).initial_accumulator_value(0.01).weight_decay(0.1));
  run<RMSprop>("RMSprop.0", RMSpropOptions(0.02).alpha(0.9));
  run<RMSprop>("RMSprop.1", RMSpropOptions(0.02).centered(true).momentum(0.3).weight_decay(0.1));
  run<Adadelta>("Adadelta.0", AdadeltaOptions(0.5).rho(0.8).weight_decay(0.1));
  run<Adamax>("Adamax.0", AdamaxOptions(0.05).betas({0.8, 0.95}).weight_decay(0.1));
  run<NAdam>("NAdam.0", NAdamOptions(0.05).momentum_decay(0.01).weight_decay(0.1));
  run<NAdam>("NAdam.1", NAdamOptions(0.05).decoupled_weight_decay(true).weight_decay(0.1).maximize(true));
  run<RAdam>("RAdam.0", RAdamOptions(0.05).betas({0.8, 0.9}).weight_decay(0.1));
  run<ASGD>("ASGD.0", ASGDOptions(0.02).lambd(0.01).t0(3).weight_decay(0.1));
  run<Rprop>("Rprop.0", RpropOptions(0.02).etas({0.4, 1.3}));
  run<Muon>("Muon.0", MuonOptions(0.02), true);
  run<Muon>("Muon.1", MuonOptions(0.02).nesterov(false).adjust_lr_fn("match_rms_adamw"), true);
  run<Adafactor>("Adafactor.0", AdafactorOptions(0.05).weight_decay(0.1));
  run<LBFGS>("LBFGS.0", LBFGSOptions(0.1).max_iter(4).history_size(3));
  run<LBFGS>("LBFGS.1", LBFGSOptions(1).max_iter(5).max_eval(100).line_search_fn("strong_wolfe"));

  RATES(MultiStepLR, std::vector<int64_t>{2, 5, 5}, 0.5);
  RATES(ConstantLR, 0.5, 4);
  RATES(LinearLR, 0.25, 0.75, 6);
  RATES(ExponentialLR, 0.9);
  RATES(PolynomialLR, 8, 2.0);
  RATES(LambdaLR, [](int64_t epoch) { return 1.0 / (1 + static_cast<double>(epoch)); });
  RATES(MultiplicativeLR, [](int64_t epoch) { return epoch % 2 ? 0.5 : 1.5; });
  RATES(CosineAnnealingLR, 5, 0.01);
  RATES(CosineAnnealingWarmRestarts, 3, 2, 0.01);
  RATES(CyclicLR, 0.1, 0.5, 3, 2, CyclicLR::triangular2);
  RATES(OneCycleLR, 0.5, 12);
  RATES(SWALR, 0.02, 6);
  rates("SequentialLR", [](Optimizer& o) {
    std::vector<std::shared_ptr<EpochScheduler>> parts{std::make_shared<ConstantLR>(o, 0.1, 20),
                                                       std::make_shared<ExponentialLR>(o, 0.9)};
    return std::make_shared<SequentialLR>(o, parts, std::vector<int64_t>{4});
  });
  rates("ChainedScheduler", [](Optimizer& o) {
    return std::make_shared<ChainedScheduler>(std::vector<std::shared_ptr<EpochScheduler>>{
        std::make_shared<ConstantLR>(o, 0.1, 5), std::make_shared<ExponentialLR>(o, 0.9)});
  });
}
