// The pickle inside a checkpoint, restricted to what tensors and containers need: nothing in the file can name code to
// run.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "serialization/object.h"

namespace tessera::serialization {

// Gives the storages that a pickle mentions.
class StorageReader {
 public:
  virtual ~StorageReader() = default;
  virtual Storage load(const std::string& key, DType dtype, int64_t numel) = 0;
  virtual Tensor sparse(const SparseParts& parts) = 0;
};

// Protocols 2 to 5. Error for a broken stream, an unsupported opcode or global, a tensor that leaves its storage, a
// container that holds itself, and more than kMaxDepth levels.
inline constexpr int kMaxDepth = 1000;
Object read_pickle(std::span<const uint8_t> data, StorageReader& storages);

// The pickle (protocol 2) of an object, and the storages that it mentions by number.
struct Pickled {
  std::string data;
  std::vector<Storage> storages;
};
// Errors: a tensor that is not on the CPU, a quantized dtype, two dtypes on one storage, more than kMaxDepth levels.
Pickled write_pickle(const Object& object);

// "FloatStorage"; null for dtypes that have no storage class and are written by _rebuild_tensor_v3.
const char* storage_class(DType t);

}  // namespace tessera::serialization
