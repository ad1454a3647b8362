#include <sluice/replay/recorder.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

#include <sluice/replay/causal_order.hpp>
#include <sluice/replay/error_text.hpp>
#include <sluice/replay/step_decoder.hpp>
#include <sluice/step.hpp>
#include <sluice/step_error.hpp>

namespace sluice::replay {
namespace {

using format::Kind;

// Of the name of an outside value; what is longer is cut.
constexpr std::size_t most_name = 1024;
constexpr std::size_t steps_in_a_ring = 4;  // at least

/// The most that a rank's step can need: every action off its plan and hashed, and a new order before it;
/// with `inbound`, for each action the sizes of an input and a target as well.
std::size_t pages_of(std::size_t actions, int stages, bool inbound) {
  constexpr std::size_t longest_action = format::longest_varint + 2 + 10;
  constexpr std::size_t longest_sizes = 2 * (2 + 3 * format::longest_varint);
  const std::size_t bytes =
      actions * (longest_action + format::longest_varint + (inbound ? longest_sizes : 0)) +
      static_cast<std::size_t>(stages) * 22 + 128;
  // A page's end may stay unused where the next record does not fit.
  return bytes / (format::page_room / 2) + 1;
}

}  // namespace

/// One rank in one step.
class Recorder::Rank final : public RankDirector {
 public:
  Rank(std::unique_ptr<RankDirector> inner, Recorder& recorder, RankId rank)
      : inner_(std::move(inner)),
        recorder_(recorder),
        state_(recorder.ranks_[rank.index()]),
        stream_(recorder.writer_->rank(rank)),
        cursor_(*state_.order),
        stages_(recorder.stages_),
        verify_(recorder.options_.mode == RecordingMode::verify) {}

  std::size_t choose(const ChoicePoint& point, std::span<const Option> options) override {
    return inner_->choose(point, options);
  }

  void observe(const Event& event) override {
    record(event);
    inner_->observe(event);
  }

  std::string outside(const OutsideValue& value,
                      const std::function<std::string()>& read) override {
    std::string bytes;
    try {
      bytes = inner_->outside(value, read);
    } catch (...) {
      record_outside(value.name, true, text_of(std::current_exception()));
      throw;
    }
    record_outside(value.name, false, bytes);
    return bytes;
  }

  bool wants_hashes() const override { return verify_ || inner_->wants_hashes(); }

  InboundValues wants_inbound() const override {
    return std::max(
        recorder_.options_.payload_steps > 0 ? InboundValues::all : InboundValues::of_failures,
        inner_->wants_inbound());
  }

  void inbound(const InboundValue& value) override {
    if (inner_->wants_inbound() != InboundValues::none) inner_->inbound(value);
    record_inbound(value);
  }

 private:
  /// In the file before the action sees it. Throws RecordingError when there is no room: the step's
  /// own was made before it began, but nobody knew of this.
  void record_outside(std::string_view name, bool failed, std::string_view value) {
    name = name.substr(0, most_name);
    const std::size_t size = name.size() + value.size() + 3 * format::longest_varint;
    if (size > outside_room_) {
      const std::size_t pages = size / RecordStream::most_bytes + 2;
      recorder_.writer_->add_room(pages);
      outside_room_ += pages * (format::page_room / 2);
    }
    outside_room_ -= std::min(size, outside_room_);

    std::array<std::byte, RecordStream::most_bytes> fields;
    std::byte* end = format::put_varint(fields.data(), failed ? 1 : 0);
    end = format::put_varint(end, name.size());
    end = std::copy_n(reinterpret_cast<const std::byte*>(name.data()), name.size(), end);
    end = format::put_varint(end, value.size());
    for (Kind kind = Kind::outside;; kind = Kind::outside_more) {
      const auto room = static_cast<std::size_t>(fields.data() + fields.size() - end);
      const std::size_t part = std::min(room, value.size());
      end = std::copy_n(reinterpret_cast<const std::byte*>(value.data()), part, end);
      stream_.append_bytes(kind, std::span(fields.data(), end));
      value.remove_prefix(part);
      if (value.empty()) return;
      end = fields.data();
    }
  }

  /// Never throws for want of room: then only its size is there.
  void record_inbound(const InboundValue& value) {
    std::string_view rest = value.bytes;
    const bool saved = make_room_for(rest.size());
    if (!saved) ++state_.not_saved;
    std::array<std::byte, RecordStream::most_bytes> fields;
    std::byte* end = format::put_varint(fields.data(), static_cast<std::uint64_t>(value.role));
    end = format::put_varint(end, saved ? 1 : 0);
    end = format::put_varint(end, rest.size());
    if (!saved) rest = {};
    for (Kind kind = Kind::inbound;; kind = Kind::inbound_more) {
      // What is left of a page is used as well: values of half a page each would waste the other half.
      const std::size_t left = stream_.room_on_page();
      const std::size_t room = (left == 0 ? fields.size() : std::min(left, fields.size())) -
                               static_cast<std::size_t>(end - fields.data());
      const std::size_t part = std::min(room, rest.size());
      end = std::copy_n(reinterpret_cast<const std::byte*>(rest.data()), part, end);
      stream_.append_bytes(kind, std::span(fields.data(), end));
      rest.remove_prefix(part);
      if (rest.empty()) return;
      end = fields.data();
    }
  }

  bool make_room_for(std::size_t bytes) {
    const std::size_t size = bytes + 3 * format::longest_varint;
    const std::size_t beyond = size - std::min(size, stream_.room_on_page());
    const std::size_t pages = (beyond + RecordStream::most_bytes - 1) / RecordStream::most_bytes;
    if (stream_.pages() - state_.first_page + pages > recorder_.inbound_pages()) return false;
    try {
      recorder_.writer_->add_room(pages);
      return true;
    } catch (const RecordingError&) {  // a full disk, which the next step will say
      return false;
    }
  }

  void record(const Event& event) {
    state_.lines += is_logged(event);
    switch (event.kind) {
      case Event::Kind::enter: {
        const Action* planned = cursor_.next();
        if (planned != nullptr && *planned == event.action) {
          stream_.append_planned();
        } else {
          stream_.append(Kind::enter, code_of(event.action, stages_));
        }
        cursor_.start(event.action);
        return;
      }
      case Event::Kind::exit:
        if (verify_ && event.hashed) {
          stream_.append_hash(Kind::exit, event.hash);
        } else {
          stream_.append_planned();
        }
        return;
      case Event::Kind::failed: stream_.append(Kind::failed); return;
      case Event::Kind::stopped: stream_.append(Kind::stopped); return;
      case Event::Kind::committed: {
        std::array<std::byte, format::longest_varint + sizeof event.hash> fields;
        std::byte* end =
            format::put_varint(fields.data(), static_cast<std::uint64_t>(event.action.stage.value));
        if (event.hashed) {
          format::put(end, event.hash);
          end += sizeof event.hash;
        }
        stream_.append_bytes(Kind::committed, std::span(fields.data(), end));
        return;
      }
      case Event::Kind::aborted:
        stream_.append(Kind::aborted, static_cast<std::uint64_t>(event.action.stage.value));
        return;
    }
  }

  std::unique_ptr<RankDirector> inner_;
  Recorder& recorder_;
  RankState& state_;
  RecordStream& stream_;
  std::size_t outside_room_ = 0;  // bytes for which room was made, and not used yet
  PlannedCursor cursor_;
  int stages_;
  bool verify_;
};

Recorder::Recorder(std::string path, const Plan& plan, std::shared_ptr<Director> inner,
                   RecorderOptions options)
    : inner_(inner ? std::move(inner) : std::make_shared<LiveDirector>(policy_for(plan))),
      options_(std::move(options)),
      stages_(plan.stages) {
  RecordingHeader header;
  header.run_id = options_.run_id;
  header.ranks = plan.ranks;
  header.stages = plan.stages;
  header.mode = options_.mode;
  header.slots = plan.slots;
  header.identity = options_.identity;
  const auto payload_steps = static_cast<std::size_t>(options_.payload_steps);
  if (header.mode == RecordingMode::ring) {
    const std::size_t wanted = options_.ring_bytes / format::page_size;
    const std::size_t steps = steps_in_a_ring * std::max<std::size_t>(1, payload_steps);
    std::size_t pages = wanted;
    for (const auto& actions : plan.order) {
      pages = std::max(pages, steps * pages_of(actions.size(), plan.stages, payload_steps > 0));
    }
    if (pages > std::numeric_limits<std::uint32_t>::max()) {
      throw std::invalid_argument(fmt::format(
          "RecorderOptions: a ring of {} pages of 4 KiB a rank; expected fewer than 2^32: give a "
          "smaller ring_bytes or payload_steps",
          pages));
    }
    header.ring_pages = static_cast<std::uint32_t>(pages);
  } else if (payload_steps > 0) {
    throw std::invalid_argument(
        "RecorderOptions::payload_steps: the values of the last steps are kept in a ring; give "
        "mode "
        "`ring`, or leave payload_steps at 0");
  }
  ranks_.resize(static_cast<std::size_t>(plan.ranks));
  // The values of each step would fill a disk bit by bit, and leave nothing for the steps that follow: so
  // it is asked for all of the ring at once.
  const std::size_t at_once = payload_steps > 0 ? header.ring_pages * (ranks_.size() + 1) : 0;
  writer_ = std::make_unique<RecordingWriter>(std::move(path), header, options_.overwrite, at_once);
  write_anchor({});
}

Recorder::~Recorder() {
  try {
    close();
  } catch (const RecordingError&) {  // NOLINT(bugprone-empty-catch)
    // Every event is in the file; only the closing record is missing.
  }
}

std::unique_ptr<RankDirector> Recorder::for_rank(const Plan& plan, RankId rank, std::int64_t step) {
  if (failure_ && !options_.go_on_unrecorded) throw RecordingError(*failure_);
  if (!failure_ && !writer_) {
    throw std::logic_error("the recording is closed; make a new recorder for a further run");
  }
  auto inner = inner_->for_rank(plan, rank, step);
  if (failure_) return inner;
  RankState& state = ranks_.at(rank.index());
  if (state.step != step || !step_open_) {
    begin(plan, step);
    if (failure_) return inner;
  }
  return std::make_unique<Rank>(std::move(inner), *this, rank);
}

/// Begins a step for all ranks at once: either the whole step is recorded or none of it.
void Recorder::begin(const Plan& plan, std::int64_t step) {
  const std::int64_t last = ranks_.front().step;
  if (plan.stages != stages_ || plan.ranks != static_cast<int>(ranks_.size())) {
    throw std::logic_error(
        fmt::format("the recorder was made for {} stages on {} ranks, the plan has {} on {}; one "
                    "recording holds "
                    "one pipeline",
                    stages_, ranks_.size(), plan.stages, plan.ranks));
  }
  if (last >= 0 && step != last + 1) {
    throw std::logic_error(
        fmt::format("the recorder expects step {}, was given step {}; one recording holds one "
                    "pipeline's steps, "
                    "in order",
                    last + 1, step));
  }
  try {
    std::size_t pages = 2;  // the run's, and its end
    std::size_t most = 0;   // of a rank
    for (const auto& actions : plan.order) {
      const auto of_rank = pages_of(actions.size(), plan.stages, options_.payload_steps > 0);
      pages += of_rank;
      most = std::max(most, of_rank);
    }
    writer_->make_room(pages, steps_in_a_ring * most);
  } catch (const RecordingError& error) {
    failure_ = error;
    writer_ = nullptr;
    if (options_.go_on_unrecorded) return;
    throw;
  }
  for (RankId rank(0); rank.value < plan.ranks; rank = rank.next()) {
    RankState& state = ranks_[rank.index()];
    const auto& actions = plan.order[rank.index()];
    if (!state.order || state.order->actions() != actions || order_is_out_of_reach(rank)) {
      write_order(rank, actions);
      state.order.emplace(actions);
      state.order_page = writer_->rank(rank).pages();
    }
    writer_->rank(rank).append(Kind::step, static_cast<std::uint64_t>(step));
    state.first_page = writer_->rank(rank).pages();
    state.step = step;
  }
  step_open_ = true;
}

/// What is left of a ring can be read from the first planned order on, so there is one in each eighth.
bool Recorder::order_is_out_of_reach(RankId rank) const {
  const std::size_t ring = writer_->ring_pages();
  return ring > 0 && writer_->rank(rank).pages() - ranks_[rank.index()].order_page >=
                         std::max<std::size_t>(1, ring / 8);
}

/// The events of a step take a quarter of its part at most. With an eighth of the ring between one
/// planned order and the next, what is left at any time holds the last `payload_steps` steps.
std::size_t Recorder::inbound_pages() const {
  const std::size_t ring = writer_->ring_pages();
  if (ring == 0) return std::numeric_limits<std::size_t>::max();
  const auto steps = static_cast<std::size_t>(options_.payload_steps);
  return steps > 0 ? ring * 5 / 8 / steps : ring / 2;
}

void Recorder::write_order(RankId rank, const std::vector<Action>& actions) {
  std::size_t written = 0;
  do {
    std::array<std::byte, RecordStream::most_bytes> fields;
    std::byte* end = format::put_varint(fields.data(), written);
    end = format::put_varint(end, actions.size());
    const std::byte* const last = fields.data() + fields.size() - format::longest_varint;
    for (; written < actions.size() && end <= last; ++written) {
      end = format::put_varint(end, code_of(actions[written], stages_));
    }
    writer_->rank(rank).append_bytes(Kind::order, std::span(fields.data(), end));
  } while (written < actions.size());
}

void Recorder::step_ended(const StepEnd& end) {
  if (!failure_) {
    for (RankId rank(0); rank.index() < ranks_.size(); rank = rank.next()) {
      writer_->rank(rank).append(Kind::done);
    }
    write_end(end);
    writer_->seal_full_pages();
    if (options_.sync_every > 0 && (end.step + 1) % options_.sync_every == 0) sync();
  }
  step_open_ = false;
  inner_->step_ended(end);
}

/// The step has been applied, so what the disk says is for the next one.
void Recorder::sync() {
  try {
    writer_->sync();
  } catch (const RecordingError& error) {
    failure_ = error;
    writer_ = nullptr;
  }
}

void Recorder::write_end(const StepEnd& end) {
  const std::string_view text = recorded_part(end.error != nullptr ? end.error->what() : "");
  std::array<std::byte, format::longest_varint + most_recorded_error> fields;
  std::byte* last = format::put_varint(fields.data(), static_cast<std::uint64_t>(end.step));
  last = std::copy_n(reinterpret_cast<const std::byte*>(text.data()), text.size(), last);
  writer_->run().append_bytes(Kind::step_ended, std::span(fields.data(), last));
  if (end.result != nullptr) {
    const RecordedResult result = result_of(*end.result);
    std::array<std::byte, 16> numbers;
    format::put(numbers.data(), result.loss);
    format::put(numbers.data() + 8, result.figures);
    writer_->run().append_bytes(Kind::result, numbers);
  }
  if (writer_->ring_pages() > 0) {
    std::int64_t lines = 0;
    for (const RankState& rank : ranks_) lines += rank.lines;
    writer_->run().append(Kind::lines, static_cast<std::uint64_t>(lines));
  }
}

void Recorder::add_anchor(const RecordedAnchor& anchor) {
  if (!writer_) return;
  writer_->add_room(1);
  write_anchor(anchor);
}

void Recorder::write_anchor(const RecordedAnchor& anchor) {
  std::vector<std::byte> fields(4 * format::longest_varint + sizeof *anchor.hash);
  std::byte* end = format::put_varint(fields.data(), static_cast<std::uint64_t>(anchor.step));
  end = format::put_varint(end, static_cast<std::uint64_t>(anchor.samples));
  end = format::put_varint(end, anchor.hash ? 1 : 0);
  if (anchor.hash) {
    format::put(end, *anchor.hash);
    end += sizeof *anchor.hash;
  }
  fields.resize(static_cast<std::size_t>(end - fields.data()));
  const auto file = std::as_bytes(std::span(anchor.file));
  fields.insert(fields.end(), file.begin(), file.end());
  if (fields.size() > RecordStream::most_bytes) {
    throw std::invalid_argument(fmt::format(
        "the name of a checkpoint has {} bytes; give it a shorter one", anchor.file.size()));
  }
  writer_->run().append_bytes(Kind::anchor, fields);
}

std::int64_t Recorder::not_saved() const {
  return std::accumulate(
      ranks_.begin(), ranks_.end(), std::int64_t{0},
      [](std::int64_t sum, const RankState& rank) { return sum + rank.not_saved; });
}

void Recorder::close() {
  if (!writer_) return;
  const auto writer = std::move(writer_);
  writer->close();
}

}  // namespace sluice::replay
