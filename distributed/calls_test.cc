#include "distributed/calls.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <random>
#include <thread>

namespace tessera::distributed {
namespace {

using namespace std::string_literals;

std::string text(const Piece& piece) { return {piece.data.get(), piece.size}; }

// Two workers: the second one answers with what it was asked, on two threads.
class Workers : public testing::Test {
 protected:
  void SetUp() override {
    Descriptor first = listen_at("127.0.0.1", 0), second = listen_at("127.0.0.1", 0);
    port_ = port_of(second.get());
    std::vector<Calls::Worker> all{{"a", "127.0.0.1", port_of(first.get()), own_place()},
                                   {"b", "127.0.0.1", port_, own_place()}};
    asker_ = std::make_unique<Calls>(0, kSecret, all, std::move(first));
    answerer_ = std::make_unique<Calls>(1, kSecret, all, std::move(second));
    asker_->admit();
    answerer_->admit();
    for (int i = 0; i < 2; ++i) {
      threads_.emplace_back([this] {
        while (auto message = answerer_->take()) {
          if (message->kind != Message::kCall) {
            std::lock_guard lock(mutex_);
            done_.push_back(held_.extract({message->link, message->number}));
            EXPECT_TRUE(done_.back());
            if (message->kind == Message::kRead) ++read_;
            continue;
          }
          std::vector<std::string_view> pieces;
          for (auto& piece : message->pieces) pieces.emplace_back(piece.data.get(), piece.size);
          EXPECT_EQ(message->rank, 0);
          auto link = message->link, number = message->number;
          {
            std::lock_guard lock(mutex_);
            held_[{link, number}] = std::move(*message);
          }
          if (answerer_->answer(link, number, Message::kGood, pieces, soon())) continue;
          std::lock_guard lock(mutex_);
          held_.erase({link, number});
        }
      });
    }
  }
  void TearDown() override {
    asker_->close();
    answerer_->close();
    for (auto& thread : threads_) thread.join();
  }
  Deadline soon() { return deadline_after(20); }
  // Of an answer that came before it was waited for, too: another thread has read it.
  std::optional<Message> answer(uint64_t number) {
    bool again;
    if (auto message = asker_->wait(1, number, soon(), again)) return message;
    auto message = asker_->take();
    std::unique_lock lock(mutex_);
    if (message) early_[message->number] = std::move(*message);
    arrived_.notify_all();
    arrived_.wait(lock, [&] { return early_.contains(number); });
    return std::move(early_[number]);
  }

  const std::string kSecret = "secret";
  int port_ = 0;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<uint64_t, Message> early_;
  std::map<std::pair<uint64_t, uint64_t>, Message> held_;
  // Freed at the end: address sanitizer looks at all that sendmsg() took after it was read.
  std::vector<decltype(held_)::node_type> done_;
  int read_ = 0;
  std::unique_ptr<Calls> asker_, answerer_;
  std::vector<std::thread> threads_;
};

TEST_F(Workers, PiecesOfAllSizesComeBack) {
  uint64_t number = 0;
  for (size_t size : {0, 1, 100, 40'000, 65'536, 70'000, 3'000'000}) {
    std::string large(size, 'x');
    for (size_t i = 0; i < size; ++i) large[i] = static_cast<char>(i * 31 + i / 251);
    asker_->ask(1, ++number, {"head", large, "", "tail"}, soon());
    auto got = answer(number);
    ASSERT_TRUE(got);
    ASSERT_EQ(got->kind, Message::kGood);
    ASSERT_EQ(got->pieces.size(), 4u);
    EXPECT_EQ(text(got->pieces[0]), "head");
    EXPECT_EQ(text(got->pieces[1]), large);
    EXPECT_EQ(text(got->pieces[2]), "");
    EXPECT_EQ(text(got->pieces[3]), "tail");
  }
}

TEST_F(Workers, LargePiecesStayUntilTheyAreRead) {
  std::string large(1 << 20, 'x');
  for (uint64_t number = 1; number <= 20; ++number) {
    large[number] = 'y';
    asker_->ask(1, number, {"head", large}, soon());
    auto got = answer(number);
    ASSERT_TRUE(got);
    EXPECT_EQ(text(got->pieces.at(1)), large);
  }
  for (auto end = soon(); Clock::now() < end; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    std::lock_guard lock(mutex_);
    if (held_.empty()) break;
  }
  EXPECT_TRUE(held_.empty());
  EXPECT_EQ(read_, 20);
}

TEST_F(Workers, ManyThreadsShareAConnection) {
  std::vector<std::thread> all;
  for (int t = 0; t < 8; ++t) {
    all.emplace_back([this, t] {
      for (int i = 0; i < 200; ++i) {
        uint64_t number = t * 1000 + i;
        auto what = std::to_string(number) + std::string(i % 5 == 0 ? 50'000 : 0, 'z');
        asker_->ask(1, number, {what}, soon());
        auto got = answer(number);
        ASSERT_TRUE(got);
        EXPECT_EQ(text(got->pieces.at(0)), what);
      }
    });
  }
  for (auto& one : all) one.join();
}

TEST_F(Workers, WhatNobodyWaitsForIsTaken) {
  for (uint64_t i = 1; i <= 50; ++i) asker_->ask(1, i, {"x"}, soon());
  asker_->post(1000);
  std::vector<bool> seen(51);
  bool posted = false;
  for (int i = 0; i < 51; ++i) {
    auto message = asker_->take();
    ASSERT_TRUE(message);
    message->kind == Message::kPosted ? posted = true : seen[message->number] = true;
  }
  EXPECT_TRUE(posted);
  for (int i = 1; i <= 50; ++i) EXPECT_TRUE(seen[i]);
}

TEST_F(Workers, ALostWorkerIsNamedToAllThatWait) {
  Descriptor silent = listen_at("127.0.0.1", 0);
  std::vector<Calls::Worker> all{{"a", "127.0.0.1", 1}, {"mute", "127.0.0.1", port_of(silent.get())}};
  Calls calls(0, kSecret, all, listen_at("127.0.0.1", 0));
  calls.ask(1, 7, {"x"}, soon());
  calls.ask(1, 8, {"x"}, soon());
  bool again;
  EXPECT_FALSE(calls.wait(1, 7, deadline_after(0.02), again));
  EXPECT_TRUE(again);
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    Descriptor gone(accept(silent.get(), nullptr, nullptr));
  });
  auto message = calls.wait(1, 7, soon(), again);
  later.join();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, Message::kLost);
  EXPECT_NE(text(message->pieces[0]).find("worker mute is lost"), std::string::npos);
  message = calls.take();
  ASSERT_TRUE(message);
  EXPECT_EQ(message->number, 8u);
  EXPECT_EQ(message->kind, Message::kLost);
  EXPECT_THROW(calls.ask(1, 9, {"x"}, soon()), Error);
}

TEST_F(Workers, AWorkerThatTakesNothingIsNamedWithinTheTime) {
  Descriptor stopped = listen_at("127.0.0.1", 0);
  std::vector<Calls::Worker> all{{"a", "127.0.0.1", 1}, {"full", "127.0.0.1", port_of(stopped.get())}};
  Calls calls(0, kSecret, all, listen_at("127.0.0.1", 0));
  std::string large(64 << 20, 'x');
  try {
    calls.ask(1, 1, {large}, deadline_after(0.3));
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kTimeout);
    EXPECT_NE(std::string(error.what()).find("worker full is lost"), std::string::npos);
  }
}

TEST_F(Workers, StrangersAndNonsenseLoseTheirConnectionOnly) {
  std::mt19937 random(3);
  std::string hello = kSecret + "\0\0\0\0"s;
  for (int i = 0; i < 400; ++i) {
    Descriptor fd = connect_to("127.0.0.1", port_, soon());
    std::string bytes = i % 4 ? hello : "secreT\0\0\0\0"s;
    if (i % 4 == 1) bytes = kSecret + "\7\0\0\0"s;                                   // no such rank
    if (i % 3 == 0) bytes += "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0ab"s;  // a whole call
    for (int j = random() % 64; j > 0; --j) bytes.push_back(static_cast<char>(random()));
    bytes += std::string(32, '\xff');
    send_all(fd.get(), bytes.data(), bytes.size(), soon());
    shutdown(fd.get(), SHUT_WR);
  }
  asker_->ask(1, 1, {"still"}, soon());
  auto got = answer(1);
  ASSERT_TRUE(got);
  EXPECT_EQ(text(got->pieces.at(0)), "still");
}

TEST_F(Workers, HeadsThatAreNoneEndTheConnection) {
  std::string hello = kSecret + "\0\0\0\0"s;
  auto sizes = [](uint64_t a, uint64_t b) {
    return std::string(reinterpret_cast<char*>(&a), 8) + std::string(reinterpret_cast<char*>(&b), 8);
  };
  for (auto& bytes : {"\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"s,          // no pieces
                      "\1\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0"s,  // too many
                      "\1\0\0\0\0\0\0\0\1\0\0\0\1\0\0\0"s,          // an answer to who did not ask
                      "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\1\0"s,          // not zero
                      "\1\0\0\0\0\0\0\0\1\0\0\0\0\2\0\0"s,          // no such flag
                      "\1\0\0\0\0\0\0\0\1\0\0\0\3\0\0\0"s,          // pieces where none are
                      "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s + sizes(1ull << 63 | 9, 0) + "12345678",  // no such memory
                      "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s + sizes(10, 1ull << 50),                  // too large
                      "\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"s + sizes(~0ull, ~0ull)}) {                 // together, too
    Descriptor fd = connect_to("127.0.0.1", port_, soon());
    auto all = hello + bytes;
    send_all(fd.get(), all.data(), all.size(), soon());
    pollfd closed{fd.get(), POLLIN, 0};
    EXPECT_EQ(poll(&closed, 1, 20'000), 1);
    char reply;
    EXPECT_LE(recv(fd.get(), &reply, 1, 0), 0);
  }
}

}  // namespace
}  // namespace tessera::distributed
