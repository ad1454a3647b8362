#include "unpacker.hpp"

#include <cstddef>
#include <new>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "errors.hpp"

namespace sluice::tools {
namespace {

constexpr std::size_t piece = std::size_t{256} << 10;
constexpr std::string_view gzip_magic = "\x1F\x8B";
constexpr std::string_view zstd_magic = "\x28\xB5\x2F\xFD";

[[noreturn]] void damaged(const std::string& name, std::string_view kind, std::string_view what) {
  throw UsageError(name, fmt::format("cannot be unpacked: expected {} data, found {}", kind, what));
}

class Gzip : public Unpacker {
 public:
  explicit Gzip(std::string name) : name_(std::move(name)) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() override { inflateEnd(&stream_); }

  void feed(std::string packed) override {
    packed_ = std::move(packed);
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_in = static_cast<uInt>(packed_.size());
  }

  bool unpack(std::string& bytes) override {
    bytes.resize(piece);
    stream_.next_out = reinterpret_cast<Bytef*>(bytes.data());
    stream_.avail_out = static_cast<uInt>(piece);
    while (stream_.avail_out > 0 && (stream_.avail_in > 0 || held_back_)) {
      if (ended_) {
        // What is behind the end is another file, or filling up to a block.
        if (*stream_.next_in != static_cast<Bytef>(gzip_magic.front())) {
          stream_.avail_in = 0;
          break;
        }
        inflateReset(&stream_);
        ended_ = false;
      }
      const int result = inflate(&stream_, Z_NO_FLUSH);
      held_back_ = stream_.avail_out == 0 && result == Z_OK;
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result == Z_BUF_ERROR) {
        break;  // all that could be had
      } else if (result != Z_OK) {
        damaged(name_, "gzip", stream_.msg == nullptr ? "something else" : stream_.msg);
      }
    }
    bytes.resize(piece - stream_.avail_out);
    return !bytes.empty();
  }

 private:
  std::string name_;
  std::string packed_;
  z_stream stream_{};
  bool ended_ = false;
  bool held_back_ = false;  // the last piece was full: there may be more without input
};

class Zstd : public Unpacker {
 public:
  explicit Zstd(std::string name) : name_(std::move(name)), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
  }

  void feed(std::string packed) override {
    packed_ = std::move(packed);
    in_ = {packed_.data(), packed_.size(), 0};
  }

  bool unpack(std::string& bytes) override {
    bytes.resize(piece);
    ZSTD_outBuffer out{bytes.data(), piece, 0};
    while (out.pos < out.size && (in_.pos < in_.size || held_back_)) {
      const std::size_t result = ZSTD_decompressStream(stream_.get(), &out, &in_);
      if (ZSTD_isError(result) != 0) damaged(name_, "zstd", ZSTD_getErrorName(result));
      held_back_ = out.pos == out.size;
    }
    bytes.resize(out.pos);
    return !bytes.empty();
  }

 private:
  struct Free {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };

  std::string name_;
  std::string packed_;
  std::unique_ptr<ZSTD_DStream, Free> stream_;
  ZSTD_inBuffer in_{};
  bool held_back_ = false;  // the last piece was full: there may be more without input
};

}  // namespace

std::unique_ptr<Unpacker> unpacker_for(std::string_view first, const std::string& name) {
  if (first.starts_with(gzip_magic)) return std::make_unique<Gzip>(name);
  if (first.starts_with(zstd_magic)) return std::make_unique<Zstd>(name);
  return nullptr;
}

}  // namespace sluice::tools
