// Who wants to know whether a storage still exists, without keeping it.
#pragma once

#include <atomic>

#include "tensor/core/storage.h"

namespace tessera {

class StorageWatch final : public RefCounted {
 public:
  std::atomic<bool> ended{false};
};

// The watch of a storage: one for each, which outlives it as long as somebody holds it. Nobody watches most storages,
// and then their end costs one load more.
IntrusivePtr<StorageWatch> watch_storage(const StorageImpl& s);

}  // namespace tessera
