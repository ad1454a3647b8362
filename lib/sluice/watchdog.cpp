#include <sluice/watchdog.hpp>

#include <optional>
#include <utility>

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

Watchdog::Watchdog(std::chrono::nanoseconds period, std::function<std::int64_t()> progress,
                   std::function<std::string()> report,
                   std::function<void(const std::string&)> on_stall)
    : period_(period),
      progress_(std::move(progress)),
      report_(std::move(report)),
      on_stall_(std::move(on_stall)),
      thread_([this] { watch(); }) {}

Watchdog::~Watchdog() {
  {
    const std::scoped_lock lock(mutex_);
    ending_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void Watchdog::watch() {
  std::optional<std::int64_t> before;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, period_, [this] { return ending_; })) {
    lock.unlock();
    const std::int64_t now = progress_();
    if (before == now) {
      const std::string report = report_();
      try {
        if (!report.empty()) on_stall_(report);
      } catch (...) {  // a report that cannot be delivered is no reason to end the host
      }
    }
    before = now;
    lock.lock();
  }
}

}  // namespace sluice
