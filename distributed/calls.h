#pragma once

#include <condition_variable>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "distributed/socket.h"

namespace tessera::distributed {

// Bytes that arrived, for whoever holds them.
struct Piece {
  struct Free {
    void operator()(char* data) const { free(data); }
  };
  std::unique_ptr<char, Free> data;
  size_t size = 0;
};

// What workers say to each other. On the wire, all numbers little-endian:
//   u64 number | u32 count | u8 kind | u8 flags | 2 bytes 0 | count times u64 size | the pieces
// An answer has the number of its call. Flag 1: who sends this can read the memory of who gets it. To such a one, large
// pieces go as their address (u64, their size with its highest bit set), and stay there until he has read them: those
// of a call until it is answered, those of an answer until kRead with its number, which has no pieces.
struct Message {
  enum Kind : uint8_t { kCall, kGood, kBad, kRead, kLost, kPosted };  // the last two never travel
  uint8_t kind = kCall;
  uint64_t number = 0;
  uint64_t link = 0;  // where the answer to a call goes
  int rank = 0;       // whose message it is
  std::vector<Piece> pieces;
};

inline constexpr size_t kMostPieces = 1u << 20;
inline constexpr size_t kLargestMessage = size_t{1} << 40;

// Where a process can be found by others of its host: a secret in its memory. Process 0: nowhere.
struct Place {
  int process = 0;
  uint64_t address = 0;
  std::string secret;
};
// Of this process.
Place own_place();

// Calls between workers: connections (one for each direction of asking), and any number of threads that share what
// arrives. Who waits for an answer reads it, too; all else is for the threads in take().
class Calls {
 public:
  struct Worker {
    std::string name, host;
    int port = 0;
    Place place = {};
  };

  // Only connections that begin with the secret are listened to, once admit() was called. Workers without a name are
  // made known later.
  Calls(int rank, std::string secret, std::vector<Worker> workers, Descriptor listener);
  ~Calls();

  void admit();
  void introduce(int rank, Worker worker);
  // Sends a call to another worker. Pieces have to stay until its answer, or that it is lost, comes from take() or
  // wait(). Throws kNetwork, kTimeout, which name it.
  void ask(int rank, uint64_t number, const std::vector<std::string_view>& pieces, Deadline deadline);
  // Sends an answer, if the one who asked is still there. Whether its pieces have to stay until take() returns kRead or
  // kLost of that link and number.
  bool answer(uint64_t link, uint64_t number, uint8_t kind, const std::vector<std::string_view>& pieces,
              Deadline deadline);
  // Has take() return a message of that number.
  void post(uint64_t number);
  // The next message that nobody waits for; none once closed.
  std::optional<Message> take();
  // The answer to a call. None, with `again`, after the deadline; without, if it is another thread's.
  std::optional<Message> wait(int rank, uint64_t number, Deadline deadline, bool& again);
  void close();

 private:
  struct Waiter {
    std::condition_variable changed;
    std::optional<Message> message;
  };
  struct Link;
  using Lock = std::unique_lock<std::mutex>;
  using Shared = std::shared_ptr<Link>;

  Shared link_to(int rank, Deadline deadline);
  void send(const Shared& link, uint8_t kind, uint64_t number, const std::vector<std::string_view>& pieces,
            Deadline deadline, bool near = false);
  void watch(int action, int fd, uint64_t id, uint32_t events);
  void read(const Shared& link, Lock& lock, int milliseconds);
  std::string receive(Link& link, std::vector<Message>& out) const;
  std::string advance(Link& link, std::vector<Message>& out) const;
  void dispatch(const Shared& link, Message message);
  void end(const Shared& link, const std::string& why);
  void accept_all(Lock& lock);
  void drop_silent();
  void give_up_reading(const Shared& link);
  void ring();

  const int rank_;
  const std::string secret_;
  std::vector<Worker> workers_;
  Descriptor listener_, epoll_, bell_;
  std::vector<std::mutex> connecting_;

  std::mutex mutex_;
  std::vector<Shared> asking_;  // by rank
  std::unordered_map<uint64_t, Shared> links_;
  std::deque<Message> queue_;
  uint64_t next_link_ = 2;  // 0 and 1: the bell and the listener
  int silent_ = 0;          // connections that have not shown the secret
  bool closed_ = false;
};

}  // namespace tessera::distributed
