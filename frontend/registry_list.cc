// The operators of all libraries that the extension links: one include and one name each.
#include <vector>

#include "amp/amp_ops_registry.h"
#include "distributions/distribution_ops_registry.h"
#include "foreach/foreach_registry.h"
#include "nn/nn_ops_registry.h"
#include "optim/optim_ops_registry.h"
#include "fft/fft_registry.h"
#include "linalg/linalg_registry.h"
#include "masked/masked_registry.h"
#include "func/copies/copies_registry.h"
#include "quantization/quantization_registry.h"
#include "signal/signal_registry.h"
#include "sparse/sparse_registry.h"
#include "special/special_registry.h"
#include "tensor/dispatch/registry.h"
#include "tensor/ops/ops_registry.h"

namespace tessera {

OpInfoList all_registered_ops() {
  static const auto* all = [] {
    auto* list = new std::vector<const OpInfo*>;
    for (OpInfoList library :
         {registry_ops(), registry_nn_ops(), registry_optim_ops(), registry_special(), registry_sparse(),
          registry_fft(), registry_linalg(), registry_signal(), registry_copies(), registry_foreach(),
          registry_distribution_ops(), registry_amp_ops(), registry_quantization(), registry_masked()})
      list->insert(list->end(), library.begin(), library.end());
    return list;
  }();
  return *all;
}

}  // namespace tessera
