// ForeignSettings: what another system's settings say, in the words of a Config.
//
// A reader (deepspeed.cpp, megatron.cpp) makes Overrides of what it understands, lists what it does
// not, and keeps which of the user's own keys stands for which of ours, so that messages can be read
// by who wrote the settings. Pure functions on text.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/finding.hpp>

#include "config.hpp"

namespace sluice::tools {

struct ForeignSettings {
  std::vector<Override> values;              ///< the source of each is `FILE: KEY`
  std::map<std::string, std::string> names;  ///< our key, without its section, to theirs
  std::vector<std::string> unused;           ///< their keys that say nothing about the pipeline
  std::vector<std::string> notes;            ///< what had to be assumed, a sentence each
  std::vector<Finding> findings;             ///< errors in what only they know of: layers
};

/// Throws UsageError with every error there is: no JSON, no whole number.
ForeignSettings read_deepspeed(std::string_view text, const std::string& name);

/// Arguments as they stand in a file or a shell script: `--key value`, `--key=value`, `NAME=value` and
/// `$NAME`, comments. Throws UsageError with every error there is.
ForeignSettings read_megatron(std::string_view text, const std::string& name);

/// `text` with each of our keys before an equals sign, or behind its section and a dot, replaced by the user's own.
std::string in_their_words(std::string_view text, const ForeignSettings& settings);
Finding in_their_words(Finding finding, const ForeignSettings& settings);

}  // namespace sluice::tools
