// CUPTI, found at run time. What is used of its interface is declared here, with names of our own: records as the
// library lays them out, from CUDA 11 to 13 (later versions only add members behind), so that no version of its headers
// is needed. The values are those of NVIDIA's documents, "CUPTI Activity API".
#pragma once

#include <cstddef>
#include <cstdint>

namespace tessera::cuda::cupti {

enum class Status : int32_t { kSuccess = 0, kNotInitialized = 15, kNoMoreRecords = 12, kNoPrivileges = 35 };
enum class RecordKind : uint32_t {
  kCopy = 1,
  kSet = 2,
  kDriver = 4,
  kRuntime = 5,
  kKernel = 10,  // of those that may run at the same time, as all are meant to
  kPeerCopy = 22,
  kOwner = 39,  // which pushed number a call belongs to
};
enum class Domain : uint32_t { kDriver = 1, kRuntime = 2 };
enum class CopyKind : uint8_t { kToDevice = 1, kToHost = 2, kOnDevice = 8, kOnHost = 9, kBetweenDevices = 10 };
enum class MemoryKind : uint8_t { kUnknown = 0, kPageable = 1, kPinned = 2, kDevice = 3, kArray = 4, kManaged = 5 };
inline constexpr uint32_t kOwners = 3;         // the first kind of numbers that is anybody's
inline constexpr uint32_t kSystemThreads = 1;  // threads by the system's numbers
inline constexpr uint32_t kForced = 1;         // also buffers with records that are not complete

// Times are in nanoseconds of CUPTI's clock.
struct Record {
  RecordKind kind;
};
struct KernelRecord {
  RecordKind kind;
  uint16_t cache;
  uint16_t registers;
  uint64_t partitions;
  uint64_t start, end, completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  int32_t static_shared, dynamic_shared;
  uint32_t local, local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;  // mangled
};
struct CopyRecord {
  RecordKind kind;
  CopyKind copy;
  MemoryKind from, to;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start, end;
  uint32_t device, context, stream;
  uint32_t correlation;  // of kCopy; kPeerCopy has devices and contexts first
};
struct PeerCopyRecord {
  CopyRecord first;  // its correlation is the source's device
  uint32_t source_context, target_device, target_context;
  uint32_t correlation;
};
struct SetRecord {
  RecordKind kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start, end;
  uint32_t device, context, stream;
  uint32_t correlation;
  uint16_t flags, memory;
};
struct CallRecord {
  RecordKind kind;
  uint32_t function;
  uint64_t start, end;
  uint32_t process, thread;
  uint32_t correlation;
  uint32_t result;
};
struct OwnerRecord {
  RecordKind kind;
  uint32_t owners;
  uint64_t owner;
  uint32_t correlation;
  uint32_t reserved;
};
static_assert(offsetof(KernelRecord, device) == 40 && offsetof(KernelRecord, correlation) == 92 &&
              offsetof(KernelRecord, name) == 104);
static_assert(offsetof(CopyRecord, correlation) == 44 && offsetof(PeerCopyRecord, correlation) == 60);
static_assert(offsetof(SetRecord, correlation) == 44 && offsetof(SetRecord, memory) == 50);
static_assert(offsetof(CallRecord, thread) == 28 && sizeof(CallRecord) == 40);
static_assert(offsetof(OwnerRecord, correlation) == 16 && sizeof(OwnerRecord) == 24);

// Asked for by the library, and given back with valid_bytes of records in it, on any thread.
using GiveBuffer = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using TakeBuffer = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes, size_t valid_bytes);

// The functions that are used.
struct Functions {
  Status (*set_buffers)(GiveBuffer give, TakeBuffer take);
  Status (*enable)(RecordKind kind);
  Status (*disable)(RecordKind kind);
  Status (*flush)(uint32_t flags);
  Status (*next_record)(uint8_t* buffer, size_t valid_bytes, Record** record);  // *record: the last one, at first null
  Status (*push)(uint32_t owners, uint64_t owner);
  Status (*pop)(uint32_t owners, uint64_t* owner);
  Status (*now)(uint64_t* ns);
  Status (*set_threads)(uint32_t type);
  Status (*function_name)(Domain domain, uint32_t function, const char** name);
  Status (*text_of)(Status status, const char** text);
};

// Null where the library is missing; then *why says why.
const Functions* functions(const char** why);

}  // namespace tessera::cuda::cupti
