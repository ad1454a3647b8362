#include <sluice/replay/recording.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>

namespace sluice::replay {
namespace {

constexpr std::uint64_t most_steps = 1ULL << 62;

[[noreturn]] void damaged(const std::string& file, std::optional<std::uint64_t> offset,
                          std::string what, std::string expected, std::string found) {
  throw RecordingError(RecordingError::Kind::damaged,
                       {file, offset, std::move(what), std::move(expected), std::move(found),
                        "restore the file from a copy"});
}

}  // namespace

std::shared_ptr<const Recording> Recording::open(const std::string& path) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::vector<std::byte> bytes;
  std::array<char, 1 << 16> block;
  while (file) {
    file.read(block.data(), block.size());
    const auto* read = reinterpret_cast<const std::byte*>(block.data());
    bytes.insert(bytes.end(), read, read + file.gcount());
  }
  if (!file.eof()) {
    throw RecordingError(
        RecordingError::Kind::io,
        {path, std::nullopt, "reading the file", "a file that can be read",
         std::generic_category().message(errno), "check its name and your rights"});
  }
  return parse(std::move(bytes), path);
}

std::shared_ptr<const Recording> Recording::parse(std::vector<std::byte> bytes, std::string name) {
  return std::shared_ptr<const Recording>(new Recording(std::move(bytes), std::move(name)));
}

Recording::Recording(std::vector<std::byte> bytes, std::string name)
    : file_(std::move(name)), bytes_(std::move(bytes)) {
  auto decoded = format::decode_header(bytes_, file_);
  header_ = std::move(decoded.header);
  remarks_ = std::move(decoded.remarks);

  auto pages = format::read_pages(bytes_, decoded.first_page, header_.ranks, file_);
  remarks_.insert(remarks_.end(), pages.remarks.begin(), pages.remarks.end());
  read_run(pages.streams.back(), pages.total);
  if (closed_ && pages.open > 0) {
    damaged(file_, std::nullopt, "the pages of a recording that was closed", "all sealed",
            fmt::format("{} that are not", pages.open));
  }
  for (int r = 0; r < header_.ranks; ++r) {
    const RankId rank(r);
    ranks_.emplace_back(bytes_, std::move(pages.streams[rank.index()]), rank, header_.stages,
                        file_);
  }
  index_steps();
}

void Recording::read_run(const format::StreamPages& stream, std::size_t pages) {
  bool ended = false;
  format::for_each_record(
      bytes_, stream, {}, [&](const format::Record& record, format::RecordPlace place) {
        if (ended) damaged(file_, place.offset, "a record of the run", "none after its end", "one");
        if (record.row->kind == format::Kind::run_ended) {
          ended = true;
          if (record.number < pages ||
              (record.number == pages && bytes_.size() % format::page_size)) {
            damaged(file_, place.offset, "the pages of the file",
                    fmt::format("{}, as when it was closed", record.number),
                    fmt::format("{} bytes", bytes_.size()));
          }
          closed_ = record.number == pages;
          if (!closed_) {
            remarks_.push_back(
                fmt::format("the file was cut: {} of {} pages are left", pages, record.number));
          }
          return true;
        }
        auto fields = record.bytes;
        std::uint64_t number = 0;
        if (record.row->kind != format::Kind::step_ended || !format::take_varint(fields, number)) {
          damaged(file_, place.offset, "a record of the run", "the end of a step, or of the run",
                  fmt::format("`{}`", record.row->name));
        }
        if (number > most_steps) {
          damaged(file_, place.offset, "the number of a step",
                  fmt::format("at most {}", most_steps), fmt::format("{}", number));
        }
        StepEnd end;
        end.number = static_cast<std::int64_t>(number);
        end.error.assign(reinterpret_cast<const char*>(fields.data()), fields.size());
        ends_.push_back(std::move(end));
        return true;
      });
}

void Recording::index_steps() {
  const std::int64_t first = first_step();
  for (std::size_t k = 0; k < ends_.size(); ++k) {
    const auto expected = first + static_cast<std::int64_t>(k);
    if (ends_[k].number != expected) {
      damaged(file_, std::nullopt, "the end of a step", fmt::format("step {}", expected),
              fmt::format("{}", ends_[k].number));
    }
  }
  for (const RankRecords& rank : ranks_) {
    if (!rank.steps().empty() && rank.steps().front().number != first) {
      damaged(file_, std::nullopt, "the first step of every rank", fmt::format("step {}", first),
              fmt::format("{}", rank.steps().front().number));
    }
  }

  std::int64_t seq = 1;
  for (std::size_t k = 0; is_complete(k); ++k) {
    first_seqs_.push_back(seq);
    for (const RankRecords& rank : ranks_) seq += rank.steps()[k].lines;
  }
  const std::size_t complete = first_seqs_.size();
  const bool more = std::any_of(ranks_.begin(), ranks_.end(), [&](const RankRecords& rank) {
    return rank.steps().size() > complete;
  });
  if (more || complete < ends_.size()) first_seqs_.push_back(seq);
}

bool Recording::is_complete(std::size_t step) const {
  return step < ends_.size() && std::all_of(
                                    ranks_.begin(), ranks_.end(),
                                    [&](const auto& rank) {
                                      return step < rank.steps().size() && rank.steps()[step].done;
                                    });
}

std::int64_t Recording::first_step() const {
  for (const RankRecords& rank : ranks_) {
    if (!rank.steps().empty()) return rank.steps().front().number;
  }
  return ends_.empty() ? 0 : ends_.front().number;
}

RecordedStep Recording::step(std::size_t index) const {
  RecordedStep step;
  step.number = first_step() + static_cast<std::int64_t>(index);
  step.complete = is_complete(index);
  step.first_seq = first_seqs_.at(index);
  if (step.complete) step.error = ends_[index].error;
  for (const RankRecords& rank : ranks_) {
    StepDecoder decoder = rank.decode(index);
    step.ranks.push_back(std::move(decoder.events()));
    step.outside.push_back(std::move(decoder.outside()));
  }

  const auto possible = order_causally(step.ranks, header_.stages);
  if (!step.complete) {
    for (std::size_t r = 0; r < step.ranks.size(); ++r) step.ranks[r].resize(possible[r]);
  }
  return step;
}

std::vector<Action> Recording::order(RankId rank) const {
  const auto& orders = ranks_[rank.index()].orders();
  return orders.empty() ? std::vector<Action>() : orders.front().actions();
}

}  // namespace sluice::replay
