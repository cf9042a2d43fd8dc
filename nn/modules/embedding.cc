#include "nn/embedding_ops.h"
#include "nn/modules/init.h"
#include "nn/modules/layers.h"

namespace tessera::nn {

Embedding::Embedding(int64_t num_embeddings, int64_t embedding_dim, EmbeddingOptions options)
    : num_embeddings(num_embeddings), embedding_dim(embedding_dim), options(options) {
  TESSERA_CHECK_AS(
      AssertionError,
      !options.padding_idx || (*options.padding_idx < num_embeddings && *options.padding_idx >= -num_embeddings),
      "Padding_idx must be within num_embeddings");
  weight = register_parameter("weight", empty_kernel(IntVector{num_embeddings, embedding_dim}, options.dtype));
  reset_parameters();
}

int64_t Embedding::padding_row() const {
  if (!options.padding_idx) return -1;
  return *options.padding_idx < 0 ? *options.padding_idx + num_embeddings : *options.padding_idx;
}

void Embedding::reset_parameters() {
  init::normal_(weight);
  if (options.padding_idx)
    init::zeros_(make_view(weight, IntVector{embedding_dim}, IntVector{1}, padding_row() * embedding_dim));
}

Tensor Embedding::forward(const Tensor& input) {
  return embedding(weight, input, padding_row(), options.scale_grad_by_freq);
}

std::string Embedding::extra_repr() const {
  std::string s = std::to_string(num_embeddings) + ", " + std::to_string(embedding_dim);
  if (options.padding_idx) s += ", padding_idx=" + std::to_string(padding_row());
  if (options.scale_grad_by_freq) s += ", scale_grad_by_freq=True";
  return s;
}

}  // namespace tessera::nn
