#include "case_file.hpp"

#include <array>
#include <fstream>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include <archive.h>
#include <archive_entry.h>

#include <fmt/format.h>

#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/kernels/hash.hpp>
#include <sluice/kernels/idx.hpp>

#include "config.hpp"
#include "errors.hpp"
#include "output.hpp"

namespace sluice::tools {
namespace {

constexpr int case_version = 1;
constexpr const char* manifest = "case.json";
constexpr const char* config_name = "config.toml";
constexpr const char* recording_name = "run.slrec";
constexpr const char* images_name = "data/train-images-idx3-ubyte.gz";
constexpr const char* labels_name = "data/train-labels-idx1-ubyte.gz";
// All that a case may hold besides.
constexpr std::array<const char*, 4> part_names{config_name, recording_name, images_name,
                                                labels_name};
constexpr std::int64_t largest_manifest = 1 << 20;

std::string bytes_of(const std::filesystem::path& file) {
  const auto bytes = kernels::read_file(file, "check its name and your rights");
  return std::string(bytes.begin(), bytes.end());
}

std::string hash_of(const std::string& bytes) {
  return fmt::format("{:016x}", kernels::hash_bytes(bytes.data(), bytes.size()));
}

using Archive = std::unique_ptr<archive, int (*)(archive*)>;
using Entry = std::unique_ptr<archive_entry, void (*)(archive_entry*)>;

[[noreturn]] void damaged(const std::filesystem::path& file, std::string_view what) {
  throw UsageError(file.string(),
                   fmt::format("no case file that can be used: {}; expected what sluice pack "
                               "writes, whole; take a good copy",
                               what));
}

void check(int result, archive* of, const std::filesystem::path& file) {
  if (result < ARCHIVE_WARN) {
    const char* why = archive_error_string(of);
    throw UsageError(file.string(),
                     fmt::format("cannot be written: {}", why == nullptr ? "unknown" : why));
  }
}

/// Into `target`; `file` is what it will be called.
void write_parts(const std::filesystem::path& target, const std::filesystem::path& file,
                 const std::vector<CasePart>& parts) {
  const Archive out(archive_write_new(), archive_write_free);
  check(archive_write_add_filter_zstd(out.get()), out.get(), file);
  check(archive_write_set_format_pax_restricted(out.get()), out.get(), file);
  check(archive_write_open_filename(out.get(), target.c_str()), out.get(), file);
  for (const CasePart& part : parts) {
    const Entry entry(archive_entry_new(), archive_entry_free);
    archive_entry_set_pathname(entry.get(), part.name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(part.bytes.size()));
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    check(archive_write_header(out.get(), entry.get()), out.get(), file);
    const auto written = archive_write_data(out.get(), part.bytes.data(), part.bytes.size());
    if (written != static_cast<la_ssize_t>(part.bytes.size()))
      check(ARCHIVE_FATAL, out.get(), file);
  }
  check(archive_write_close(out.get()), out.get(), file);
}

/// The bytes of the entry at hand, of which there may be `most`.
std::string read_entry(archive* in, const std::filesystem::path& file, const std::string& name,
                       std::int64_t most) {
  std::string bytes;
  std::array<char, 1 << 16> block;
  for (;;) {
    const auto got = archive_read_data(in, block.data(), block.size());
    if (got < 0) damaged(file, fmt::format("{}: {}", name, archive_error_string(in)));
    if (got == 0) return bytes;
    bytes.append(block.data(), static_cast<std::size_t>(got));
    if (static_cast<std::int64_t>(bytes.size()) > most) {
      damaged(file, fmt::format("{} has more than {} bytes", name, most));
    }
  }
}

struct Listed {
  std::int64_t bytes = 0;
  std::string hash;
};

std::map<std::string, Listed> list_in(const std::string& text, const std::filesystem::path& file) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("case") || !json["case"].is_number_integer()) {
    damaged(file, "case.json is not one of ours");
  }
  if (json["case"] != case_version) {
    throw UsageError(file.string(),
                     fmt::format("a case file of version {}; this build reads version {}; take the "
                                 "build that wrote it",
                                 json["case"].get<std::int64_t>(), case_version));
  }
  std::map<std::string, Listed> parts;
  for (const char* name : part_names) {
    if (!json.contains("parts") || !json["parts"].is_object() || !json["parts"].contains(name)) {
      damaged(file, fmt::format("case.json does not list {}", name));
    }
    const Json& part = json["parts"][name];
    if (!part.is_object() || !part.contains("bytes") || !part["bytes"].is_number_integer() ||
        !part.contains("hash") || !part["hash"].is_string()) {
      damaged(file, fmt::format("case.json does not say how large {} is", name));
    }
    parts[name] = {part["bytes"].get<std::int64_t>(), part["hash"].get<std::string>()};
  }
  return parts;
}

}  // namespace

std::vector<CasePart> parts_of(const std::filesystem::path& recording, const RecordedRun& run) {
  const auto& folder = run.config.train.data;
  const auto data = kernels::load_fashion_mnist(kernels::Subset::train, folder);
  const std::string here = fmt::format("{:016x}", data.hash());
  for (const auto& [key, value] : run.identity) {
    if (key == "data" && value != here) {
      throw UsageError(folder.string(),
                       fmt::format("not the data that the run read: their hash was {}, is {}; put "
                                   "the files of the run there",
                                   value, here));
    }
  }
  std::vector<CasePart> parts(1);
  for (const char* name : part_names) {
    const std::filesystem::path path(name);
    parts.push_back({name, path == config_name      ? to_toml(run.config)
                           : path == recording_name ? bytes_of(recording)
                                                    : bytes_of(folder / path.filename())});
  }
  Json json;
  json["case"] = case_version;
  json["recording"] = recording.filename().string();
  // Until there are checkpoints every replay starts at the first step, with the first batch.
  json["anchor"] = {{"step", 0}, {"data_cursor", 0}};
  for (const auto& [key, value] : run.identity) json["identity"][key] = value;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    json["parts"][parts[i].name] = {{"bytes", parts[i].bytes.size()},
                                    {"hash", hash_of(parts[i].bytes)}};
  }
  parts.front() = {manifest, to_text(json)};
  return parts;
}

void check_place_of_case(const std::filesystem::path& file, bool overwrite) {
  std::error_code unknown;
  if (!std::filesystem::exists(file, unknown)) return;
  if (!overwrite) {
    throw UsageError(file.string(),
                     "exists already; choose another name, or have the old case file overwritten "
                     "(--overwrite)");
  }
  if (!is_case(file)) {
    throw UsageError(file.string(),
                     "replacing the file: expected an old case file, found something else; choose "
                     "another name, or remove it yourself");
  }
}

void write_case(const std::filesystem::path& file, const std::vector<CasePart>& parts,
                bool overwrite) {
  std::filesystem::path unfinished = file;
  unfinished += ".part";
  std::error_code failed;
  try {
    write_parts(unfinished, file, parts);
    check_place_of_case(file, overwrite);  // again: packing takes a while
    std::filesystem::rename(unfinished, file, failed);
    if (failed) {
      throw UsageError(file.string(), fmt::format("cannot be written: {}", failed.message()));
    }
  } catch (...) {
    std::filesystem::remove(unfinished, failed);
    throw;
  }
}

bool is_case(const std::filesystem::path& file) {
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(file, unknown)) return false;
  constexpr std::array<char, 4> zstd{'\x28', '\xB5', '\x2F', '\xFD'};
  std::array<char, 4> first{};
  std::ifstream(file, std::ios::binary).read(first.data(), first.size());
  return first == zstd;
}

Case read_case(const std::filesystem::path& file) {
  const Archive in(archive_read_new(), archive_read_free);
  archive_read_support_filter_zstd(in.get());
  archive_read_support_format_tar(in.get());
  if (archive_read_open_filename(in.get(), file.c_str(), 1 << 16) != ARCHIVE_OK) {
    damaged(file, archive_error_string(in.get()));
  }
  std::map<std::string, Listed> wanted;
  std::map<std::string, std::string> found;
  archive_entry* entry = nullptr;
  int result = ARCHIVE_OK;
  for (bool first = true; (result = archive_read_next_header(in.get(), &entry)) == ARCHIVE_OK;
       first = false) {
    const char* pathname = archive_entry_pathname(entry);
    const std::string name = pathname == nullptr ? "" : pathname;
    if (first) {
      if (name != manifest) damaged(file, fmt::format("it begins with '{}'", name));
      wanted = list_in(read_entry(in.get(), file, name, largest_manifest), file);
      continue;
    }
    const auto part = wanted.find(name);
    if (part == wanted.end()) damaged(file, fmt::format("unexpected part '{}'", name));
    std::string bytes = read_entry(in.get(), file, name, part->second.bytes);
    if (static_cast<std::int64_t>(bytes.size()) != part->second.bytes ||
        hash_of(bytes) != part->second.hash) {
      damaged(file, fmt::format("{} is not as it was packed", name));
    }
    found[name] = std::move(bytes);
    wanted.erase(part);
  }
  if (result != ARCHIVE_EOF) damaged(file, archive_error_string(in.get()));
  if (!wanted.empty()) damaged(file, fmt::format("{} is missing", wanted.begin()->first));
  if (found.empty()) damaged(file, "it is empty");
  return {std::move(found.at(recording_name)), std::move(found.at(images_name)),
          std::move(found.at(labels_name))};
}

}  // namespace sluice::tools
