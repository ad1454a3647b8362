// Megatron's arguments: pipeline-model-parallel-size counts ranks; a rank has several stages when the
// pipeline is virtual; M = global-batch-size over micro-batch-size and replicas, which are the world
// over tensor, context and pipeline parallelism.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include <sluice/partition.hpp>

#include "errors.hpp"
#include "foreign_settings.hpp"

namespace sluice::tools {
namespace {

constexpr std::int64_t most = std::numeric_limits<int>::max();
/// Layers and stages are counted one by one.
constexpr std::int64_t most_layers = 1'000'000;

bool is_name(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  return !text.empty() && !(text.front() >= '0' && text.front() <= '9') &&
         std::all_of(text.begin(), text.end(), plain);
}

/// The words of a shell script, without comments, continued lines, quotes and brackets of lists.
std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  std::string word;
  char quote = 0;
  int depth = 0;  // of $((...)), which is one word
  const auto end = [&] {
    if (!word.empty()) words.push_back(std::exchange(word, {}));
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else {
        word += c == '\n' ? ' ' : c;
      }
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '\\' && i + 1 < text.size() && (text[i + 1] == '\n' || text[i + 1] == '\r')) {
      end();
    } else if (c == '#' && word.empty()) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '(' && (depth > 0 || word.ends_with('$'))) {
      ++depth;
      word += c;
    } else if (c == ')' && depth > 0) {
      --depth;
      word += c;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';') {
      if (depth == 0 || c == '\n') end(), depth = 0;
    } else if (c == '(' || c == ')') {
      end();
    } else {
      word += c;
    }
  }
  end();
  return words;
}

class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  ForeignSettings read(std::string_view text) {
    collect(words_of(text));
    const auto global = take("global-batch-size", "batch.global", "global");
    const auto micro = take("micro-batch-size", "batch.micro", "micro");
    const std::int64_t ranks = number("pipeline-model-parallel-size").value_or(1);
    const std::int64_t chunks = chunks_of(ranks);
    const std::int64_t stages = ranks * chunks;
    if (stages > most_layers) {
      refuse("pipeline-model-parallel-size", std::to_string(ranks),
             fmt::format("at most {} stages", most_layers));
    }
    if (!global || !micro) {
      settings_.notes.push_back(
          "global-batch-size and micro-batch-size are needed for the number of "
          "microbatches");
    }
    ramp(global);
    devices();
    if (errors_.empty()) layers(ranks, chunks);
    unused();
    if (std::none_of(arguments_.begin(), arguments_.end(),
                     [](const auto& each) { return each.used; })) {
      const auto first = text.substr(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
      errors_.push_back(error_line(
          name_,
          fmt::format("expected arguments of Megatron, like --pipeline-model-parallel-size 4, "
                      "found '{}'",
                      first.substr(0, std::min<std::size_t>(first.find('\n'), 60)))));
    }
    if (!errors_.empty()) throw UsageError(std::move(errors_));
    const std::string source = where("pipeline-model-parallel-size");
    settings_.values.push_back({"pipeline.stages", std::to_string(stages), source});
    if (chunks == 1) settings_.names["stages"] = "pipeline-model-parallel-size";
    settings_.values.push_back({"pipeline.schedule", chunks > 1 ? "interleaved" : "1f1b", source});
    if (chunks > 1) {
      settings_.values.push_back({"pipeline.chunks", std::to_string(chunks), source});
    }
    return std::move(settings_);
  }

 private:
  struct Argument {
    std::string key;
    std::vector<std::string> values;
    bool used = false;
  };

  std::string where(std::string_view key) const { return fmt::format("{}: {}", name_, key); }

  void refuse(std::string_view key, std::string_view found, std::string_view expected) {
    errors_.push_back(
        error_line(name_, fmt::format("{} = {}: expected {}", key, found.substr(0, 60), expected)));
  }

  void collect(const std::vector<std::string>& words) {
    for (const std::string& word : words) {
      const auto equals = word.find('=');
      if (word.starts_with("--")) {
        Argument argument;
        argument.key = word.substr(2, equals == std::string::npos ? equals : equals - 2);
        std::replace(argument.key.begin(), argument.key.end(), '_', '-');
        if (equals != std::string::npos) argument.values.push_back(word.substr(equals + 1));
        arguments_.push_back(std::move(argument));
      } else if (equals != std::string::npos && is_name(std::string_view(word).substr(0, equals))) {
        variables_[word.substr(0, equals)] = word.substr(equals + 1);
      } else if (!arguments_.empty()) {
        arguments_.back().values.push_back(word);
      }
    }
  }

  Argument* find(std::string_view key) {
    // The last one counts, as on any command line.
    const auto found = std::find_if(arguments_.rbegin(), arguments_.rend(),
                                    [key](const Argument& each) { return each.key == key; });
    return found == arguments_.rend() ? nullptr : &*found;
  }

  /// A number, a variable, or a product of them in double brackets. `depth`: variables may name others.
  std::optional<std::int64_t> value_of(std::string_view text, int depth = 0) const {
    if (depth > 8) return std::nullopt;
    if (text.starts_with("$((") && text.ends_with("))")) text = text.substr(3, text.size() - 5);
    std::int64_t product = 1;
    while (true) {
      const auto star = text.find('*');
      std::string_view factor = text.substr(0, star);
      const bool variable = factor.starts_with('$');
      if (variable) factor.remove_prefix(1);
      if (variable && factor.starts_with('{') && factor.ends_with('}')) {
        factor = factor.substr(1, factor.size() - 2);
      }
      std::optional<std::int64_t> value;
      std::int64_t parsed = 0;
      const auto [end, error] =
          std::from_chars(factor.data(), factor.data() + factor.size(), parsed);
      if (error == std::errc() && end == factor.data() + factor.size()) {
        value = parsed;
      } else if (const auto known = variables_.find(factor); known != variables_.end()) {
        value = value_of(known->second, depth + 1);
      }
      if (!value || *value < 1 || *value > most || product > most) return std::nullopt;
      product *= *value;
      if (star == std::string_view::npos)
        return product <= most ? std::optional(product) : std::nullopt;
      text.remove_prefix(star + 1);
    }
  }

  std::optional<std::int64_t> number(std::string_view key) {
    Argument* argument = find(key);
    if (argument == nullptr) return std::nullopt;
    argument->used = true;
    const std::string text = argument->values.empty() ? std::string() : argument->values.front();
    const auto value = value_of(text);
    if (!value) refuse(key, text, fmt::format("a whole number from 1 to {}", most));
    return value;
  }

  std::optional<std::int64_t> take(const char* theirs, const char* ours, const char* key) {
    const auto value = number(theirs);
    if (!value) return value;
    settings_.values.push_back({ours, std::to_string(*value), where(theirs)});
    settings_.names[key] = theirs;
    return value;
  }

  /// Stages a rank, of a virtual pipeline.
  std::int64_t chunks_of(std::int64_t ranks) {
    const auto direct = number("num-virtual-stages-per-pipeline-rank");
    const auto layers_each = number("num-layers-per-virtual-pipeline-stage");
    const auto layers = number("num-layers");
    if (direct) {
      settings_.names["chunks"] = "num-virtual-stages-per-pipeline-rank";
      return std::min(*direct, most_layers);
    }
    if (!layers_each || !layers) return 1;
    settings_.names["chunks"] = "num-layers-per-virtual-pipeline-stage";
    return std::clamp<std::int64_t>(*layers / ranks / *layers_each, 1, most_layers);
  }

  /// start, increment, samples: the batches on the way to the full one.
  void ramp(std::optional<std::int64_t> global) {
    Argument* argument = find("rampup-batch-size");
    if (argument == nullptr) return;
    argument->used = true;
    const auto& values = argument->values;
    const auto value_at = [&](std::size_t i) {  // 0 where there is none
      return i < values.size() ? value_of(values[i]).value_or(0) : 0;
    };
    const std::int64_t start = value_at(0);
    const std::int64_t by = value_at(1);
    if (start == 0 || by == 0) {
      refuse("rampup-batch-size", fmt::format("{}", fmt::join(values, " ")),
             "three whole numbers: start, increment, samples");
      return;
    }
    constexpr std::int64_t most_steps = 100'000;
    if (!global || (*global - start) / by > most_steps) return;
    std::vector<std::int64_t> ramp;
    for (std::int64_t batch = start; batch < *global; batch += by) ramp.push_back(batch);
    settings_.values.push_back(
        {"batch.ramp", fmt::format("[{}]", fmt::join(ramp, ", ")), where("rampup-batch-size")});
    settings_.names["ramp"] = "rampup-batch-size";
  }

  void devices() {
    std::optional<std::int64_t> world = number("world-size");
    std::string source = "world-size";
    const auto from_variable = variables_.find("WORLD_SIZE");
    if (!world && from_variable != variables_.end()) {
      world = value_of(from_variable->second);
      source = "WORLD_SIZE";
    }
    const auto per_node = number("nproc-per-node");
    const auto nodes = number("nnodes");
    if (!world && per_node) {
      world = *per_node * nodes.value_or(1);
      source = "nproc-per-node";
    }
    const std::int64_t inside = number("tensor-model-parallel-size").value_or(1) *
                                number("context-parallel-size").value_or(1);
    if (!world) {
      settings_.notes.push_back(
          "the number of devices is not said (world-size, WORLD_SIZE, "
          "nproc-per-node): one replica assumed");
      return;
    }
    if (*world % inside != 0 || *world > most) {
      refuse(
          source, std::to_string(*world),
          fmt::format("a multiple of tensor-model-parallel-size times context-parallel-size, which "
                      "makes {}, and at most {}",
                      inside, most));
      return;
    }
    settings_.values.push_back({"devices.count", std::to_string(*world / inside), where(source)});
    if (inside == 1) settings_.names["count"] = source;
  }

  /// Whether every layer is on a stage. An uneven split of its own says so itself.
  void layers(std::int64_t ranks, std::int64_t chunks) {
    const auto layers = number("num-layers");
    const bool own_split =
        std::any_of(arguments_.begin(), arguments_.end(), [](const Argument& each) {
          return each.key.find("pipeline-num-layers") != std::string::npos ||
                 each.key.find("-in-pipeline-split") != std::string::npos ||
                 each.key == "pipeline-model-parallel-layout";
        });
    if (!layers || own_split) return;
    if (*layers > most_layers) {
      refuse("num-layers", std::to_string(*layers), fmt::format("at most {}", most_layers));
      return;
    }
    ForeignSettings names;
    names.names = {{"layers", "num-layers"}, {"stages", "pipeline-model-parallel-size"}};
    std::optional<Finding> finding;
    const auto each = number("num-layers-per-virtual-pipeline-stage");
    if (each) {
      names.names["partition"] = "num-layers-per-virtual-pipeline-stage";
      const std::vector<int> of_stage(static_cast<std::size_t>(ranks * chunks),
                                      static_cast<int>(*each));
      finding = check_partition(static_cast<int>(*layers), of_stage);
    } else {
      finding = check_even_partition(static_cast<int>(*layers), static_cast<int>(ranks * chunks));
    }
    if (finding) settings_.findings.push_back(in_their_words(*std::move(finding), names));
  }

  void unused() {
    for (const Argument& each : arguments_) {
      const bool is_listed = std::find(settings_.unused.begin(), settings_.unused.end(),
                                       each.key) != settings_.unused.end();
      if (!each.used && !is_listed) settings_.unused.push_back(each.key);
    }
  }

  const std::string& name_;
  std::vector<Argument> arguments_;
  std::map<std::string, std::string, std::less<>> variables_;
  ForeignSettings settings_;
  std::vector<std::string> errors_;
};

}  // namespace

ForeignSettings read_megatron(std::string_view text, const std::string& name) {
  return Reader(name).read(text);
}

}  // namespace sluice::tools
