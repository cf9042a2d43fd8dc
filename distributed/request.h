#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "distributed/base.h"
#include "distributed/reduce.h"

namespace tessera::distributed {

// The numbers are in python/tessera/distributed/_gloo.py.
enum class Collective : uint8_t {
  kAllReduce,      // out in place, one or more buffers that are reduced as if they lay one behind the other
  kBroadcast,      // out[0] in place, from root
  kReduce,         // out[0] in place on root
  kAllGather,      // in[0] to out[rank] of everyone; sizes may differ between ranks
  kGather,         // in[0] to out[rank] of root
  kScatter,        // in[rank] of root to out[0]
  kReduceScatter,  // the fold of everyone's in[rank] to out[0] of that rank
  kAllToAll,       // in[j] to out[rank] of j
  kBarrier,
};

struct Buffer {
  char* data = nullptr;
  size_t size = 0;  // bytes
};

// One call of a collective, as one rank makes it. The memory is the caller's until the call is done.
struct Request {
  Collective what = Collective::kBarrier;
  Kind kind = Kind::kBytes;
  Fold fold = Fold::kSum;
  int root = 0;
  std::vector<Buffer> in, out;
  double scale = 1;       // kAllReduce of kF32 and kF64: what everyone multiplies with what he gives
  double timeout = 1800;  // seconds
};

const char* name_of(Collective what);

// How a group's members reach each other. An engine carries out one request after the other, on any thread.
class Engine {
 public:
  virtual ~Engine() = default;
  virtual void run(const Request& request) = 0;
  // Ends a run on another thread with an error, and all to come.
  virtual void abort(const std::string& why) = 0;
};

}  // namespace tessera::distributed
