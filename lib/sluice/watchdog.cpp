#include <sluice/watchdog.hpp>

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include <unistd.h>

#include <asio/steady_timer.hpp>

namespace sluice {
namespace {

class SteadyAlarm final : public Alarm {
 public:
  explicit SteadyAlarm(const asio::any_io_executor& executor) : timer_(executor) {}

  void start(std::chrono::nanoseconds after, std::function<void()> ring) override {
    timer_.expires_after(after);
    timer_.async_wait([ring = std::move(ring)](const asio::error_code& error) {
      if (!error) ring();
    });
  }
  void cancel() override { timer_.cancel(); }

 private:
  asio::steady_timer timer_;
};

}  // namespace

std::unique_ptr<Alarm> steady_alarm(const asio::any_io_executor& executor) {
  return std::make_unique<SteadyAlarm>(executor);
}

struct Watchdog::Watch {
  std::chrono::nanoseconds period;
  std::function<std::int64_t()> progress;
  std::function<std::string()> report;
  std::function<void(const std::string&)> on_stall;
  const pid_t process = ::getpid();
  std::mutex mutex;
  std::condition_variable ended;
  bool ending = false;
  std::thread thread;

  void look() {
    std::optional<std::int64_t> before;
    std::unique_lock lock(mutex);
    while (!ended.wait_for(lock, period, [this] { return ending; })) {
      lock.unlock();
      const std::int64_t now = progress();
      if (before == now) {
        const std::string text = report();
        try {
          if (!text.empty()) on_stall(text);
        } catch (...) {  // a report that cannot be delivered is no reason to end the host
        }
      }
      before = now;
      lock.lock();
    }
  }
};

Watchdog::Watchdog(std::chrono::nanoseconds period, std::function<std::int64_t()> progress,
                   std::function<std::string()> report,
                   std::function<void(const std::string&)> on_stall)
    : watch_(std::make_shared<Watch>()) {
  watch_->period = period;
  watch_->progress = std::move(progress);
  watch_->report = std::move(report);
  watch_->on_stall = std::move(on_stall);
  watch_->thread = std::thread([watch = watch_] { watch->look(); });
}

Watchdog::~Watchdog() {
  if (::getpid() != watch_->process) {
    // Its thread is not here to be joined, and may have held the lock when the process was split.
    static_cast<void>(new std::shared_ptr<Watch>(std::move(watch_)));
    return;
  }
  {
    const std::scoped_lock lock(watch_->mutex);
    watch_->ending = true;
  }
  watch_->ended.notify_one();
  if (watch_->thread.get_id() == std::this_thread::get_id()) {  // destroyed by its own `on_stall`
    watch_->thread.detach();
  } else {
    watch_->thread.join();
  }
}

}  // namespace sluice
