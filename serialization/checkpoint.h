// Checkpoints in the zip format of torch.save, both ways: a file that PyTorch or Python wrote loads here, and the other
// way round.
//
//   serialization::save(model.state_dict(), "model.pt");
//   model.load_state_dict(serialization::load_state_dict("model.pt"));
//
// An archive of
// * <name>/data.pkl: a pickle, where tensors name their storages by ('storage', class, key, location, elements)
// * <name>/data/<key>: the raw bytes of each storage, at a multiple of 64 bytes in the file
// * <name>/byteorder, <name>/version, <name>/.format_version, <name>/.storage_alignment, <name>/.data/serialization_id
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "serialization/object.h"

namespace tessera::serialization {

// Reads a checkpoint of tensors, numbers, strings and containers of them; all tensors come to the CPU. Throws Error for
// a file that can't be read, is no checkpoint, is damaged, or needs any other class or function. Nothing from the file
// is ever run. mapped: the tensors' memory is the file's, page by page when it is used, as by torch.load(mmap=True);
// writes stay in memory, checksums are not compared, and the file must stay as it is.
Object load(const std::string& path, bool mapped = false);
// Sparse tensors are what `sparse` makes of their parts; without it they are an Error.
Object load(std::span<const uint8_t> data, const std::function<Tensor(const SparseParts&)>& sparse = {});
// The same for a checkpoint that is one dict from names to tensors. TypeError if it is not.
StateDict load_state_dict(const std::string& path, bool mapped = false);

// Writes a checkpoint. A failure leaves what was at the path before. Errors: see write_pickle in pickle.h; a path that
// can't be written.
void save(const Object& object, const std::string& path);
void save(const StateDict& tensors, const std::string& path);
std::vector<uint8_t> save(const Object& object);

}  // namespace tessera::serialization
