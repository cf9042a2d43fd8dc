#include <string.h>

#include <algorithm>

#include "distributed/messages.h"

namespace tessera::distributed {

std::string other_size(size_t came, int peer, size_t expected) {
  return "recv: a message of " + std::to_string(came) + " bytes came from rank " + std::to_string(peer) +
         ", but the tensor has " + std::to_string(expected) + " bytes";
}

std::string too_late(const Transfer& transfer) {
  std::string who = transfer.peer < 0 ? "any rank" : "rank " + std::to_string(transfer.peer);
  return (transfer.sends ? "send: " + who + " of the group took no message"
                         : "recv: no message came from " + who + " of the group") +
         " within the timeout";
}

// One call of a collective. Messages of calls are told apart by their tags.
class MessageEngine::Call {
 public:
  Call(Messages* messages, const Request& request, uint64_t number)
      : messages_(*messages),
        request_(request),
        rank_(messages->rank()),
        size_(messages->size()),
        deadline_(deadline_after(request.timeout)) {
    tag_ = kCollectiveTag | (number << 8);
  }

  void run() {
    switch (request_.what) {
      case Collective::kAllReduce:
        return all_reduce(request_.out[0]);
      case Collective::kBroadcast:
        return broadcast(request_.out[0], request_.root);
      case Collective::kReduce:
        return reduce(request_.out[0]);
      case Collective::kAllGather:
        return all_gather();
      case Collective::kGather:
        return gather();
      case Collective::kScatter:
        return scatter();
      case Collective::kReduceScatter:
        return reduce_scatter(request_.in, request_.out[0]);
      case Collective::kAllToAll:
        return exchange(request_.in, request_.out);
      case Collective::kBarrier:
        return barrier();
    }
  }

 private:
  using Transfers = std::vector<std::shared_ptr<Transfer>>;

  void wait(const std::shared_ptr<Transfer>& transfer) {
    try {
      messages_.wait(transfer, deadline_);
    } catch (const Error& error) { fail(error); }
  }
  // Transfers that are left use memory that goes away with this call, so none may live on.
  [[noreturn]] void fail(const Error& error) {
    char seconds[32];
    snprintf(seconds, sizeof(seconds), "%g", request_.timeout);
    std::string why = std::string(name_of(request_.what)) + " on rank " + std::to_string(rank_) +
                      " of the group (timeout " + seconds + " s): " + error.what();
    messages_.abort(why);
    throw Error(error.fault(), why);
  }
  void wait(const Transfers& transfers) {
    for (auto& transfer : transfers) wait(transfer);
  }
  std::shared_ptr<Transfer> send(int to, Buffer what, int step = 0) {
    try {
      return messages_.send(to, tag_ + step, what, deadline_);
    } catch (const Error& error) { fail(error); }
  }
  std::shared_ptr<Transfer> receive(int from, Buffer what, int step = 0) {
    return messages_.receive(from, tag_ + step, what);
  }

  void copy(Buffer from, Buffer to) {
    if (from.size != to.size) {
      fail(Error(Fault::kBackend,
                 "it gave itself " + std::to_string(from.size) + " bytes, but expected " + std::to_string(to.size)));
    }
    if (from.data != to.data) memcpy(to.data, from.data, from.size);
  }

  void exchange(const std::vector<Buffer>& in, const std::vector<Buffer>& out, int step = 0) {
    Transfers transfers;
    for (int i = 1; i < size_; ++i) {
      int from = (rank_ + size_ - i) % size_;
      transfers.push_back(receive(from, out[from], step));
    }
    for (int i = 1; i < size_; ++i) {
      int to = (rank_ + i) % size_;
      transfers.push_back(send(to, in[to], step));
    }
    copy(in[rank_], out[rank_]);
    wait(transfers);
  }

  void all_gather() { exchange(std::vector<Buffer>(size_, request_.in[0]), request_.out); }

  void gather() {
    if (rank_ != request_.root) return wait(send(request_.root, request_.in[0]));
    Transfers transfers;
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) transfers.push_back(receive(i, request_.out[i]));
    }
    copy(request_.in[0], request_.out[rank_]);
    wait(transfers);
  }

  void scatter() {
    if (rank_ != request_.root) return wait(receive(request_.root, request_.out[0]));
    Transfers transfers;
    for (int i = 0; i < size_; ++i) {
      if (i != rank_) transfers.push_back(send(i, request_.in[i]));
    }
    copy(request_.in[rank_], request_.out[0]);
    wait(transfers);
  }

  // Everyone sends his piece for rank i to i, which folds them.
  void reduce_scatter(const std::vector<Buffer>& in, Buffer out) {
    std::vector<char> memory(out.size * size_);
    std::vector<Buffer> pieces(size_);
    for (int i = 0; i < size_; ++i) pieces[i] = {memory.data() + i * out.size, out.size};
    exchange(in, pieces);
    std::vector<const void*> sources(size_);
    for (int i = 0; i < size_; ++i) sources[i] = pieces[i].data;
    fold_all(request_.kind, request_.fold, out.data, sources.data(), size_, out.size / size_of(request_.kind));
  }

  // Small: to rank 0 and back along a tree. Large: each folds a part, then all have all parts.
  void all_reduce(Buffer buffer) {
    if (buffer.size > 4096) return halve_and_double(buffer);
    reduce(buffer);
    broadcast(buffer, 0, 1);
  }

  // mine = mine (fold) other.
  void fold_in(char* mine, const char* other, size_t bytes) {
    const void* two[] = {mine, other};
    fold_all(request_.kind, request_.fold, mine, two, 2, bytes / size_of(request_.kind));
  }

  // Ranks that differ in a bit swap halves of what they hold and keep the fold of one, from the highest bit to the
  // lowest; back up they swap what is folded. So each sends twice the buffer in all, in 2 log2(size) messages. Of a
  // number of ranks that is no power of two the first ones work as pairs.
  void halve_and_double(Buffer buffer) {
    int powers = 1;
    while (powers * 2 <= size_) powers *= 2;
    int pairs = size_ - powers, step = 0;
    std::vector<char> other(rank_ < 2 * pairs ? buffer.size : buffer.size / 2 + size_of(request_.kind));
    if (rank_ < 2 * pairs && rank_ % 2) {
      wait(send(rank_ - 1, buffer));
      return wait(receive(rank_ - 1, buffer, 1));
    }
    if (rank_ < 2 * pairs) {
      wait(receive(rank_ + 1, {other.data(), buffer.size}));
      fold_in(buffer.data, other.data(), buffer.size);
    }
    int me = rank_ < 2 * pairs ? rank_ / 2 : rank_ - pairs;
    size_t item = size_of(request_.kind), from = 0, to = buffer.size / item;
    std::vector<std::pair<size_t, size_t>> ranges;
    auto swap = [&](int bit, size_t give, size_t give_end, size_t take, size_t take_end, char* into) {
      int peer = me ^ bit, who = peer < pairs ? 2 * peer : peer + pairs;
      ++step;
      auto coming = receive(who, {into, (take_end - take) * item}, step + 1);
      auto going = send(who, {buffer.data + give * item, (give_end - give) * item}, step + 1);
      wait(coming);
      wait(going);
    };
    for (int bit = powers / 2; bit > 0; bit /= 2) {
      ranges.emplace_back(from, to);
      size_t middle = from + (to - from) / 2;
      bool low = !(me & bit);
      swap(bit, low ? middle : from, low ? to : middle, low ? from : middle, low ? middle : to, other.data());
      (low ? to : from) = middle;
      fold_in(buffer.data + from * item, other.data(), (to - from) * item);
    }
    for (int bit = 1; bit < powers; bit *= 2) {
      auto [all_from, all_to] = ranges.back();
      ranges.pop_back();
      size_t take = me & bit ? all_from : to, take_end = me & bit ? from : all_to;
      swap(bit, from, to, take, take_end, buffer.data + take * item);
      from = all_from;
      to = all_to;
    }
    if (rank_ < 2 * pairs) wait(send(rank_ + 1, buffer, 1));
  }

  // A binomial tree over the ranks as seen from the root: a rank folds its children in their order and passes on.
  void reduce(Buffer buffer) {
    int root = request_.what == Collective::kReduce ? request_.root : 0;
    int me = (rank_ + size_ - root) % size_;
    std::vector<char> sum(buffer.data, buffer.data + buffer.size), next(buffer.size);
    for (int bit = 1; bit < size_; bit *= 2) {
      if (me & bit) {
        wait(send((me - bit + root) % size_, {sum.data(), sum.size()}));
        return;
      }
      if (me + bit >= size_) continue;
      wait(receive((me + bit + root) % size_, {next.data(), next.size()}));
      fold_in(sum.data(), next.data(), sum.size());
    }
    memcpy(buffer.data, sum.data(), sum.size());
  }

  void broadcast(Buffer buffer, int root, int step = 0) {
    int me = (rank_ + size_ - root) % size_, bit = 1;
    while (bit < size_ && !(me & bit)) bit *= 2;
    if (me != 0) wait(receive((me - bit + root) % size_, buffer, step));
    Transfers transfers;
    for (bit /= 2; bit > 0; bit /= 2) {
      if (me + bit < size_) transfers.push_back(send((me + bit + root) % size_, buffer, step));
    }
    wait(transfers);
  }

  void barrier() {
    int step = 0;
    for (int distance = 1; distance < size_; distance *= 2, ++step) {
      auto sent = send((rank_ + distance) % size_, {}, step);
      wait(receive((rank_ + size_ - distance) % size_, {}, step));
      wait(sent);
    }
  }

  Messages& messages_;
  const Request& request_;
  int rank_, size_;
  Deadline deadline_;
  uint64_t tag_;
};

void MessageEngine::run(const Request& request) {
  if (request.what != Collective::kAllReduce || (request.out.size() == 1 && request.scale == 1)) {
    return Call(messages_, request, ++calls_).run();
  }
  std::vector<char> memory;
  for (auto& buffer : request.out) memory.resize(memory.size() + buffer.size);
  Request joined = request;
  joined.out = {{memory.data(), memory.size()}};
  char* at = memory.data();
  for (auto& buffer : request.out) {
    copy_scaled(request.kind, at, buffer.data, buffer.size, request.scale);
    at += buffer.size;
  }
  Call(messages_, joined, ++calls_).run();
  at = memory.data();
  for (auto& buffer : request.out) {
    memcpy(buffer.data, at, buffer.size);
    at += buffer.size;
  }
}

}  // namespace tessera::distributed
