// A run small enough to be made many times: a few hundred made-up images in the files of Fashion-MNIST,
// and a configuration for them. For the end-to-end tests of train, replay and show.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "command.hpp"

namespace sluice::test {

/// IDX: two zero bytes, unsigned bytes, the number of dimensions, each as four bytes, the data.
inline std::string idx(std::initializer_list<std::uint32_t> dims, std::string_view data) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const std::uint32_t dim : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(dim >> shift);
  }
  return text.append(data);
}

/// Class k has its bright pixels in other places than the rest, so that there is something to learn.
/// `shift` makes another data set of the same size.
inline void write_images(const Folder& folder, const std::string& prefix, std::uint32_t samples,
                         std::uint32_t shift = 0) {
  constexpr std::uint32_t pixels = 28 * 28;
  std::string images;
  std::string labels;
  for (std::uint32_t i = 0; i < samples; ++i) {
    const std::uint32_t label = (i * 7 + i / 10 + shift) % 10;
    labels += static_cast<char>(label);
    for (std::uint32_t p = 0; p < pixels; ++p) {
      const std::uint32_t noise = (i * 2654435761U + p * 40503U) >> 26;
      images += static_cast<char>(noise + (p % 10 == label ? 150 : 0));
    }
  }
  const std::string images_file =
      folder.file(prefix + "-images-idx3-ubyte", idx({samples, 28, 28}, images));
  const std::string labels_file =
      folder.file(prefix + "-labels-idx1-ubyte", idx({samples}, labels));
  ASSERT_EQ(std::system(fmt::format("gzip -nf '{}' '{}'", images_file, labels_file).c_str()), 0);
}

/// A folder with the data and `run.toml`.
class SmallRun : public testing::Test {
 protected:
  SmallRun() {
    write_images(folder_, "train", 320);
    write_images(folder_, "t10k", 100);
    folder_.file("run.toml",
                 "[pipeline]\n"
                 "stages = 4\n"
                 "microbatches = 8\n"
                 "[costs]\n"
                 "forward = 1\n"
                 "backward = 2\n"
                 "[batch]\n"
                 "micro = 8\n"
                 "[model]\n"
                 "kind = \"perceptron\"\n"
                 "widths = [784, 24, 24, 24, 10]\n"
                 "[train]\n"
                 "epochs = 1\n"
                 "seed = 3\n"
                 "data = \".\"\n");
    // What a run leaves in the folder it was started in goes with the test.
    std::filesystem::current_path(folder_ / "");
  }
  ~SmallRun() override { std::filesystem::current_path(before_); }

  std::string path(std::string_view name) const { return (folder_ / name).string(); }
  std::string config() const { return path("run.toml"); }
  /// Five steps; `arguments` besides the configuration.
  CommandResult train(const std::string& arguments = "") const {
    return sluice(fmt::format("train {} {}", config(), arguments));
  }

  /// The command of a policy that runs what is ready. It is started once for the plan and once more for a run
  /// with order = adaptive; there, from its 20th question on, it does `then` first.
  std::string policy_that(std::string_view then) const {
    folder_.file("policy.py",
                 fmt::format("import json, os, sys\n"
                             "planning = not os.path.exists(sys.argv[1])\n"
                             "open(sys.argv[1], 'w').close()\n"
                             "asked = 0\n"
                             "for line in sys.stdin:\n"
                             "    ask = json.loads(line)\n"
                             "    if ask['kind'] != 'choose': continue\n"
                             "    asked += 1\n"
                             "    ready = ask['ready']\n"
                             "    if not planning and asked >= 20: {}\n"
                             "    action = ready[0] if ready else None\n"
                             "    print(json.dumps({{'action': action}}), flush=True)\n",
                             then));
    return fmt::format("'python3 {} {}'", path("policy.py"), path("planned"));
  }

  Folder folder_;

 private:
  const std::filesystem::path before_ = std::filesystem::current_path();
};

}  // namespace sluice::test
