#include "tensor/core/rare/device_alias.h"

#include <atomic>
#include <cctype>
#include <mutex>
#include <string_view>

#include "tensor/core/device.h"
#include "tensor/core/error.h"

namespace tessera {

extern std::atomic<const char*> g_private_device_name;  // of device.cc
namespace {
constexpr std::string_view kFirstName = "privateuseone";

bool is_identifier(const std::string& name) {
  bool good = !name.empty() && !std::isdigit(static_cast<unsigned char>(name[0]));
  for (const char c : name) good = good && (std::isalnum(static_cast<unsigned char>(c)) || c == '_');
  return good;
}
bool is_device(const std::string& name) {
  try {
    Device{name};
    return true;
  } catch (const Error&) { return false; }
}
}  // namespace

const char* private_device_name() { return g_private_device_name.load(); }

void rename_private_device(const std::string& name) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  const std::string_view now = private_device_name();
  if (now == name) return;
  TESSERA_CHECK(now == kFirstName, "torch.register_privateuse1_backend() has already been set! Current backend: ", now);
  TESSERA_CHECK(is_identifier(name), "the name of a backend is an identifier, but got '", name, "'");
  TESSERA_CHECK(!is_device(name), "Cannot register privateuse1 backend with the name ", name,
                ", which is another device's");
  g_private_device_name.store((new std::string(name))->c_str());  // for ever
}

}  // namespace tessera
