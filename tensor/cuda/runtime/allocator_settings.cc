#include <bit>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "tensor/core/error.h"
#include "tensor/cuda/runtime/allocator_internal.h"

namespace tessera::cuda {
namespace {

constexpr size_t kMiB = 1 << 20;

std::string_view trim(std::string_view s) {
  while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
  while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
  return s;
}

template <class T>
T parse_number(std::string_view option, std::string_view s) {
  T v{};
  const auto r = std::from_chars(s.data(), s.data() + s.size(), v);
  TESSERA_CHECK_VALUE(r.ec == std::errc() && r.ptr == s.data() + s.size(), "Error parsing CachingAllocator option ",
                      option, ": '", s, "' is not a number");
  return v;
}

bool parse_bool(std::string_view option, std::string_view s) {
  TESSERA_CHECK_VALUE(s == "True" || s == "False", "Expected a single True/False argument for ", option);
  return s == "True";
}

// Takes the text up to one of `ends` that is not within brackets; the end itself is dropped.
std::string_view take(std::string_view* rest, char end) {
  int depth = 0;
  for (size_t i = 0; i < rest->size(); ++i) {
    const char c = (*rest)[i];
    if (c == '[')
      ++depth;
    else if (c == ']')
      --depth;
    else if (c == end && depth == 0) {
      const std::string_view part = rest->substr(0, i);
      rest->remove_prefix(i + 1);
      return trim(part);
    }
  }
  return trim(std::exchange(*rest, {}));
}

size_t check_power(size_t v) {
  TESSERA_CHECK_VALUE(std::has_single_bit(v), "For roundups, the divisions has to be power of 2 ");
  return v;
}

size_t division_slot(size_t size) {
  const int power = size == 0 ? 0 : static_cast<int>(std::bit_width(size)) - 1;
  return static_cast<size_t>(std::clamp(power - 20, 0, 15));
}

// "4", or "[256:1,512:2,1024:4,>:8]" with sizes in MiB.
void parse_divisions(std::string_view s, AllocatorSettings* to) {
  if (s.empty() || s.front() != '[') {
    std::fill(to->power2_divisions, to->power2_divisions + 16,
              check_power(parse_number<size_t>("roundup_power2_divisions", s)));
    return;
  }
  TESSERA_CHECK_VALUE(s.back() == ']',
                      "Error parsing CachingAllocator option roundup_power2_divisions: ']' is missing");
  std::string_view rest = s.substr(1, s.size() - 2);
  size_t next = 0;
  while (!rest.empty()) {
    std::string_view item = take(&rest, ',');
    const std::string_view size = take(&item, ':');
    const size_t divisions = check_power(parse_number<size_t>("roundup_power2_divisions", item));
    size_t last = 15;
    if (size != ">") {
      const auto mib = parse_number<size_t>("roundup_power2_divisions", size);
      TESSERA_CHECK_VALUE(std::has_single_bit(mib), "For roundups, the intervals have to be power of 2 ");
      last = division_slot(mib * kMiB);
    }
    for (; next <= last; ++next) to->power2_divisions[next] = divisions;
  }
}

}  // namespace

AllocatorSettings parse_allocator_settings(const std::string& text) {
  AllocatorSettings s;
  s.text = text;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view value = take(&rest, ',');
    if (value.empty()) continue;
    const std::string_view option = take(&value, ':');
    value = trim(value);
    if (option == "max_split_size_mb") {
      const auto mib = parse_number<size_t>(option, value);
      TESSERA_CHECK_VALUE(mib > 20, "CachingAllocator option max_split_size_mb too small, must be > 20");
      s.max_split_size = std::min<size_t>(mib, SIZE_MAX / kMiB) * kMiB;
    } else if (option == "garbage_collection_threshold") {
      s.garbage_collection_threshold = parse_number<double>(option, value);
      TESSERA_CHECK_VALUE(s.garbage_collection_threshold > 0, "garbage_collect_threshold too small, set it 0.0~1.0");
      TESSERA_CHECK_VALUE(s.garbage_collection_threshold < 1, "garbage_collect_threshold too big, set it 0.0~1.0");
    } else if (option == "roundup_power2_divisions") {
      parse_divisions(value, &s);
    } else if (option == "expandable_segments") {
      s.expandable_segments = parse_bool(option, value);
    } else if (option == "release_lock_on_cudamalloc" || option == "release_lock_on_hipmalloc" ||
               option == "pinned_use_cuda_host_register" || option == "pinned_use_hip_host_register" ||
               option == "pinned_use_background_threads" || option == "graph_capture_record_stream_reuse") {
      parse_bool(option, value);  // no effect here
    } else if (option == "max_non_split_rounding_mb" || option == "pinned_num_register_threads" ||
               option == "pinned_reserve_segment_size_mb") {
      parse_number<size_t>(option, value);  // no effect here
    } else if (option == "backend") {
      TESSERA_CHECK_VALUE(value == "native" || value == "cudaMallocAsync",
                          "Unknown allocator backend, options are native and cudaMallocAsync");
    } else {
      tessera::internal::raise<ValueError>("Unrecognized CachingAllocator option: ", option);
    }
  }
  return s;
}

AllocatorSettings environment_allocator_settings() {
  for (const char* name : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"}) {
    if (const char* s = std::getenv(name)) return parse_allocator_settings(s);
  }
  return {};
}

size_t round_block_size(size_t n, const AllocatorSettings& settings) {
  if (n < 512) return 512;
  const size_t divisions = settings.power2_divisions[division_slot(n)];
  if (divisions > 1 && n > 512 * divisions && !std::has_single_bit(n)) {
    const size_t power = std::bit_floor(n), step = power / divisions;
    return step == 0 ? power * 2 : (n + step - 1) / step * step;
  }
  return (n + 511) / 512 * 512;
}

std::string format_size(uint64_t n) {
  char text[48];
  const double d = static_cast<double>(n);
  if (n <= 1024)
    std::snprintf(text, sizeof text, "%llu bytes", static_cast<unsigned long long>(n));
  else if (n <= 1 << 20)
    std::snprintf(text, sizeof text, "%.2f KiB", d / 1024);
  else if (n <= 1 << 30)
    std::snprintf(text, sizeof text, "%.2f MiB", d / (1 << 20));
  else
    std::snprintf(text, sizeof text, "%.2f GiB", d / (1 << 30));
  return text;
}

}  // namespace tessera::cuda
