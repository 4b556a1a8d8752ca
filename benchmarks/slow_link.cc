// Carries packets between two TUN devices as a line of a given bandwidth and delay would.
//
//     slow_link FIRST SECOND MEGABITS MILLISECONDS
//
// FIRST and SECOND are descriptors that this process was started with. Each way a packet leaves
// when those before it have, takes its bytes times the bandwidth, and is there half of MILLISECONDS
// later. Connections take turns, packet by packet, so that a short message need not wait for all of
// a long one on another connection. Nothing is lost. The process ends when its standard input does.
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <limits>
#include <list>
#include <string>
#include <utility>

namespace {

constexpr size_t kMostBytes = 65535;  // of a packet
// A packet's addresses and ports, where it has no IP options.
constexpr size_t kConnectionBegin = 12, kConnectionBytes = 12;
constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

int64_t Now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// One of the two ways of a line. Times are nanoseconds.
class Way {
 public:
  Way(int source, int sink, double nanoseconds_a_byte, int64_t delay)
      : source_(source), sink_(sink), nanoseconds_a_byte_(nanoseconds_a_byte), delay_(delay) {}

  // Reads what has been sent.
  void TakeIn(int64_t now) {
    for (;;) {
      const ssize_t size = ::read(source_, buffer_, kMostBytes);
      if (size <= 0) {
        return;
      }
      std::string packet(buffer_, size);
      PacketsOf(packet).emplace_back(now, std::move(packet));
    }
  }

  // Does what is due, also if it is late: to be late costs the line no bandwidth.
  void Move(int64_t now) {
    while (!waiting_.empty() && free_at_ <= now) {
      Packets& packets = waiting_.front().second;
      free_at_ = std::max(free_at_, packets.front().first) +
                 static_cast<int64_t>(packets.front().second.size() * nanoseconds_a_byte_);
      travelling_.emplace_back(free_at_ + delay_, std::move(packets.front().second));
      packets.pop_front();
      if (packets.empty()) {
        waiting_.pop_front();
      } else {
        waiting_.splice(waiting_.end(), waiting_, waiting_.begin());  // behind the others
      }
    }
    while (!travelling_.empty() && travelling_.front().first <= now) {
      const std::string& packet = travelling_.front().second;
      // It fails where a device is being taken away.
      (void)!::write(sink_, packet.data(), packet.size());
      travelling_.pop_front();
    }
  }

  // When something is due.
  int64_t NextTime() const {
    return std::min(waiting_.empty() ? kNever : free_at_,
                    travelling_.empty() ? kNever : travelling_.front().first);
  }

 private:
  using Packets = std::deque<std::pair<int64_t, std::string>>;  // and when they were sent or arrive

  // What waits of the connection of a packet.
  Packets& PacketsOf(const std::string& packet) {
    std::string connection =
        packet.substr(std::min(packet.size(), kConnectionBegin), kConnectionBytes);
    for (auto& each : waiting_) {
      if (each.first == connection) {
        return each.second;
      }
    }
    waiting_.emplace_back(std::move(connection), Packets());
    return waiting_.back().second;
  }

  const int source_, sink_;
  const double nanoseconds_a_byte_;
  const int64_t delay_;
  std::list<std::pair<std::string, Packets>> waiting_;  // by connection, in the order of turns
  Packets travelling_;
  int64_t free_at_ = 0;
  char buffer_[kMostBytes];
};

// Carries packets until standard input ends.
void Carry(int first, int second, double nanoseconds_a_byte, int64_t delay) {
  Way ways[] = {{first, second, nanoseconds_a_byte, delay},
                {second, first, nanoseconds_a_byte, delay}};
  pollfd descriptors[] = {{first, POLLIN, 0}, {second, POLLIN, 0}, {STDIN_FILENO, POLLIN, 0}};
  while (descriptors[2].revents == 0) {
    const int64_t next = std::min(ways[0].NextTime(), ways[1].NextTime());
    const int64_t wait = next == kNever ? 0 : std::max<int64_t>(0, next - Now());
    const timespec timeout = {wait / 1'000'000'000, wait % 1'000'000'000};
    ::ppoll(descriptors, 3, next == kNever ? nullptr : &timeout, nullptr);
    const int64_t now = Now();
    for (int i = 0; i < 2; ++i) {
      if (descriptors[i].revents != 0) {
        ways[i].TakeIn(now);
      }
      ways[i].Move(now);
    }
  }
}

}  // namespace

int main(int, char** arguments) {
  std::signal(SIGINT, SIG_IGN);  // it goes on until what uses it has ended
  sched_param priority = {};
  priority.sched_priority = 1;
  ::sched_setscheduler(0, SCHED_FIFO, &priority);  // else busy processors make the line slower
  const int devices[] = {std::atoi(arguments[1]), std::atoi(arguments[2])};
  for (const int device : devices) {
    ::fcntl(device, F_SETFL, ::fcntl(device, F_GETFL) | O_NONBLOCK);
  }
  Carry(devices[0], devices[1], 8e3 / std::atof(arguments[3]),
        static_cast<int64_t>(std::atof(arguments[4]) * 5e5));
  return 0;
}
