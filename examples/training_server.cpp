// A training server on one io_context and one thread: sluice between a program's own sockets, timers
// and signals.
//
//     $ training_server --port 7000 --metrics-port 7001
//     port=7000
//     metrics_port=7001
//
//     $ nc 127.0.0.1 7000
//     train 2 0.1 0.2 0.5; 0.3 0.4 0.9
//     loss=0.204812 step=0 microbatches=1
//
// The protocol is lines. `train N SAMPLES` trains one step on N samples, which are separated by `;`; a
// sample is its inputs, then its target. `evaluate N SAMPLES` only says the loss. The answer is
// `loss=...`, or `error` and a text; after an error the weights are what they were before. Steps run
// one at a time, first come, first served. A client that leaves has its request run all the same.
//
// SIGTERM and SIGINT end the server: it takes no new requests, gives the running step a grace, then
// cancels it; exit code 0. A second signal ends it at once. (The metrics' HTTP server takes up to two
// seconds to end.)
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <deque>
#include <exception>
#include <functional>
#include <istream>
#include <list>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <asio/awaitable.hpp>
#include <asio/co_spawn.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read_until.hpp>
#include <asio/redirect_error.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <asio/streambuf.hpp>
#include <asio/use_awaitable.hpp>
#include <asio/write.hpp>

#include <sluice/pipeline.hpp>

#include "dense_stage.hpp"
#include "training_metrics.hpp"
#include "training_requests.hpp"

using namespace sluice;
using asio::ip::tcp;

struct Options {
  std::string address = "127.0.0.1";
  std::uint16_t port = 0;
  std::uint16_t metrics_port = 0;
  int stages = 3;
  std::size_t inputs = 2;
  std::size_t hidden = 16;
  std::size_t micro = 8;  ///< samples in a microbatch
  double deadline = 30;   ///< seconds a step may take
  double grace = 5;       ///< seconds that a step may still take when the server is to end
  DenseStage::Options stage;
};

/// Lets one in at a time, first come, first served. For the coroutines of one thread.
class Turnstile {
 public:
  asio::awaitable<void> enter() {
    if (!std::exchange(busy_, true)) co_return;
    const asio::any_io_executor executor = co_await asio::this_coro::executor;
    asio::steady_timer turn(executor, asio::steady_timer::time_point::max());
    waiting_.push_back(&turn);
    std::error_code called;  // by leave(), which also took it off the list
    co_await turn.async_wait(asio::redirect_error(asio::use_awaitable, called));
  }

  void leave() {
    busy_ = !waiting_.empty();  // it goes from hand to hand: nobody else comes in between
    if (!busy_) return;
    waiting_.front()->cancel();
    waiting_.pop_front();
  }

 private:
  bool busy_ = false;
  std::deque<asio::steady_timer*> waiting_;
};

class Server {
 public:
  Server(asio::io_context& context, const Options& options)
      : options_(options),
        metrics_(options.address, options.metrics_port),
        pipeline_(plan(), factory(), pipeline_options(context)),
        acceptor_(context, tcp::endpoint(asio::ip::make_address(options.address), options.port)),
        signals_(context, SIGTERM, SIGINT),
        grace_(context) {
    spawn(accept());
    spawn(stop_on_signal());
  }

  int port() const { return acceptor_.local_endpoint().port(); }
  int metrics_port() const { return metrics_.port(); }

 private:
  Plan plan() const {
    PlanConfig config;
    config.stages = options_.stages;
    config.microbatches = 2 * options_.stages;  // of a usual batch; each batch says its own
    return derive_plan(config);
  }

  StageFactory<Matrix> factory() const {
    return [options = options_](const StageContext& context) {
      const bool last = context.stage.value == context.stages - 1;
      return std::make_unique<DenseStage>(
          context, context.stage.value == 0 ? options.inputs : options.hidden,
          last ? 1 : options.hidden, options.stage);
    };
  }

  PipelineOptions pipeline_options(asio::io_context& context) {
    PipelineOptions options;
    options.executors = single_thread(context.get_executor());
    options.seed = 1;
    options.check_finite =
        FiniteCheck::everything;  // a NaN fails the step instead of spoiling the weights
    options.metrics = [this](const StepMetrics& step) { metrics_.step_ended(step); };
    return options;
  }

  /// Runs beside the others until it ends by itself. What it throws leaves `run()`: nothing fails in
  /// silence, as it would with asio::detached.
  void spawn(asio::awaitable<void> coroutine) {
    asio::co_spawn(acceptor_.get_executor(), std::move(coroutine),
                   [](const std::exception_ptr& error) {
                     if (error) std::rethrow_exception(error);
                   });
  }

  asio::awaitable<void> accept() {
    while (true) {
      std::error_code error;
      tcp::socket client =
          co_await acceptor_.async_accept(asio::redirect_error(asio::use_awaitable, error));
      if (stopping_) co_return;
      if (!error) {
        spawn(serve(std::move(client)));
        continue;
      }
      asio::steady_timer pause(acceptor_.get_executor(), std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);  // out of descriptors, most likely
    }
  }

  /// One client, from its first line to its last.
  asio::awaitable<void> serve(tcp::socket client) {
    const auto self = clients_.insert(clients_.end(), &client);
    asio::streambuf input(longest_line);
    std::error_code error;
    while (!stopping_ && !error) {
      co_await asio::async_read_until(client, input, '\n',
                                      asio::redirect_error(asio::use_awaitable, error));
      std::string reply;
      if (!error) {
        std::string line;
        std::istream stream(&input);
        std::getline(stream, line);
        reply = co_await answer(std::move(line));
      } else if (error == asio::error::not_found) {
        reply = fmt::format("error a line of more than {} bytes", longest_line);
      } else {
        break;  // the client has gone, in the middle of a line perhaps, or the server is to stop
      }
      reply += '\n';
      std::error_code unsent;
      co_await asio::async_write(client, asio::buffer(reply),
                                 asio::redirect_error(asio::use_awaitable, unsent));
      if (unsent) break;
    }
    clients_.erase(self);
    if (clients_.empty()) grace_.cancel();
  }

  asio::awaitable<std::string> answer(std::string line) {
    Request request;
    std::string reply;
    try {
      request = parse(line);
    } catch (const std::invalid_argument& error) {
      reply = fmt::format("error {}", error.what());
    }
    if (!reply.empty()) co_return reply;

    co_await turnstile_.enter();
    metrics_.running(true);
    try {
      if (stopping_) throw std::runtime_error("the server is stopping");
      reply = co_await run(std::move(request));
    } catch (const std::exception& error) {  // a StepError: the step has left everything as it was
      reply = fmt::format("error {}", error.what());
      std::ranges::replace(reply, '\n', ' ');
    }
    metrics_.running(false);
    turnstile_.leave();
    co_return reply;
  }

  asio::awaitable<std::string> run(Request request) {
    const auto samples = static_cast<std::int64_t>(request.samples);
    Batch<Matrix> batch(
        std::make_shared<Samples>(std::move(request.rows), options_.inputs, options_.micro),
        samples);
    batch.microbatches = static_cast<int>((request.samples + options_.micro - 1) / options_.micro);
    batch.deadline = std::chrono::duration_cast<std::chrono::nanoseconds>(
        std::chrono::duration<double>(options_.deadline));
    const int microbatches = batch.microbatches;

    if (!request.train) {
      std::function<void(MicrobatchId, Matrix)> ignored = [](MicrobatchId, const Matrix&) {};
      const StepResult result = co_await pipeline_.async_evaluate(
          std::move(batch), std::move(ignored), asio::use_awaitable);
      co_return fmt::format("loss={:.6f} microbatches={}", result.loss, microbatches);
    }
    const StepResult result = co_await pipeline_.async_step(std::move(batch), asio::use_awaitable);
    co_return fmt::format("loss={:.6f} step={} microbatches={}", result.loss, result.step,
                          microbatches);
  }

  asio::awaitable<void> stop_on_signal() {
    co_await signals_.async_wait(asio::use_awaitable);
    signals_.clear();  // the next one has its usual effect
    stopping_ = true;
    std::error_code ignored;
    acceptor_.close(ignored);
    // Whoever waits for a line sees its end; whoever waits for a step still gets its answer.
    for (tcp::socket* client : clients_) client->shutdown(tcp::socket::shutdown_receive, ignored);
    co_await clients_left(options_.grace);
    pipeline_.cancel();
    co_await clients_left(1);
    // Who is left does not take the answer. (Or waits for a stage function, which nobody can end.)
    for (tcp::socket* client : clients_) client->close(ignored);
  }

  /// Until all clients have left, but no longer than this.
  asio::awaitable<void> clients_left(double seconds) {
    if (clients_.empty()) co_return;
    grace_.expires_after(std::chrono::duration_cast<asio::steady_timer::duration>(
        std::chrono::duration<double>(seconds)));
    std::error_code ignored;
    co_await grace_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }

  Options options_;
  TrainingMetrics metrics_;
  Pipeline<Matrix> pipeline_;
  Turnstile turnstile_;
  tcp::acceptor acceptor_;
  asio::signal_set signals_;
  asio::steady_timer grace_;
  std::list<tcp::socket*> clients_;  // each lives in its coroutine
  bool stopping_ = false;
};

int main(int argc, char** argv) {
  Options options;
  double device_ms = 0;
  const CLI::Range day(0.0, 86400.0);
  CLI::App app("Trains on what clients send.");
  app.add_option("--port", options.port, "For clients; 0: any");
  app.add_option("--metrics-port", options.metrics_port, "For Prometheus; 0: any");
  app.add_option("--stages", options.stages)->check(CLI::Range(1, 64));
  app.add_option("--micro", options.micro, "Samples in a microbatch")->check(CLI::Range(1, 1024));
  app.add_option("--deadline", options.deadline, "Seconds a step may take")->check(day);
  app.add_option("--grace", options.grace, "Seconds left to a step at the end")->check(day);
  app.add_option("--device-ms", device_ms, "An action waits so long for its device")->check(day);
  CLI11_PARSE(app, argc, argv);
  options.stage.device_time = std::chrono::duration<double, std::milli>(device_ms);

  try {
    asio::io_context context(1);
    Server server(context, options);
    fmt::print("port={}\nmetrics_port={}\n", server.port(), server.metrics_port());
    std::fflush(stdout);
    context.run();  // until nothing is left to do: after a signal, and the last client
  } catch (const std::exception& error) {
    fmt::print(stderr, "training_server: {}\n", error.what());
    return 1;
  }
}
