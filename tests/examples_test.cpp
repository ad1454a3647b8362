// The example programs, as their users see them: the training server over real sockets, the others by
// what they print.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <asio/ip/tcp.hpp>

#include <sluice/plan.hpp>

namespace sluice {
namespace {

using asio::ip::tcp;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::SizeIs;
using ::testing::StartsWith;

/// A child with its standard output on a pipe. Ends with its object, whatever it does.
class Process {
 public:
  explicit Process(std::vector<std::string> command) {
    int ends[2];
    if (pipe(ends) != 0) throw std::system_error(errno, std::generic_category(), "pipe");
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&files, ends[0]);
    posix_spawn_file_actions_addclose(&files, ends[1]);
    std::vector<char*> arguments;
    arguments.reserve(command.size() + 1);
    for (auto& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    const int error = posix_spawn(&pid_, arguments[0], &files, nullptr, arguments.data(), environ);
    posix_spawn_file_actions_destroy(&files);
    close(ends[1]);
    output_ = fdopen(ends[0], "r");
    if (error != 0) throw std::system_error(error, std::generic_category(), command[0]);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;
  ~Process() {
    if (pid_ > 0) {
      send(SIGKILL);
      wait();
    }
    std::fclose(output_);
  }

  void send(int signal) const { kill(pid_, signal); }

  /// The next line of its output, without its end; empty when there is none.
  std::string line() {
    std::string text;
    for (int c = std::fgetc(output_); c != EOF && c != '\n'; c = std::fgetc(output_)) {
      text.push_back(static_cast<char>(c));
    }
    return text;
  }
  std::string rest() {
    std::string text;
    for (int c = std::fgetc(output_); c != EOF; c = std::fgetc(output_)) {
      text.push_back(static_cast<char>(c));
    }
    return text;
  }

  /// Its exit code; negative: the signal that ended it.
  int wait() {
    int status = 0;
    waitpid(std::exchange(pid_, -1), &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t pid_ = -1;
  std::FILE* output_ = nullptr;
};

/// The number behind `name=` in a line.
double number(const std::string& line, const std::string& name) {
  const auto at = line.find(name + "=");
  if (at == std::string::npos) {
    ADD_FAILURE() << "no " << name << " in: " << line;
    return 0;
  }
  return std::stod(line.substr(at + name.size() + 1));
}

class TrainingServer : public Process {
 public:
  explicit TrainingServer(const std::vector<std::string>& options = {})
      : Process(with_program(options)),
        port(static_cast<int>(number(line(), "port"))),
        metrics_port(static_cast<int>(number(line(), "metrics_port"))) {}

  static std::vector<std::string> with_program(std::vector<std::string> options) {
    options.insert(options.begin(), SLUICE_TRAINING_SERVER);
    return options;
  }

  /// What Prometheus would read, by name and labels.
  std::map<std::string, double> metrics() const {
    tcp::iostream http("127.0.0.1", std::to_string(metrics_port));
    http << "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n" << std::flush;
    std::string text;
    std::getline(http, text);
    EXPECT_THAT(text, HasSubstr(" 200 "));
    std::map<std::string, double> values;
    while (std::getline(http, text)) {
      const auto blank = text.rfind(' ');
      if (text.starts_with("training_") && blank != std::string::npos) {
        values[text.substr(0, blank)] = std::stod(text.substr(blank + 1));
      }
    }
    return values;
  }

  /// Asks until it is so; how long that takes is no verdict.
  void wait_for(const std::string& metric, double value) const {
    while (metrics()[metric] != value) std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }

  int port;
  int metrics_port;
};

class Client {
 public:
  explicit Client(const TrainingServer& server)
      : stream_("127.0.0.1", std::to_string(server.port)) {
    // A request leaves in pieces: none of them is to wait for the acknowledgement of another.
    std::error_code ignored;
    stream_.socket().set_option(tcp::no_delay(true), ignored);
  }

  void send(const std::string& text) { stream_ << text << std::flush; }
  /// The next answer; empty when the server has closed the connection.
  std::string answer() {
    std::string line;
    std::getline(stream_, line);
    return line;
  }
  std::string ask(const std::string& line) {
    send(line + "\n");
    return answer();
  }

 private:
  tcp::iostream stream_;
};

/// `samples` of a function that is easy to learn, different ones for each `first`.
std::string batch(int samples, int first = 0) {
  std::string line = fmt::format("{} ", samples);
  for (int i = first; i < first + samples; ++i) {
    const double a = 0.1 * (i % 13) - 0.6;
    const double b = 0.1 * (i % 7) - 0.3;
    line += fmt::format("{} {} {};", a, b, 0.5 * a - 0.8 * b + 0.2);
  }
  return line;
}

TEST(TrainingServer, LearnsFromBatchesOfAnySize) {
  TrainingServer server({"--micro", "8"});
  Client client(server);
  const double before = number(client.ask("evaluate " + batch(64)), "loss");
  for (int step = 0; step < 60; ++step) {
    const int samples = 20 + step % 30;  // the last microbatch is a short one, most times
    const std::string answer = client.ask("train " + batch(samples, step));
    EXPECT_EQ(number(answer, "step"), step);
    EXPECT_EQ(number(answer, "microbatches"), (samples + 7) / 8);
  }
  EXPECT_LT(number(client.ask("evaluate " + batch(64)), "loss"), before / 10);
}

TEST(TrainingServer, HowABatchIsCutDoesNotShowInTheLoss) {
  std::vector<double> losses;
  for (const char* micro : {"1", "8", "64"}) {
    TrainingServer server({"--micro", micro});
    Client client(server);
    client.ask("train " + batch(50));
    losses.push_back(number(client.ask("evaluate " + batch(64)), "loss"));
  }
  // Gradients of other microbatches are other sums, so only nearly the same; but no mean of means.
  EXPECT_NEAR(losses[0], losses[1], 2e-6);
  EXPECT_NEAR(losses[1], losses[2], 2e-6);
}

TEST(TrainingServer, TwoClientsTakeTurns) {
  TrainingServer server;
  Client one(server);
  Client two(server);
  for (int i = 0; i < 20; ++i) {  // nobody waits for an answer
    one.send("train " + batch(16, i) + "\n");
    two.send("train " + batch(24, i) + "\n");
  }
  std::set<double> steps;
  double last_of_one = -1;
  for (int i = 0; i < 20; ++i) {
    const std::string of_one = one.answer();
    EXPECT_EQ(number(of_one, "microbatches"), 2);
    EXPECT_GT(number(of_one, "step"), last_of_one);
    last_of_one = number(of_one, "step");
    steps.insert(last_of_one);
    const std::string of_two = two.answer();
    EXPECT_EQ(number(of_two, "microbatches"), 3);
    steps.insert(number(of_two, "step"));
  }
  EXPECT_THAT(steps, SizeIs(40));
}

TEST(TrainingServer, AFailingBatchIsExplainedAndChangesNothing) {
  TrainingServer server({"--micro", "1"});
  Client client(server);
  client.ask("train " + batch(16));
  const std::string before = client.ask("evaluate " + batch(16));
  EXPECT_THAT(before, StartsWith("loss="));
  const std::map<std::string, std::string> failing = {
      {"3 0.1 0.2 0.3; nan 0.2 0.3; 0.1 0.2 0.3", "stage 0, mb 1, F failed: its output holds NaN"},
      {"2 0.1 0.2 0.3; 0.1 0.2 inf", "stage 2, mb 1, F failed: its loss is inf"},
      {"3 0.1 0.2 0.3; 0.1 0.2; 0.1 0.2 0.3", "sample 1 has 2 numbers; expected 2 inputs"},
      {"3 0.1 0.2 0.3; 0.1 0.2 0.3 0.4", "sample 1 has 4 numbers; expected 2 inputs"},
      {"4 0.1 0.2 0.3; 0.1 0.2 0.3", "the batch source ended after 2 of 4 microbatches"},
  };
  for (const auto& [samples, text] : failing) {
    EXPECT_THAT(client.ask("train " + samples), AllOf(StartsWith("error "), HasSubstr(text)));
    EXPECT_EQ(client.ask("evaluate " + batch(16)), before);
  }
  EXPECT_LT(number(client.ask("train " + batch(16)), "loss"), 1);
  EXPECT_NE(client.ask("evaluate " + batch(16)), before);
}

TEST(TrainingServer, GarbageIsAnsweredAndHarmsNobody) {
  TrainingServer server;
  Client client(server);
  for (const std::string garbage :
       {"", " ", "GET / HTTP/1.1", "train", "train x", "train 0", "train -1 0.1 0.2 0.3",
        "train 99999999999999999999 0.1 0.2 0.3", "train 1000000 0.1 0.2 0.3", "train 1 0.1 0.2 x",
        "train 1 0.1 0.2 0x10", "train 1 0.1 0.2 0.3f", "train 1 1e99 0 0",
        "train 1 0.1 0.2 0.3; 0.1 0.2 0.3", "train 1 ;;;;", "evaluate 1", "\x01\xff\x80;\x7f"}) {
    EXPECT_THAT(client.ask(garbage), StartsWith("error ")) << garbage;
  }
  EXPECT_THAT(client.ask(std::string("train 1 \0 0.2 0.3", 17)), StartsWith("error "));
  EXPECT_THAT(client.ask("train 1 0.1 0.2 0.3\r"), StartsWith("loss="));
  {
    Client endless(server);
    endless.send(std::string(std::size_t{3} << 20, '1'));
    // It is told so, unless what it goes on sending resets the connection first; and it is over.
    const std::string answer = endless.answer();
    EXPECT_THAT(answer, AnyOf("", StartsWith("error a line of more than")));
    EXPECT_EQ(endless.answer(), "");
  }
  EXPECT_THAT(client.ask("train " + batch(8)), StartsWith("loss="));
}

TEST(TrainingServer, AClientMayLeaveInTheMiddle) {
  TrainingServer server({"--device-ms", "1"});
  for (int i = 0; i < 10; ++i) {
    Client(server).send("train 2 0.1 0.2 0.3; 0.1");  // no end of line
  }
  Client(server).send("train " + batch(32) + "\n");  // leaves without its answer
  server.wait_for("training_steps_total{result=\"applied\"}", 1);
  Client client(server);
  EXPECT_EQ(number(client.ask("train " + batch(8)), "step"), 1);
}

TEST(TrainingServer, TellsPrometheusWhatItDoes) {
  TrainingServer server({"--micro", "8", "--stages", "3", "--device-ms", "1"});
  Client client(server);
  client.ask("train " + batch(64));
  client.ask("train 1 nan 0.2 0.3");
  const double loss = number(client.ask("train " + batch(40)), "loss");
  server.wait_for("training_request_running", 0);
  auto metrics = server.metrics();
  EXPECT_EQ(metrics["training_steps_total{result=\"applied\"}"], 2);
  EXPECT_EQ(metrics["training_steps_total{result=\"stage_failed\"}"], 1);
  EXPECT_NEAR(metrics["training_loss"], loss, 1e-6);
  EXPECT_EQ(metrics["training_step_seconds_count"], 3);
  EXPECT_GT(metrics["training_step_seconds_sum"], 0.026);  // 26 actions in a row, at the least

  PlanConfig config;
  config.stages = 3;
  config.microbatches = 5;
  EXPECT_NEAR(metrics["training_bubble_ratio{kind=\"planned\"}"],
              derive_plan(config).bubble_of_makespan, 1e-6);
  EXPECT_GT(metrics["training_bubble_ratio{kind=\"measured\"}"], 0);
  EXPECT_LT(metrics["training_bubble_ratio{kind=\"measured\"}"], 1);
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(metrics[fmt::format("training_rank_peak_held{{rank=\"{}\"}}", rank)], 3 - rank);
    const auto spent = [&](const char* state) {
      const auto name =
          fmt::format("training_rank_seconds_total{{rank=\"{}\",state=\"{}\"}}", rank, state);
      EXPECT_THAT(metrics, Contains(Key(name)));
      return metrics[name];
    };
    EXPECT_GE(spent("busy"), 0.026);  // 13 microbatches, forward and backward, a millisecond each
    EXPECT_GE(spent("input_wait"), 0);
    EXPECT_GE(spent("order_wait"), 0);
    // One stage a rank: what is the stage's is the rank's.
    EXPECT_NEAR(metrics[fmt::format("training_stage_busy_seconds_total{{stage=\"{}\"}}", rank)],
                spent("busy"), 1e-9);
    EXPECT_THAT(
        metrics,
        Contains(Key(fmt::format("training_rank_longest_wait_seconds{{rank=\"{}\"}}", rank))));
  }
}

TEST(TrainingServer, AStepThatTakesTooLongEndsAtItsDeadline) {
  TrainingServer server({"--micro", "1", "--device-ms", "20", "--deadline", "2"});
  Client client(server);
  // 300 forwards and 300 backwards of 20 ms on every rank would take 12 s.
  const std::string answer = client.ask("train " + batch(300));
  EXPECT_THAT(answer, StartsWith("error the step has exceeded its deadline of 2 s"));
  EXPECT_THAT(answer, HasSubstr("rank 2: "));  // where everyone stood
  EXPECT_THAT(client.ask("train " + batch(1)), StartsWith("loss="));
}

TEST(TrainingServer, ASignalCancelsAStepThatOutlastsTheGrace) {
  // 2000 samples would take more than three minutes.
  TrainingServer server({"--micro", "1", "--device-ms", "50", "--grace", "0.1"});
  Client running(server);
  running.send("train " + batch(2000) + "\n");
  server.wait_for("training_request_running", 1);
  Client queued(server);
  queued.send("train " + batch(8) + "\n");
  Client idle(server);
  EXPECT_THAT(idle.ask("?"), StartsWith("error "));
  server.send(SIGTERM);
  EXPECT_EQ(running.answer(), "error the step was cancelled");
  // Queued, or not even read: that is a matter of timing.
  EXPECT_THAT(queued.answer(), AnyOf("", "error the server is stopping"));
  EXPECT_EQ(idle.answer(), "");
  EXPECT_EQ(server.wait(), 0);
}

TEST(TrainingServer, ASignalLetsAStepFinishWithinTheGrace) {
  TrainingServer server({"--micro", "1", "--device-ms", "2", "--grace", "50"});
  Client client(server);
  client.send("train " + batch(100) + "\n");
  server.wait_for("training_request_running", 1);
  server.send(SIGINT);
  EXPECT_THAT(client.answer(), StartsWith("loss="));
  EXPECT_EQ(client.answer(), "");
  EXPECT_EQ(server.wait(), 0);
  EXPECT_EQ(Client(server).ask("train " + batch(8)), "");  // nobody listens
}

TEST(TrainingServer, AnIdleServerEndsAtOnce) {
  TrainingServer server;
  server.send(SIGTERM);
  EXPECT_EQ(server.wait(), 0);
  EXPECT_EQ(server.rest(), "");
}

TEST(TrainingServer, RefusesAPortInUseAndOptionsItDoesNotKnow) {
  TrainingServer server;
  const std::vector<std::string> same = {SLUICE_TRAINING_SERVER, "--port",
                                         std::to_string(server.port)};
  EXPECT_EQ(Process(same).wait(), 1);
  EXPECT_NE(Process({SLUICE_TRAINING_SERVER, "--prot", "1"}).wait(), 0);
  EXPECT_NE(Process({SLUICE_TRAINING_SERVER, "--stages", "0"}).wait(), 0);
}

TEST(OwnSchedule, IsDrawnPricedAndTrainsToTheSameBits) {
  Process program({SLUICE_OWN_SCHEDULE});
  const std::string text = program.rest();
  EXPECT_EQ(program.wait(), 0);
  EXPECT_THAT(text, HasSubstr("1f1b: makespan 34, "));
  EXPECT_THAT(text, HasSubstr("eager: makespan 28, "));
  EXPECT_THAT(text, HasSubstr("stage 0 |0 1 2 3 4 ............[0 ]5 [1 ]"));
  EXPECT_THAT(text, HasSubstr("refused: schedule, row 1, column 2: "));
  std::set<std::string> losses;
  int runs = 0;
  for (auto at = text.find("loss "); at != std::string::npos; at = text.find("loss ", at + 1)) {
    losses.insert(text.substr(at, text.find('\n', at) - at));
    ++runs;
  }
  EXPECT_EQ(runs, 3);
  EXPECT_THAT(losses, SizeIs(1)) << text;
}

TEST(Embed, Learns) {
  Process program({SLUICE_EMBED});
  std::vector<double> losses;
  for (std::string line = program.line(); !line.empty(); line = program.line()) {
    EXPECT_THAT(line, StartsWith("step "));
    losses.push_back(std::stod(line.substr(line.rfind(' ') + 1)));
  }
  EXPECT_EQ(program.wait(), 0);
  ASSERT_THAT(losses, SizeIs(Gt(2)));
  EXPECT_LT(losses.back(), losses.front() / 10);
}

}  // namespace
}  // namespace sluice
