#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "distributed/frame.h"
#include "distributed/socket.h"

namespace tessera::distributed {

// What may be asked of a store. The numbers are on the wire, and in python/tessera/distributed/_stores.py.
enum class Ask : uint8_t {
  kHello = 1,   // the first frame of a connection: the protocol's name
  kSet,         // key, value; no reply if the id is 0
  kGet,         // keys: waits for all of them; their values
  kAdd,         // key, number; the new number
  kAppend,      // key, value
  kCheck,       // keys; "1" if all are there, else "0"
  kCompareSet,  // key, expected, desired; the value that is there now
  kDelete,      // key; "1" or "0"
  kMultiSet,    // key, value, key, value, ...
  kCount,       // number of keys
  kList,        // the keys
  kWait,        // keys: waits for all of them
  kPush,        // key, value
  kPop,         // key, "1" to wait for a value; the value
  kLength,      // key; length of its queue
  kCancel,      // forgets the waiting request of that id (decimal); no reply
};

enum class Reply : uint8_t { kGood = 0, kError = 1, kEmpty = 2 };

inline constexpr std::string_view kProtocol = "tessera-store-1";

// The keys and values of a store, without waiting and without locks.
class Table {
 public:
  struct Answer {
    Reply code = Reply::kGood;
    std::vector<std::string> fields;
  };
  // Does what is asked. False: it has to wait (kGet, kWait, kPop) until a key is there.
  bool answer(const Frame& request, Answer& out);
  // Keys that came to be (or queues that grew) since the last call; waiting requests look at them.
  bool take_changed() { return std::exchange(changed_, false); }

 private:
  bool has(const std::string& key) const;
  void add(const Frame& request, Answer& out);
  void compare_set(const Frame& request, Answer& out);
  bool pop(const Frame& request, Answer& out);

  std::map<std::string, std::string, std::less<>> values_;
  std::map<std::string, std::vector<std::string>, std::less<>> queues_;
  bool changed_ = false;
};

// A table of this process for any number of threads.
class LocalStore {
 public:
  // The reply's fields. Throws kStore for a refused request and for one that waits past the deadline, kQueueEmpty.
  std::vector<std::string> ask(Ask what, std::vector<std::string> fields, Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  Table table_;
};

// A table that other processes reach by TCP: a thread of its own, any number of clients. A connection that says
// anything but whole frames of this protocol is closed, alone.
class StoreServer {
 public:
  // Takes over the descriptor `listening` if it is not negative.
  StoreServer(const std::string& host, int port, int listening);
  ~StoreServer();
  int port() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

// A connection to a StoreServer, for any number of threads: replies go by id.
class StoreClient {
 public:
  StoreClient(const std::string& host, int port, Deadline deadline);
  // As LocalStore::ask; kNetwork when the server is gone.
  std::vector<std::string> ask(Ask what, const std::vector<std::string>& fields, Deadline deadline);

 private:
  void send(uint32_t id, Ask what, const std::vector<std::string>& fields, Deadline deadline);
  void read_some(std::unique_lock<std::mutex>& lock, Deadline deadline);

  std::string where_;
  Descriptor fd_;
  std::mutex writing_, mutex_;
  std::condition_variable arrived_;
  FrameReader reader_;
  std::map<uint32_t, Frame> replies_;
  std::string broken_;
  uint32_t next_id_ = 1;
  bool reading_ = false;
  Haste haste_;
};

}  // namespace tessera::distributed
