// Factories by name, which files register before main() runs: C10_DECLARE_REGISTRY, C10_DEFINE_REGISTRY,
// C10_REGISTER_CLASS.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include "c10/util/Exception.h"

namespace c10 {

template <class Key, class Pointer, class... Args>
class Registry {
 public:
  using Creator = std::function<Pointer(Args...)>;
  // Error for a name that is taken.
  void Register(const Key& key, Creator creator, const std::string& help = "") {
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(creators_.emplace(key, std::move(creator)).second, "Key already registered: ", key);
    if (!help.empty()) help_[key] = help;
  }
  bool Has(const Key& key) const {
    const std::lock_guard lock(mutex_);
    return creators_.contains(key);
  }
  // Null where nothing has that name.
  Pointer Create(const Key& key, Args... args) const {
    Creator creator;
    {
      const std::lock_guard lock(mutex_);
      const auto it = creators_.find(key);
      if (it == creators_.end()) return nullptr;
      creator = it->second;
    }
    return creator(std::forward<Args>(args)...);
  }
  std::vector<Key> Keys() const {
    const std::lock_guard lock(mutex_);
    std::vector<Key> keys;
    for (const auto& [key, creator] : creators_) keys.push_back(key);
    return keys;
  }
  std::string HelpMessage(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto it = help_.find(key);
    return it == help_.end() ? std::string() : it->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Creator> creators_;
  std::map<Key, std::string> help_;
};

template <class Key, class Pointer, class... Args>
class Registerer {
 public:
  using Kept = Registry<Key, Pointer, Args...>;
  Registerer(const Key& key, Kept* registry, typename Kept::Creator creator, const std::string& help = "") {
    registry->Register(key, std::move(creator), help);
  }
  template <class Derived>
  static Pointer DefaultCreator(Args... args) {
    return Pointer(new Derived(std::forward<Args>(args)...));
  }
};

}  // namespace c10

#define TESSERA_DECLARE_REGISTRY(name, Object, Pointer, ...)                        \
  ::c10::Registry<std::string, Pointer<Object> __VA_OPT__(, ) __VA_ARGS__>* name(); \
  using Registerer##name = ::c10::Registerer<std::string, Pointer<Object> __VA_OPT__(, ) __VA_ARGS__>
#define TESSERA_DEFINE_REGISTRY(name, Object, Pointer, ...)                                                 \
  ::c10::Registry<std::string, Pointer<Object> __VA_OPT__(, ) __VA_ARGS__>* name() {                        \
    static auto* registry = new ::c10::Registry<std::string, Pointer<Object> __VA_OPT__(, ) __VA_ARGS__>(); \
    return registry;                                                                                        \
  }
#define C10_DECLARE_REGISTRY(name, Object, ...) \
  TESSERA_DECLARE_REGISTRY(name, Object, std::unique_ptr __VA_OPT__(, ) __VA_ARGS__)
#define C10_DEFINE_REGISTRY(name, Object, ...) \
  TESSERA_DEFINE_REGISTRY(name, Object, std::unique_ptr __VA_OPT__(, ) __VA_ARGS__)
#define C10_DECLARE_SHARED_REGISTRY(name, Object, ...) \
  TESSERA_DECLARE_REGISTRY(name, Object, std::shared_ptr __VA_OPT__(, ) __VA_ARGS__)
#define C10_DEFINE_SHARED_REGISTRY(name, Object, ...) \
  TESSERA_DEFINE_REGISTRY(name, Object, std::shared_ptr __VA_OPT__(, ) __VA_ARGS__)
#define C10_REGISTER_CREATOR(name, key, ...) \
  static const Registerer##name C10_ANONYMOUS_VARIABLE(registered_##name)(#key, name(), __VA_ARGS__)
#define C10_REGISTER_CLASS(name, key, ...)                                 \
  static const Registerer##name C10_ANONYMOUS_VARIABLE(registered_##name)( \
      #key, name(), Registerer##name::DefaultCreator<__VA_ARGS__>)
