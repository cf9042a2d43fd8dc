// Continues a list of tokens with a GPT-2, whose weights come from a checkpoint of its state dict as torch.save wrote
// it (names and shapes of transformers' GPT2LMHeadModel):
//
//   generate CHECKPOINT [--prompt 464,2068] [--tokens 20] [--heads N] [--temperature 1.0] [--top-k 0] [--seed 0]
//
// Prints one token a line. Keys and values of earlier tokens are kept, so that each costs one row. --top-k 1 takes the
// likeliest; tokens are drawn as torch.multinomial draws them after torch.manual_seed(seed).
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_map>
#include <vector>

#include "nn/activation_ops.h"
#include "nn/attention_ops.h"
#include "nn/embedding_ops.h"
#include "nn/norm_ops.h"
#include "serialization/checkpoint.h"
#include "tensor/ops/api.h"

namespace {

using namespace tessera;

class Weights {
 public:
  explicit Weights(const std::string& path) {
    for (auto& [name, t] : serialization::load_state_dict(path, /*mapped=*/true)) {
      const std::string prefix = "transformer.";
      by_name_[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = t;
    }
  }
  bool has(const std::string& name) const { return by_name_.count(name) != 0; }
  const Tensor& operator[](const std::string& name) const {
    const auto found = by_name_.find(name);
    TESSERA_CHECK(found != by_name_.end(), "the checkpoint has no tensor '", name, "'");
    return found->second;
  }

 private:
  std::unordered_map<std::string, Tensor> by_name_;
};

// Weights lie as (in, out).
struct Affine {
  Affine(const Weights& w, const std::string& name) : weight(w[name + ".weight"]), bias(w[name + ".bias"]) {}
  Tensor operator()(const Tensor& x) const { return addmm(bias, x, weight); }
  Tensor weight, bias;
};
struct Norm {
  Norm(const Weights& w, const std::string& name) : weight(w[name + ".weight"]), bias(w[name + ".bias"]) {}
  Tensor operator()(const Tensor& x) const { return layer_norm(x, IntVector{x.size(-1)}, weight, bias, 1e-5); }
  Tensor weight, bias;
};

// Rows of x: (tokens, width).
class Block {
 public:
  Block(const Weights& w, const std::string& name, int64_t heads, int64_t context)
      : norm1_(w, name + ".ln_1"),
        norm2_(w, name + ".ln_2"),
        qkv_(w, name + ".attn.c_attn"),
        joined_(w, name + ".attn.c_proj"),
        up_(w, name + ".mlp.c_fc"),
        down_(w, name + ".mlp.c_proj"),
        heads_(heads) {
    const int64_t width = joined_.weight.size(0);
    keys_ = empty(IntVector{1, heads, context, width / heads}, keys_type());
    values_ = empty(IntVector{1, heads, context, width / heads}, keys_type());
  }

  // x: the rows of tokens at place `from` and after it.
  Tensor operator()(const Tensor& x, int64_t from) {
    const Tensor h = x.add(joined_(attend(qkv_(norm1_(x)), from)));
    return h.add(down_(gelu(up_(norm2_(h)), "tanh")));
  }

 private:
  DType keys_type() const { return joined_.weight.dtype(); }
  Tensor attend(const Tensor& qkv, int64_t from) {
    const int64_t tokens = qkv.size(0), width = qkv.size(1) / 3;
    const auto part = [&](int64_t i) {  // (1, heads, tokens, width of a head)
      return qkv.narrow(1, i * width, width).reshape(IntVector{1, tokens, heads_, width / heads_}).transpose(1, 2);
    };
    keys_.narrow(2, from, tokens).copy_(part(1));
    values_.narrow(2, from, tokens).copy_(part(2));
    // One new token sees all; the prompt, which comes first, looks back.
    const Tensor seen = scaled_dot_product_attention(part(0), keys_.narrow(2, 0, from + tokens),
                                                     values_.narrow(2, 0, from + tokens), {}, 0.0, tokens > 1);
    return seen.transpose(1, 2).reshape(IntVector{tokens, width});
  }

  Norm norm1_, norm2_;
  Affine qkv_, joined_, up_, down_;
  int64_t heads_;
  Tensor keys_, values_;
};

class Gpt {
 public:
  Gpt(const Weights& w, int64_t heads) : tokens_(w["wte.weight"]), places_(w["wpe.weight"]), last_(w, "ln_f") {
    const int64_t width = tokens_.size(1);
    if (heads == 0) heads = std::max<int64_t>(1, width / 64);
    TESSERA_CHECK(width % heads == 0, "a width of ", width, " cannot be cut into ", heads, " heads");
    for (int64_t i = 0; w.has("h." + std::to_string(i) + ".ln_1.weight"); ++i)
      blocks_.emplace_back(w, "h." + std::to_string(i), heads, context());
    head_ = w.has("lm_head.weight") ? w["lm_head.weight"] : tokens_;
  }
  int64_t context() const { return places_.size(0); }

  // The logits of what follows the tokens, of which `seen` have been given before.
  Tensor operator()(const std::vector<int64_t>& all) {
    const int64_t from = seen_, n = static_cast<int64_t>(all.size()) - from;
    const Tensor ids = empty(IntVector{n}, DType::kInt64);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t id = all[static_cast<size_t>(from + i)];
      TESSERA_CHECK_AS(IndexError, id >= 0 && id < tokens_.size(0), "there is no token ", id);
      ids.data<int64_t>()[i] = id;
    }
    Tensor x = embedding(tokens_, ids).add(places_.narrow(0, from, n));
    for (Block& block : blocks_) x = block(x, from);
    seen_ += n;
    return head_.mv(last_(x.narrow(0, n - 1, 1)).squeeze(0));
  }

 private:
  Tensor tokens_, places_, head_;
  Norm last_;
  std::vector<Block> blocks_;
  int64_t seen_ = 0;
};

// Draws from the k likeliest (all of them for 0).
int64_t sample(const Tensor& logits, double temperature, int64_t top_k) {
  if (top_k == 1) return logits.argmax().item<int64_t>();
  Tensor scaled = logits.div(temperature);
  if (top_k > 0 && top_k < logits.size(0)) {
    const Tensor least = std::get<0>(scaled.topk(top_k)).narrow(0, top_k - 1, 1);
    scaled = scaled.masked_fill(scaled.lt(least), -std::numeric_limits<double>::infinity());
  }
  return scaled.softmax(0).multinomial(1).item<int64_t>();
}

std::string option(int argc, char** argv, const std::string& name, const std::string& otherwise) {
  for (int i = 2; i + 1 < argc; i += 2)
    if ("--" + name == argv[i]) return argv[i + 1];
  return otherwise;
}

std::vector<int64_t> numbers(const std::string& text) {
  std::vector<int64_t> all;
  for (const char* p = text.c_str(); *p;) {
    char* end = nullptr;
    all.push_back(std::strtoll(p, &end, 10));
    TESSERA_CHECK_AS(ValueError, end != p && (*end == ',' || *end == '\0'), "no list of tokens: ", text);
    p = *end ? end + 1 : end;
  }
  return all;
}

int run(int argc, char** argv) {
  TESSERA_CHECK_AS(ValueError, argc >= 2 && argc % 2 == 0, "usage: generate CHECKPOINT [--OPTION VALUE ...]");
  const auto number = [&](const char* name, const char* otherwise) {
    return std::atoll(option(argc, argv, name, otherwise).c_str());
  };
  Gpt gpt(Weights(argv[1]), number("heads", "0"));
  std::vector<int64_t> tokens = numbers(option(argc, argv, "prompt", "0"));
  TESSERA_CHECK_AS(ValueError, !tokens.empty(), "--prompt needs a token");
  const double temperature = std::atof(option(argc, argv, "temperature", "1.0").c_str());
  TESSERA_CHECK_AS(ValueError, temperature > 0, "--temperature must be positive");
  default_cpu_generator()->manual_seed(static_cast<uint64_t>(number("seed", "0")));
  for (int64_t n = number("tokens", "20"); n > 0 && static_cast<int64_t>(tokens.size()) <= gpt.context(); --n) {
    tokens.push_back(sample(gpt(tokens), temperature, number("top-k", "0")));
    std::printf("%lld\n", static_cast<long long>(tokens.back()));
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "generate: %s\n", error.what());
    return 1;
  }
}
