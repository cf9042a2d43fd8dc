#include "tensor/core/rare/storage_watch.h"

#include <mutex>
#include <unordered_map>

namespace tessera {

extern std::atomic<void (*)(const StorageImpl*)> g_storage_ends;  // of storage.cc
namespace {

struct Watched {
  std::mutex mutex;
  std::unordered_map<const StorageImpl*, IntrusivePtr<StorageWatch>> watches;
};
Watched& watched() {
  static auto* w = new Watched;
  return *w;
}

void tell_watch(const StorageImpl* s) {
  Watched& all = watched();
  const std::lock_guard lock(all.mutex);
  const auto at = all.watches.find(s);
  if (at == all.watches.end()) return;
  at->second->ended.store(true, std::memory_order_release);
  all.watches.erase(at);
  if (all.watches.empty()) g_storage_ends.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

IntrusivePtr<StorageWatch> watch_storage(const StorageImpl& s) {
  Watched& all = watched();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.watches, [](const auto& one) { return one.second->use_count() == 1; });  // nobody holds it any more
  auto& watch = all.watches[&s];
  if (!watch) watch = make_intrusive<StorageWatch>();
  g_storage_ends.store(&tell_watch, std::memory_order_release);
  return watch;
}

}  // namespace tessera
