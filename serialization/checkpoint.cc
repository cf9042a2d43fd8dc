#include "serialization/checkpoint.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>

#include "serialization/pickle.h"
#include "serialization/zip.h"

namespace tessera::serialization {
namespace {

// A file in memory. What is written there stays there.
class Mapping final : public RefCounted {
 public:
  Mapping(const std::string& path, size_t size) : size_(size) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    void* p = file < 0 ? MAP_FAILED : mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    if (file >= 0) close(file);
    TESSERA_CHECK(p != MAP_FAILED, "can't map '", path, "' into memory");
    data_ = static_cast<uint8_t*>(p);
  }
  ~Mapping() override { munmap(data_, size_); }
  // Bytes that keep the mapping alive.
  Storage part(uint64_t offset, size_t bytes) {
    const auto release = [](void*, void* context, size_t) { delete static_cast<IntrusivePtr<Mapping>*>(context); };
    return StorageImpl::wrap(data_ + offset, bytes, Device(), release,
                             new IntrusivePtr<Mapping>(IntrusivePtr<Mapping>::share(this)));
  }

 private:
  uint8_t* data_ = nullptr;
  size_t size_;
};

using SparseMaker = std::function<Tensor(const SparseParts&)>;

class RecordStorages final : public StorageReader {
 public:
  // mapping: of the archive's file, or null to read it.
  RecordStorages(ZipReader& zip, bool swap, IntrusivePtr<Mapping> mapping, const SparseMaker& sparse)
      : zip_(zip), swap_(swap), mapping_(std::move(mapping)), sparse_(sparse) {}

  Storage load(const std::string& key, DType dtype, int64_t numel) override {
    const auto known = loaded_.find(key);
    if (known != loaded_.end()) {
      TESSERA_CHECK(known->second.dtype == dtype && known->second.numel == numel, "storage ", key.substr(0, 100),
                    " is described in two ways");
      return known->second.storage;
    }
    const std::string name = "data/" + key;
    const uint64_t size = zip_.record_size(name);
    int64_t bytes;
    TESSERA_CHECK(!__builtin_mul_overflow(numel, item_size(dtype), &bytes) && static_cast<uint64_t>(bytes) == size,
                  "storage ", key.substr(0, 100), " should have ", numel, " elements of dtype ", name_of(dtype),
                  ", but its record has ", size, " bytes");
    const Storage storage = mapping_ && size > 0 ? mapped(name, size) : read(name, size);
    if (swap_) swap_bytes({static_cast<uint8_t*>(storage->data()), size}, dtype);
    loaded_.emplace(key, Loaded{storage, dtype, numel});
    return storage;
  }
  Tensor sparse(const SparseParts& parts) override {
    TESSERA_CHECK(sparse_, "Weights only load failed: the file holds a sparse tensor (", parts.layout.substr(0, 100),
                  "), which is not read here");
    return sparse_(parts);
  }

 private:
  struct Loaded {
    Storage storage;
    DType dtype;
    int64_t numel;
  };

  Storage read(const std::string& name, uint64_t size) {
    Storage storage = StorageImpl::allocate(size);
    zip_.read(name, {static_cast<uint8_t*>(storage->data()), size});
    return storage;
  }
  // Engines take elements at multiples of their size, which other programs' archives need not keep to.
  Storage mapped(const std::string& name, uint64_t size) {
    const uint64_t offset = zip_.record_offset(name);
    return offset % 16 == 0 ? mapping_->part(offset, size) : read(name, size);
  }

  static void swap_bytes(std::span<uint8_t> data, DType dtype) {
    const size_t width = item_size(dtype) / (is_complex(dtype) ? 2 : 1);
    for (size_t i = 0; width > 1 && i + width <= data.size(); i += width)
      std::reverse(data.begin() + i, data.begin() + i + width);
  }

  ZipReader& zip_;
  bool swap_;
  IntrusivePtr<Mapping> mapping_;
  const SparseMaker& sparse_;
  std::unordered_map<std::string, Loaded> loaded_;
};

bool needs_swap(ZipReader& zip) {
  if (!zip.has("byteorder")) return false;
  TESSERA_CHECK(zip.record_size("byteorder") <= 6, "Unknown endianness type");
  const std::vector<uint8_t> order = zip.read("byteorder");
  const std::string_view text(reinterpret_cast<const char*>(order.data()), order.size());
  TESSERA_CHECK_VALUE(text == "little" || text == "big", "Unknown endianness type: ", text);
  return (text == "big") != (std::endian::native == std::endian::big);
}

Object load_from(Source& source, const SparseMaker& sparse, IntrusivePtr<Mapping> mapping = {}) {
  uint8_t magic[4] = {};
  if (source.size() >= sizeof magic) source.read(0, magic);
  TESSERA_CHECK(std::memcmp(magic, "PK\3\4", 4) == 0, "the file is not a checkpoint in the zip format of torch.save");
  ZipReader zip(source);
  TESSERA_CHECK(!zip.has("constants.pkl"), "the file is a TorchScript archive, not a checkpoint of tensors");
  RecordStorages storages(zip, needs_swap(zip), std::move(mapping), sparse);
  return read_pickle(zip.read("data.pkl"), storages);
}

// 20 digits of the checksum of the names and 20 of that of the contents.
std::string serialization_id(const std::string& names, const std::vector<uint8_t>& checksums) {
  std::string id;
  for (uint32_t crc : {crc32(as_bytes(names)), crc32(checksums)}) {
    const std::string digits = std::to_string(crc);
    id += std::string(20 - digits.size(), '0') + digits;
  }
  return id;
}

void save_to(Sink& sink, const std::string& name, const Object& object) {
  const Pickled pickled = write_pickle(object);  // first: what can't be saved leaves no file
  ZipWriter zip(sink, name);
  std::string names;
  std::vector<uint8_t> checksums;
  const auto record = [&](const std::string& record_name, std::span<const uint8_t> data) {
    const uint32_t crc = zip.write(record_name, data);
    names += record_name;
    for (int i = 0; i < 4; ++i) checksums.push_back(static_cast<uint8_t>(crc >> (8 * i)));
  };
  record("data.pkl", as_bytes(pickled.data));
  record(".format_version", as_bytes("1"));
  record(".storage_alignment", as_bytes("64"));
  record("byteorder", as_bytes(std::endian::native == std::endian::little ? "little" : "big"));
  for (size_t i = 0; i < pickled.storages.size(); ++i)
    record("data/" + std::to_string(i),
           {static_cast<const uint8_t*>(pickled.storages[i]->data()), pickled.storages[i]->nbytes()});
  record("version", as_bytes("3\n"));
  zip.write(".data/serialization_id", as_bytes(serialization_id(names, checksums)));
  zip.close();
}

// "dir/model.pt" -> "model"
std::string archive_name(const std::string& path) {
  std::string name = path.substr(path.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  if (dot != std::string::npos && dot != 0) name.resize(dot);
  return name.empty() ? "archive" : name;
}

}  // namespace

Object load(const std::string& path, bool mapped) {
  FileSource source(path);
  return load_from(source, {}, mapped && source.size() > 0 ? make_intrusive<Mapping>(path, source.size()) : nullptr);
}

Object load(std::span<const uint8_t> data, const SparseMaker& sparse) {
  MemorySource source(data);
  return load_from(source, sparse);
}

StateDict load_state_dict(const std::string& path, bool mapped) { return load(path, mapped).as_state_dict(); }

void save(const Object& object, const std::string& path) {
  FileSink sink(path);
  save_to(sink, archive_name(path), object);
  sink.close();
}

void save(const StateDict& tensors, const std::string& path) { save(Object(tensors), path); }

std::vector<uint8_t> save(const Object& object) {
  MemorySink sink;
  save_to(sink, "archive", object);
  return sink.take();
}

}  // namespace tessera::serialization
