#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <sluice/kernels/fashion_mnist.hpp>
#include <sluice/kernels/idx.hpp>
#include <sluice/random.hpp>

namespace sluice::kernels {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing::ThrowsMessage;

using Bytes = std::vector<std::uint8_t>;

Bytes gzip(const Bytes& plain) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  Bytes packed(deflateBound(&stream, plain.size()) + 32);
  stream.next_in = const_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = packed.data();
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

Bytes idx(std::initializer_list<std::uint32_t> dims, std::size_t elements,
          std::uint8_t type = 0x08) {
  Bytes bytes{0, 0, type, static_cast<std::uint8_t>(dims.size())};
  for (const std::uint32_t size : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) {
      bytes.push_back(static_cast<std::uint8_t>(size >> shift));
    }
  }
  for (std::size_t i = 0; i < elements; ++i) bytes.push_back(static_cast<std::uint8_t>(i % 10));
  return bytes;
}

void expect_refused(const Bytes& gzipped, std::size_t rank, const std::string& expected,
                    const std::string& found) {
  EXPECT_THAT([&] { parse_idx_gz(gzipped, rank, "some.gz"); },
              ThrowsMessage<DataError>(AllOf(StartsWith("some.gz: expected "), HasSubstr(expected),
                                             HasSubstr(", found " + found))));
}

TEST(Idx, ReadsWhatIsRight) {
  const Idx array = parse_idx_gz(gzip(idx({2, 3, 4}, 24)), 3, "some.gz");
  EXPECT_THAT(array.dims, ElementsAre(2, 3, 4));
  ASSERT_EQ(array.bytes.size(), 24U);
  EXPECT_EQ(array.bytes[13], 3);
}

TEST(Idx, RefusesEveryWrongHeader) {
  expect_refused(gzip({}), 1, "a header of 8 bytes", "0 bytes in all");
  expect_refused(gzip({0, 0, 8}), 1, "a header of 8 bytes", "3 bytes in all");
  expect_refused(gzip({0, 0, 8, 1, 0, 0}), 1, "a header of 8 bytes", "6 bytes in all");
  expect_refused(gzip({7, 0, 8, 1, 0, 0, 0, 1, 0}), 1, "two zero bytes", "0x07 0x00");
  expect_refused(gzip(idx({4}, 4, 0x0d)), 1, "type 0x08", "0x0d");
  expect_refused(gzip(idx({4}, 4)), 3, "3 dimensions", "1");
  expect_refused(gzip(idx({2, 2, 2}, 8)), 1, "1 dimensions", "3");
  expect_refused(gzip(idx({2, 0, 2}, 0)), 3, "dimension 1 to be at least 1", "0");
  expect_refused(gzip(idx({0xffffffff, 0xffffffff, 0xffffffff}, 9)), 3, "fit in memory",
                 "4294967295");
}

TEST(Idx, RefusesTooFewAndTooManyElements) {
  expect_refused(gzip(idx({10}, 9)), 1, "10 elements", "9");
  expect_refused(gzip(idx({10}, 11)), 1, "10 elements", "more behind them");
  // Promises 4 GiB, holds 9 bytes: refused without asking for the memory.
  expect_refused(gzip(idx({0xffffffff}, 9)), 1, "4294967295 elements", "9");
}

TEST(Idx, RefusesDamagedGzip) {
  const Bytes whole = gzip(idx({1000}, 1000));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
    expect_refused(cut, 1, "whole gzip file", "that it ends in the middle");
  }
  Bytes trailing = whole;
  trailing.push_back(0);
  expect_refused(trailing, 1, "nothing behind the gzip data", "1 more bytes");
  expect_refused({'n', 'o', 'n', 'e'}, 1, "gzip data", "incorrect header check");
  Bytes checksum = whole;
  checksum[checksum.size() - 6] ^= 1;
  expect_refused(checksum, 1, "gzip data", "incorrect data check");
}

// Any damage is either refused in words or harmless; nothing else happens.
TEST(Idx, SurvivesRandomDamage) {
  const Bytes whole = gzip(idx({5, 10, 10}, 500));
  for (int trial = 0; trial < 20'000; ++trial) {
    KeyedRandom random(1, trial, "damage", 0, "test");
    Bytes damaged = whole;
    const auto size = static_cast<std::uint32_t>(damaged.size());
    for (std::uint32_t i = random.below(4); i < 4; ++i) {
      damaged[random.below(size)] = static_cast<std::uint8_t>(random.below(256));
    }
    try {
      EXPECT_EQ(parse_idx_gz(damaged, 3, "some.gz").bytes.size(), 500U);
    } catch (const DataError& refused) {
      EXPECT_THAT(refused.what(), HasSubstr("expected"));
    }
  }
}

TEST(FashionMnist, ReadsThePackagedFiles) {
  const DataSet train = load_fashion_mnist(Subset::train, fashion_mnist_folder);
  const DataSet test = load_fashion_mnist(Subset::test, fashion_mnist_folder);
  EXPECT_EQ(train.samples(), 60'000);
  EXPECT_EQ(test.samples(), 10'000);
  EXPECT_EQ(train.features(), 784);
  EXPECT_NE(train.hash(), test.hash());

  std::vector<std::uint32_t> all(60'000);
  for (std::uint32_t i = 0; i < all.size(); ++i) all[i] = i;
  std::vector<int> of_class(10);
  const Tensor labels = train.labels(all);
  for (const std::int32_t label : labels.s32()) ++of_class[static_cast<std::size_t>(label)];
  EXPECT_THAT(of_class, testing::Each(6000));

  double sum = 0;
  double squares = 0;
  const Tensor inputs = train.inputs(all);
  for (const float value : inputs.f32()) {
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  const auto count = static_cast<double>(inputs.f32().size());
  EXPECT_NEAR(sum / count, 0.0, 1e-3);
  EXPECT_NEAR(squares / count, 1.0, 1e-3);
}

TEST(FashionMnist, MissingFilesNameThePackage) {
  EXPECT_THAT([] { load_fashion_mnist(Subset::test, "/nowhere"); },
              ThrowsMessage<DataError>(AllOf(HasSubstr("/nowhere/t10k-images-idx3-ubyte.gz"),
                                             HasSubstr("No such file"),
                                             HasSubstr("dataset-fashion-mnist"))));
  EXPECT_THROW(read_file(std::filesystem::temp_directory_path(), "advice"), DataError);
}

TEST(FashionMnist, DisagreeingFilesAreRefused) {
  const Bytes images = gzip(idx({3, 28, 28}, std::size_t{3} * 28 * 28));
  EXPECT_EQ(parse_fashion_mnist(images, gzip(idx({3}, 3))).samples(), 3);
  EXPECT_THAT([&] { parse_fashion_mnist(images, gzip(idx({4}, 4))); },
              ThrowsMessage<DataError>(AllOf(StartsWith("labels: "), HasSubstr("3, found 4"))));
  EXPECT_THAT(
      [&] {
        parse_fashion_mnist(gzip(idx({3, 28, 27}, std::size_t{3} * 28 * 27)), gzip(idx({3}, 3)));
      },
      ThrowsMessage<DataError>(HasSubstr("found 28 x 27")));
  EXPECT_THAT([&] { parse_fashion_mnist(gzip(idx({3}, 3)), images); },
              ThrowsMessage<DataError>(HasSubstr("not swapped")));
  Bytes wrong_label = idx({3}, 3);
  wrong_label.back() = 10;
  EXPECT_THAT([&] { parse_fashion_mnist(images, gzip(wrong_label)); },
              ThrowsMessage<DataError>(HasSubstr("label of sample 2: expected 0..9, found 10")));
}

}  // namespace
}  // namespace sluice::kernels
