#include <sluice/replay/recording.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <limits>
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

  const bool ring = header_.ring_pages > 0;
  auto pages = format::read_pages(bytes_, decoded.first_page, header_.ranks, ring, file_);
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
  run_begins_late_ = pages.streams.back().lost > 0;
  if (begins_late()) drop_what_others_lost();
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
        add_to_run(record, place.offset);
        return true;
      });
}

void Recording::add_to_run(const format::Record& record, std::size_t offset) {
  const auto wrong = [&](const std::string& expected) {
    damaged(file_, offset, "a record of the run", expected, fmt::format("`{}`", record.row->name));
  };
  auto fields = record.bytes;
  const auto take = [&] {
    std::uint64_t number = 0;
    if (!format::take_varint(fields, number)) wrong("its fields");
    if (number > most_steps) {
      damaged(file_, offset, "a number of the run", fmt::format("at most {}", most_steps),
              fmt::format("{}", number));
    }
    return static_cast<std::int64_t>(number);
  };
  const auto text = [&] {
    return std::string(reinterpret_cast<const char*>(fields.data()), fields.size());
  };
  switch (record.row->kind) {
    case format::Kind::step_ended: {
      StepEnd end;
      end.number = take();
      end.error = text();
      ends_.push_back(std::move(end));
      return;
    }
    case format::Kind::result:
      if (fields.size() != 16) wrong("16 bytes");
      if (ends_.empty()) return;  // its step has fallen off
      ends_.back().result = {format::get<double>(fields.data()),
                             format::get<std::uint64_t>(fields.data() + 8)};
      return;
    case format::Kind::lines:
      if (record.number > most_steps) wrong("a number of lines");
      if (!ends_.empty()) ends_.back().lines = static_cast<std::int64_t>(record.number);
      return;
    case format::Kind::anchor: {
      RecordedAnchor anchor;
      anchor.step = take();
      anchor.samples = take();
      const std::int64_t hashed = take();
      if (hashed > 1 || (hashed == 1 && fields.size() < 8)) wrong("a hash of 8 bytes, or none");
      if (hashed == 1) {
        anchor.hash = format::get<std::uint64_t>(fields.data());
        fields = fields.subspan(8);
      }
      anchor.file = text();
      anchors_.push_back(std::move(anchor));
      return;
    }
    default: wrong("one of the run's stream");
  }
}

bool Recording::begins_late() const {
  return run_begins_late_ || std::any_of(ranks_.begin(), ranks_.end(), [](const RankRecords& rank) {
           return rank.begins_late();
         });
}

/// Each stream of a ring has lost its own beginning: what is left begins with the first step that all have.
void Recording::drop_what_others_lost() {
  constexpr auto none = std::numeric_limits<std::int64_t>::max();
  std::int64_t first = run_begins_late_ && !ends_.empty() ? ends_.front().number : 0;
  for (const RankRecords& rank : ranks_) {
    if (!rank.begins_late()) continue;
    // One without a whole step has only the one that it is in, and not its beginning.
    first = std::max(first, rank.steps().empty() ? none : rank.steps().front().number);
  }
  for (RankRecords& rank : ranks_) {
    const auto& steps = rank.steps();
    const auto keep = std::find_if(steps.begin(), steps.end(),
                                   [&](const auto& step) { return step.number >= first; });
    rank.drop(static_cast<std::size_t>(keep - steps.begin()));
  }
  std::erase_if(ends_, [&](const StepEnd& end) { return end.number < first; });
  std::erase_if(anchors_, [&](const RecordedAnchor& anchor) { return anchor.step < first; });
}

/// Of the text log, before the first of so many complete steps.
std::int64_t Recording::lines_before(std::size_t complete) const {
  std::int64_t lines = 0;
  for (std::size_t k = 0; k < complete; ++k) {
    for (const RankRecords& rank : ranks_) lines += rank.steps()[k].lines;
    if (ends_[k].lines) return std::max<std::int64_t>(0, *ends_[k].lines - lines);
  }
  return 0;
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

  std::size_t steps = 0;
  while (is_complete(steps)) ++steps;
  std::int64_t seq = 1 + (begins_late() ? lines_before(steps) : 0);
  for (std::size_t k = 0; k < steps; ++k) {
    first_seqs_.push_back(seq);
    for (const RankRecords& rank : ranks_) seq += rank.steps()[k].lines;
    if (ends_[k].lines && *ends_[k].lines != seq - 1) {
      damaged(file_, std::nullopt,
              fmt::format("the lines of the log up to the end of step {}", ends_[k].number),
              fmt::format("{}, by its events", seq - 1), fmt::format("{}", *ends_[k].lines));
    }
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
  if (step.complete) {
    step.error = ends_[index].error;
    step.result = ends_[index].result;
  }
  for (const RankRecords& rank : ranks_) {
    StepDecoder decoder = rank.decode(index);
    step.ranks.push_back(std::move(decoder.events()));
    step.outside.push_back(std::move(decoder.outside()));
    step.inbound.push_back(std::move(decoder.inbound()));
  }

  const auto possible = order_causally(step.ranks, ranks_of_stages(index), header_.slots);
  if (!step.complete) {
    for (std::size_t r = 0; r < step.ranks.size(); ++r) step.ranks[r].resize(possible[r]);
  }
  return step;
}

/// Of a rank whose order is not here nothing has happened, and its stages are on none of the others.
std::vector<RankId> Recording::ranks_of_stages(std::size_t step) const {
  std::vector<RankId> rank_of(static_cast<std::size_t>(header_.stages), RankId(header_.ranks));
  if (!header_.slots) return rank_of;  // then nobody asks
  for (RankId rank(0); rank.value < header_.ranks; rank = rank.next()) {
    for (const Action& action : order(rank, step)) rank_of[action.stage.index()] = rank;
  }
  return rank_of;
}

std::vector<Action> Recording::order(RankId rank, std::size_t step) const {
  const RankRecords& records = ranks_[rank.index()];
  if (records.orders().empty()) return {};
  // Written before the rank's first step, it may be all there is.
  const std::size_t which = step < records.steps().size() ? records.steps()[step].order : 0;
  if (step > 0 && step >= records.steps().size()) return {};
  return records.orders()[which].actions();
}

}  // namespace sluice::replay
