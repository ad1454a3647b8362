#include "policy_child.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fmt/format.h>
#include <asio/buffer.hpp>
#include <asio/io_context.hpp>
#include <asio/local/connect_pair.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read_until.hpp>
#include <asio/write.hpp>
#include <nlohmann/json.hpp>

#include "errors.hpp"

extern char** environ;

namespace sluice::tools {
namespace {

using Socket = asio::local::stream_protocol::socket;
using Json = nlohmann::json;

/// Answers longer than this are no answers.
constexpr std::size_t longest_line = 64 * 1024;
/// So long nobody wonders.
constexpr std::chrono::milliseconds longest_untold = std::chrono::seconds(5);

void close_on_exec(Socket& socket) { ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC); }

/// Starts a shell in a process group of its own, with `input` as its standard input and, where there is one,
/// `output` as its standard output.
pid_t start_shell(std::vector<std::string> arguments, int input, std::optional<int> output) {
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&files, input, STDIN_FILENO);
  if (output) ::posix_spawn_file_actions_adddup2(&files, *output, STDOUT_FILENO);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, "/bin/sh", &files, &attributes, pointers.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&files);
  if (error != 0) {
    throw std::system_error(error, std::generic_category(), "a policy's process cannot be started");
  }
  return pid;
}

/// Ends a process group when this process ends, in whatever way: a shell waits for the end of an input
/// whose other end is open here alone. While it lives the group is its maker's.
class Guard {
 public:
  Guard() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
      throw std::system_error(errno, std::generic_category(), "a policy cannot be guarded");
    }
    ours_ = ends[1];
    try {
      pid_ = start_shell({"sh", "-c", "read group && { read end; kill -KILL -$group; }"}, ends[0],
                         std::nullopt);
    } catch (...) {
      ::close(ends[0]);
      ::close(ours_);
      throw;
    }
    ::close(ends[0]);
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(ours_);
  }

  void watch(pid_t group) const {
    const std::string line = fmt::format("{}\n", group);
    // The guard's shell does not end before this process does, so the pipe takes it.
    [[maybe_unused]] const auto written = ::write(ours_, line.data(), line.size());
  }

 private:
  pid_t pid_ = 0;
  int ours_ = -1;
};

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::string ending_of(int status) {
  if (WIFEXITED(status))
    return fmt::format("has ended with exit code {}, without an answer", WEXITSTATUS(status));
  return fmt::format("was ended by signal {}, without an answer", WTERMSIG(status));
}

}  // namespace

/// What is said to the child, and what it answers. A first error is kept: every later question meets
/// it again.
class PolicyChild::Conversation {
 public:
  Conversation(const std::string& command, std::chrono::milliseconds patience)
      : command_(command), patience_(patience), socket_(context_) {
    Socket theirs(context_);
    asio::local::connect_pair(socket_, theirs);
    close_on_exec(socket_);
    close_on_exec(theirs);
    guard_.emplace();
    pid_ = start_shell({"sh", "-c", command}, theirs.native_handle(), theirs.native_handle());
    guard_->watch(pid_);
  }

  Conversation(const Conversation&) = delete;
  Conversation& operator=(const Conversation&) = delete;

  ~Conversation() {
    std::error_code ignored;
    socket_.close(ignored);
    constexpr auto grace = std::chrono::milliseconds(200);
    for (const auto until = std::chrono::steady_clock::now() + grace; !reaped();) {
      if (std::chrono::steady_clock::now() > until) break;
      ::usleep(1000);
    }
    guard_.reset();
    ::kill(-pid_, SIGKILL);  // also what it has left behind
    if (!status_) ::waitpid(pid_, nullptr, 0);
  }

  /// Goes out with the next question: nobody waits for it.
  void tell(const Json& message) {
    const std::lock_guard lock(mutex_);
    pending_ += message.dump() + '\n';
  }

  /// The answer to `question`.
  std::optional<Action> ask(const Json& question) {
    const std::lock_guard lock(mutex_);
    if (failure_.empty()) {
      pending_ += question.dump() + '\n';
      const auto line = exchange();
      if (line) {
        const Json answer = Json::parse(*line, nullptr, false);
        if (answer.is_object() && answer.size() == 1 && answer.contains("action")) {
          const Json& action = answer["action"];
          if (action.is_null()) return std::nullopt;
          const auto parsed = action.is_string() ? parse_action(action.get<std::string>())
                                                 : std::optional<Action>();
          const Json& ready = question["ready"];
          if (parsed && std::find(ready.begin(), ready.end(), action) != ready.end()) {
            return parsed;
          }
        }
        failure_ = fmt::format("answered {}", line->substr(0, 200));
      }
    }
    throw std::runtime_error(fmt::format(
        "the policy '{}' {}; asked {}, expected a line {{\"action\":\"...\"}} with one of `ready`, "
        "or {{\"action\":null}} to wait",
        command_, failure_, question.dump()));
  }

 private:
  /// Sends what is pending and reads a line. Nothing, and `failure_`, when there is none in time.
  std::optional<std::string> exchange() {
    std::error_code error = asio::error::timed_out;
    bool answered = false;
    asio::async_write(
        socket_, asio::buffer(pending_), [&](std::error_code write_error, std::size_t) {
          if (write_error) {
            error = write_error;
            return;
          }
          asio::async_read_until(socket_, asio::dynamic_buffer(received_, longest_line), '\n',
                                 [&](std::error_code read_error, std::size_t) {
                                   error = read_error;
                                   answered = !read_error;
                                 });
        });
    context_.restart();
    const auto untold = std::min(patience_ / 2, longest_untold);
    context_.run_for(untold);
    if (!answered && error == asio::error::timed_out) {
      say(fmt::format("waiting for the policy '{}': no answer for {} s, given up after {} s\n",
                      command_, seconds(untold), seconds(patience_)));
      context_.run_for(patience_ - untold);
    }
    if (!answered && error == asio::error::timed_out) {
      std::error_code ignored;
      socket_.cancel(ignored);
      context_.restart();
      context_.run();
      failure_ = fmt::format("has not answered for {} s (does it flush each line that it prints?)",
                             seconds(patience_));
      return std::nullopt;
    }
    pending_.clear();
    if (!answered) {
      failure_ = error == asio::error::not_found ? "answered without an end of line"
                 : reap()                        ? ending_of(*status_)
                                                 : "has closed its output";
      return std::nullopt;
    }
    const auto end = received_.find('\n');
    std::string line = received_.substr(0, end);
    received_.erase(0, end + 1);
    return line;
  }

  /// A child that has closed its end is about to end, or never will.
  bool reap() {
    for (int i = 0; i < 200 && !reaped(); ++i) ::usleep(1000);
    return status_.has_value();
  }

  bool reaped() {
    int status = 0;
    if (!status_ && ::waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
    return status_.has_value();
  }

  std::string command_;
  std::chrono::milliseconds patience_;
  asio::io_context context_;
  Socket socket_;
  pid_t pid_ = 0;
  std::optional<Guard> guard_;
  std::optional<int> status_;
  std::mutex mutex_;
  std::string pending_;
  std::string received_;
  std::string failure_;
};

class PolicyChild::OfRank final : public RankPolicy {
 public:
  OfRank(std::shared_ptr<Conversation> conversation, RankId rank)
      : conversation_(std::move(conversation)), rank_(rank) {}

  std::optional<std::size_t> choose(const ReadyView& ready) override {
    if (ready.size() == 0) return std::nullopt;
    Json question = {{"kind", "choose"}, {"rank", rank_.value}, {"held", held_}};
    Json& names = question["ready"] = Json::array();
    for (std::size_t i = 0; i < ready.size(); ++i) names.push_back(to_string(ready[i]));
    const auto action = conversation_->ask(question);
    if (!action) return std::nullopt;
    return ready.find(*action);
  }

  void observe(const Event& event) override {
    const char* kind = event.kind == Event::Kind::enter    ? "enter"
                       : event.kind == Event::Kind::exit   ? "exit"
                       : event.kind == Event::Kind::failed ? "failed"
                                                           : nullptr;
    if (kind == nullptr) return;
    if (event.kind == Event::Kind::enter && event.action.phase == Phase::forward) ++held_;
    if (event.kind == Event::Kind::exit && releases(event.action.phase)) --held_;
    conversation_->tell(
        {{"kind", kind}, {"rank", rank_.value}, {"action", to_string(event.action)}});
  }

 private:
  std::shared_ptr<Conversation> conversation_;
  RankId rank_;
  int held_ = 0;  // microbatches, of all the rank's stages
};

PolicyChild::PolicyChild(const std::string& command, std::chrono::milliseconds patience)
    : conversation_(std::make_shared<Conversation>(command, patience)) {}

PolicyChild::~PolicyChild() = default;

std::unique_ptr<RankPolicy> PolicyChild::for_rank(const Plan& plan, RankId rank) {
  std::vector<int> rank_of;
  rank_of.reserve(plan.rank_of.size());
  for (const RankId of_stage : plan.rank_of) rank_of.push_back(of_stage.value);
  conversation_->tell({{"kind", "begin"},
                       {"rank", rank.value},
                       {"plan",
                        {{"stages", plan.stages},
                         {"ranks", plan.ranks},
                         {"microbatches", plan.microbatches},
                         {"drain_depth", plan.drain_depth},
                         {"credits", plan.credits},
                         {"gate", plan.gate},
                         {"rank_of", rank_of}}}});
  return std::make_unique<OfRank>(conversation_, rank);
}

}  // namespace sluice::tools
