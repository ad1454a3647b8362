// Config: what a run is made of, read strictly from TOML.
//
// One struct a section. `read_config` lays the values given on the command line over the file's, so
// that `-S 4`, `--set pipeline.stages=4` and a line in the file are the same thing and are checked
// the same way. `to_toml` writes a Config with every default filled in: that text goes into a
// recording, and reading it gives the same Config whatever the defaults are by then.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/batch_shape.hpp>
#include <sluice/devices.hpp>
#include <sluice/finding.hpp>
#include <sluice/ids.hpp>
#include <sluice/plan.hpp>
#include <sluice/replay/recording_header.hpp>

namespace sluice::tools {

/// [batch]
struct BatchConfig : BatchShape {
  /// The global batches of the steps before it has grown to `global`.
  std::vector<std::int64_t> ramp;
};

/// [model]
struct ModelConfig {
  std::vector<std::int64_t> widths;  ///< features, hidden layers, classes
};

/// [train]
struct TrainConfig {
  std::int64_t epochs = 1;
  std::optional<std::int64_t> steps;  ///< end after so many, whatever the epochs say
  double learning_rate = 0.05;
  bool decay = false;  ///< the learning rate falls linearly to 0 over the run
  double momentum = 0.9;
  double weight_decay = 0;
  bool check_finite = false;  ///< a number that is not ends the step, naming its action
  std::int64_t seed = 0;
  int threads = 2;
  std::filesystem::path data = "/usr/share/datasets/fashion-mnist";
  std::optional<Action> fail;  ///< this action throws in step `fail_step`, to see what follows
  std::int64_t fail_step = 0;
};

/// [record]
struct RecordConfig {
  bool off = false;
  /// Not given: `verify` into a file that was asked for, else `ring`.
  std::optional<replay::RecordingMode> mode;
  std::optional<std::filesystem::path> file;
  std::int64_t ring_bytes = std::int64_t{8} << 20;  ///< of each rank
  bool overwrite = false;                           ///< a file that exists
  bool go_on = false;  ///< a recording that cannot be written, or not to its end, ends no run
  std::int64_t sync_every = 0;  ///< steps; 0: never
  std::int64_t payload = 0;     ///< the last so many steps with all that their actions were given
};

/// [pipeline] policy: a command that decides (policy_child.hpp).
struct PolicyConfig {
  std::string command;
  /// With order = adaptive it is asked again while the run goes on. The plan, and what is run with
  /// order = fixed, is what it did in virtual time.
  bool at_run_time = false;
  std::optional<int> allowed_depth = std::nullopt;  ///< the W that was asked for
};

/// What [pipeline] schedule may be, besides a schedule of one's own.
inline constexpr const char* schedule_names =
    "drain, 1f1b, gpipe, eager-1f1b, interleaved, looped-bfs, zb-h1, zb-h2, zb-v, dualpipe-v";

struct Config {
  PlanConfig plan;
  std::optional<PolicyConfig> policy;
  std::optional<BatchConfig> batch;
  std::optional<Devices> devices;
  std::int64_t replicas = 1;  ///< as in [batch], or what [devices] are enough for
  std::optional<ModelConfig> model;
  TrainConfig train;
  RecordConfig record;

  std::vector<Finding> findings;  ///< errors that a plan would have, met while reading

  std::vector<std::filesystem::path> files;  ///< that were read: itself, its schedule
  std::string name;  ///< what to call the configuration as a whole in messages
  /// Where each key was given, by its name without the section: `file:3:10`, `-S`.
  std::map<std::string, std::string, std::less<>> places;
};

/// A value given on the command line: `--set train.epochs=1`, or an option that stands for a key.
struct Override {
  std::string key;     ///< `train.epochs`
  std::string value;   ///< as TOML; what is not TOML is taken as a string
  std::string source;  ///< what the user wrote: `-S`, `--set train.epochs=1`
};

/// All of a file. Throws UsageError when it cannot be read.
std::string read_file(const std::filesystem::path& path);

/// Throws UsageError with every error there is. Without a file only `overrides` count. A policy is asked
/// for its order here, which becomes the plan's own schedule.
Config read_config(const std::optional<std::filesystem::path>& file,
                   std::span<const Override> overrides);

/// The same for a text, without asking a policy; `name` stands for the file in messages.
Config parse_config(std::string_view text, const std::string& name,
                    std::span<const Override> overrides = {});

/// Throws UsageError when a result at `output`, as `option` asks for it, would overwrite one of `files`, which
/// it is made from.
void keep_inputs(std::span<const std::filesystem::path> files,
                 const std::optional<std::filesystem::path>& output,
                 std::string_view option = "-o");

/// Throws UsageError unless there are a model and a batch to train on here.
void require_training(const Config& config);

/// Derives the plan. Throws RejectedConfig with everything that makes it impossible, each with the
/// place where the value was given.
Plan plan_of(const Config& config);

/// Throws RejectedConfig with each of `findings`, and the place where its value was given.
[[noreturn]] void throw_rejected(const Config& config, std::vector<Finding> findings);

std::string to_toml(const Config& config);

}  // namespace sluice::tools
