#include <charconv>

#include "distributed/store.h"

namespace tessera::distributed {
namespace {

bool parse(const std::string& text, int64_t& value) {
  auto end = text.data() + text.size();
  auto [stopped, code] = std::from_chars(text.data(), end, value);
  return code == std::errc() && stopped == end;
}

void refuse(Table::Answer& out, std::string why) {
  out.code = Reply::kError;
  out.fields = {std::move(why)};
}

// How many fields a request has: at least, at most.
std::pair<size_t, size_t> field_counts(Ask what) {
  switch (what) {
    case Ask::kCount:
    case Ask::kList:
      return {0, 0};
    case Ask::kDelete:
    case Ask::kLength:
      return {1, 1};
    case Ask::kSet:
    case Ask::kAdd:
    case Ask::kAppend:
    case Ask::kPush:
    case Ask::kPop:
      return {2, 2};
    case Ask::kCompareSet:
      return {3, 3};
    case Ask::kMultiSet:
    case Ask::kGet:
    case Ask::kCheck:
    case Ask::kWait:
      return {0, kMostFields};
    default:
      return {1, 0};
  }
}

}  // namespace

bool Table::has(const std::string& key) const {
  if (values_.contains(key)) return true;
  auto queue = queues_.find(key);
  return queue != queues_.end() && !queue->second.empty();
}

void Table::add(const Frame& request, Answer& out) {
  int64_t amount = 0, value = 0;
  auto& key = request.fields[0];
  auto found = values_.find(key);
  if (!parse(request.fields[1], amount)) return refuse(out, "add: the amount is no 64-bit number");
  if (found != values_.end() && !parse(found->second, value)) {
    return refuse(out, "add: the value of key '" + key + "' is no number");
  }
  auto sum = std::to_string(static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(amount)));
  values_[key] = sum;
  changed_ |= found == values_.end();
  out.fields = {sum};
}

void Table::compare_set(const Frame& request, Answer& out) {
  auto found = values_.find(request.fields[0]);
  auto &expected = request.fields[1], &desired = request.fields[2];
  if (found == values_.end() ? expected.empty() : found->second == expected) {
    changed_ |= found == values_.end();
    values_[request.fields[0]] = desired;
    out.fields = {desired};
  } else {
    out.fields = {found == values_.end() ? expected : found->second};
  }
}

bool Table::pop(const Frame& request, Answer& out) {
  auto found = queues_.find(request.fields[0]);
  if (found == queues_.end() || found->second.empty()) {
    if (request.fields[1] == "1") return false;
    out.code = Reply::kEmpty;
    out.fields = {"queue_pop: the queue '" + request.fields[0] + "' is empty"};
    return true;
  }
  out.fields = {std::move(found->second.front())};
  found->second.erase(found->second.begin());
  if (found->second.empty()) queues_.erase(found);
  return true;
}

bool Table::answer(const Frame& request, Answer& out) {
  auto& fields = request.fields;
  auto what = static_cast<Ask>(request.code);
  auto [least, most] = field_counts(what);
  if (fields.size() < least || fields.size() > most || (what == Ask::kMultiSet && fields.size() % 2 != 0)) {
    refuse(out, "a store was asked something that it does not know");
    return true;
  }
  switch (what) {
    case Ask::kSet:
      changed_ |= values_.insert_or_assign(fields[0], fields[1]).second;
      return true;
    case Ask::kMultiSet:
      for (size_t i = 0; i < fields.size(); i += 2)
        changed_ |= values_.insert_or_assign(fields[i], fields[i + 1]).second;
      return true;
    case Ask::kAppend: {
      auto [entry, fresh] = values_.try_emplace(fields[0]);
      entry->second += fields[1];
      changed_ |= fresh;
      return true;
    }
    case Ask::kAdd:
      return add(request, out), true;
    case Ask::kCompareSet:
      return compare_set(request, out), true;
    case Ask::kGet:
      for (auto& key : fields) {
        if (!values_.contains(key)) return false;
      }
      for (auto& key : fields) out.fields.push_back(values_.find(key)->second);
      return true;
    case Ask::kCheck:
    case Ask::kWait:
      for (auto& key : fields) {
        if (has(key)) continue;
        if (what == Ask::kWait) return false;
        out.fields = {"0"};
        return true;
      }
      out.fields = {"1"};
      return true;
    case Ask::kDelete: {
      bool had = values_.erase(fields[0]) + queues_.erase(fields[0]) > 0;
      out.fields = {had ? "1" : "0"};
      return true;
    }
    case Ask::kCount:
      out.fields = {std::to_string(values_.size())};
      return true;
    case Ask::kList:
      for (auto& entry : values_) out.fields.push_back(entry.first);
      return true;
    case Ask::kPush:
      queues_[fields[0]].push_back(fields[1]);
      changed_ = true;
      return true;
    case Ask::kPop:
      return pop(request, out);
    case Ask::kLength: {
      auto found = queues_.find(fields[0]);
      out.fields = {std::to_string(found == queues_.end() ? 0 : found->second.size())};
      return true;
    }
    default:
      return true;
  }
}

std::vector<std::string> LocalStore::ask(Ask what, std::vector<std::string> fields, Deadline deadline) {
  Frame request{0, static_cast<uint8_t>(what), std::move(fields)};
  auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  Table::Answer answer;
  while (!table_.answer(request, answer)) {
    if (Clock::now() >= deadline) {
      throw Error(Fault::kStore, "wait timeout after " + milliseconds_text(begin, deadline) +
                                     ": the store has no key '" + request.fields[0] + "' (timed out)");
    }
    changed_.wait_until(lock, std::min(deadline, deadline_after(0.2)));
    lock.unlock();
    check_interrupted();
    lock.lock();
  }
  if (table_.take_changed()) changed_.notify_all();
  if (answer.code != Reply::kGood) {
    throw Error(answer.code == Reply::kEmpty ? Fault::kQueueEmpty : Fault::kStore, answer.fields[0]);
  }
  return std::move(answer.fields);
}

}  // namespace tessera::distributed
