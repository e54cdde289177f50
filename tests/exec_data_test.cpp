// Data sets: what a micro-batch holds, by hand; every sample once per epoch; hostile files are refused by name.
#include "exec/data.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "core/base/error.h"
#include "core/graph/builder.h"
#include "exec/data_order.h"
#include "exec/data_ports.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/temporary_folder.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

/// Tokens [B, T] of a vocabulary V through an embedding to logits over V.
Graph text_net(std::int64_t b, std::int64_t t, std::int64_t v = 256) {
  GraphBuilder net("lm", b);
  const TensorId x = net.embedding("wte", net.tokens("tokens", {b, t}), v, 4);
  net.cross_entropy("loss", net.linear("head", x, v), net.label("labels", {b, t}));
  return std::move(net).finish();
}

/// Any input shape, flattened, to logits over some classes.
Graph picture_net(Shape shape, std::int64_t classes = 10) {
  GraphBuilder net("vision", shape[0]);
  const std::int64_t b = shape[0], features = num_elements(shape) / b;
  TensorId x = net.input("image", std::move(shape));
  x = net.unary(OpKind::reshape, "flat", x, {{"shape", Shape{b, features}}});
  net.cross_entropy("loss", net.linear("fc", x, classes), net.label("label", {b}));
  return std::move(net).finish();
}

void put(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // ext4 syncs a file that is cut to nothing and written again
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string refusal(const std::string& spec, const Graph& graph) {
  try {
    open_data(spec, graph, 1);
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

std::string big_endian(std::uint32_t value) {
  return {static_cast<char>(value >> 24), static_cast<char>(value >> 16), static_cast<char>(value >> 8),
          static_cast<char>(value)};
}

std::string idx(std::vector<std::uint32_t> dimensions, const std::string& values) {
  std::string text{0, 0, 8, static_cast<char>(dimensions.size())};
  for (const std::uint32_t d : dimensions) text += big_endian(d);
  return text + values;
}

/// n pictures of h x w: pixel p of picture i is 10 i + p; label i % 10.
struct IdxFiles {
  std::string pictures, labels;
};
IdxFiles idx_files(int n, int h, int w) {
  std::string pixels, labels;
  for (int i = 0; i < n; ++i) {
    for (int p = 0; p < h * w; ++p) pixels += static_cast<char>(10 * i + p);
    labels += static_cast<char>(i % 10);
  }
  const auto u = [](int v) { return static_cast<std::uint32_t>(v); };
  return {idx({u(n), u(h), u(w)}, pixels), idx({u(n)}, labels)};
}

const char* const images_name = "train-images-idx3-ubyte";
const char* const labels_name = "train-labels-idx1-ubyte";

/// Sample i alone, in row 0 of a graph of one sample.
Batch sample(const DataSet& data, const Graph& graph, std::int64_t i) {
  const DataPorts ports = ports_of(graph);
  const Tensor &input = graph.tensor(ports.input), &label = graph.tensor(ports.label);
  Batch one{HostTensor::zeros(input.shape, input.dtype), HostTensor::zeros(label.shape, label.dtype)};
  data.fill(i, 0, one.input, one.label);
  return one;
}

// The order of samples.

TEST(Shuffled, IsAPermutationForEveryLength) {
  for (std::uint64_t n = 1; n < 70; ++n)
    for (const std::uint64_t key : {0, 1, 99}) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < n; ++i) seen.insert(shuffled(i, n, key));
      EXPECT_EQ(seen.size(), n);
      EXPECT_LT(*seen.rbegin(), n);
    }
  std::vector<bool> seen(60'000);
  for (std::uint64_t i = 0; i < seen.size(); ++i) seen[shuffled(i, seen.size(), 5)] = true;
  EXPECT_THAT(seen, Each(true));
}

TEST(Shuffled, MixesAndDependsOnItsKey) {
  constexpr std::uint64_t n = 10'000;
  // Of two unrelated permutations about one place in n agrees; neighbours stay neighbours about twice in n.
  std::uint64_t fixed = 0, same = 0, neighbours = 0;
  for (std::uint64_t i = 0; i + 1 < n; ++i) {
    fixed += shuffled(i, n, 1) == i ? 1 : 0;
    same += shuffled(i, n, 1) == shuffled(i, n, 2) ? 1 : 0;
    neighbours += shuffled(i, n, 1) + 1 == shuffled(i + 1, n, 1) ? 1 : 0;
  }
  EXPECT_LT(fixed, 10U);
  EXPECT_LT(same, 10U);
  EXPECT_LT(neighbours, 10U);
}

TEST(Shuffled, EveryPlaceIsReachedAlike) {
  constexpr std::uint64_t n = 10, keys = 20'000;
  std::vector<std::uint64_t> places(n);
  for (std::uint64_t key = 0; key < keys; ++key) ++places[shuffled(3, n, mixed(key, 0))];
  for (const std::uint64_t count : places)
    EXPECT_NEAR(static_cast<double>(count), 2000, 5 * 43);  // sqrt(20,000 x 0.09)
}

// Texts.

TEST(Text, LabelsAreTheTokensMovedOnByOne) {
  const TemporaryFolder folder;
  put(folder.path() / "t.txt", "abcdefgh\xc3");
  const Graph graph = text_net(1, 4);
  const auto data = open_data("text:" + (folder.path() / "t.txt").string(), graph, 1);
  ASSERT_EQ(data->num_samples(), 2);  // 9 bytes: abcd -> bcde, efgh -> fgh\xc3
  EXPECT_THAT(sample(*data, graph, 0).input.integers(), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(sample(*data, graph, 0).label.integers(), ElementsAre('b', 'c', 'd', 'e'));
  EXPECT_THAT(sample(*data, graph, 1).label.integers(), ElementsAre('f', 'g', 'h', 0xc3));
}

TEST(Text, IsCheckedAgainstTheModel) {
  const TemporaryFolder folder;
  const std::string spec = "text:" + (folder.path() / "t.txt").string();
  put(folder.path() / "t.txt", "abcd\xe9 and more");
  EXPECT_THAT(refusal(spec, text_net(1, 4, 128)),
              HasSubstr("t.txt: token 4 is 233, the vocabulary of model \"lm\" ends at 127"));
  EXPECT_EQ(refusal(spec, text_net(1, 4, 234)), "accepted");
  EXPECT_EQ(refusal(spec, text_net(1, 13)), "accepted");
  EXPECT_THAT(refusal(spec, text_net(1, 14)), HasSubstr("t.txt: has 14 tokens, one sample of model \"lm\" needs 15"));
  EXPECT_THAT(refusal(spec, picture_net({1, 1, 4, 4})), HasSubstr("is a text; it needs tokens [B, T]"));
  EXPECT_THAT(refusal("text:/no/such", text_net(1, 4)), HasSubstr("/no/such: no such file"));
}

TEST(Text, BytePairsComeFromTheirFolder) {
  const TemporaryFolder folder;
  put(folder.path() / "t.txt", "aaaa");
  const std::string spec = "text:" + (folder.path() / "t.txt").string() + ",bpe:" + folder.path().string();
  EXPECT_THAT(refusal(spec, text_net(1, 1)), HasSubstr("vocab.json: no such file"));
  EXPECT_THAT(refusal("text:t.txt,bpe:", text_net(1, 1)), HasSubstr("bpe: names no directory"));
}

// Pictures.

TEST(Idx, APictureOfTheRightSizeComesAsItIs) {
  const TemporaryFolder folder;
  const IdxFiles files = idx_files(3, 2, 2);
  put(folder.path() / images_name, files.pictures);
  put(folder.path() / labels_name, files.labels);
  const Graph graph = picture_net({1, 1, 2, 2});
  const auto data = open_data("idx:" + folder.path().string(), graph, 1);
  ASSERT_EQ(data->num_samples(), 3);
  const Batch one = sample(*data, graph, 2);
  for (int p = 0; p < 4; ++p)
    EXPECT_FLOAT_EQ(one.input.floats()[static_cast<std::size_t>(p)], static_cast<float>(20 + p) / 127.5F - 1);
  EXPECT_THAT(one.label.integers(), ElementsAre(2));
  const Graph flat = picture_net({1, 4});
  EXPECT_EQ(sample(*open_data("idx:" + folder.path().string(), flat, 1), flat, 2).input.data, one.input.data);
}

TEST(Idx, ASmallPictureIsEnlargedCentredAndRepeated) {
  const TemporaryFolder folder;
  put(folder.path() / images_name, idx({1, 2, 2}, "\xff\x0a\x14\x1e"));
  put(folder.path() / labels_name, idx({1}, "\x07"));
  const Graph graph = picture_net({1, 2, 5, 6});  // the factor is 2; one row is over, and two columns
  const Batch one = sample(*open_data("idx:" + folder.path().string(), graph, 1), graph, 0);
  std::vector<int> bytes;
  for (const float value : one.input.floats()) bytes.push_back(static_cast<int>((value + 1) * 127.5F + 0.5F));
  const std::vector<int> channel = {0, 255, 255, 10, 10, 0,  //
                                    0, 255, 255, 10, 10, 0,  //
                                    0, 20,  20,  30, 30, 0,  //
                                    0, 20,  20,  30, 30, 0,  //
                                    0, 0,   0,   0,  0,  0};
  EXPECT_EQ(std::vector<int>(bytes.begin(), bytes.begin() + 30), channel);
  EXPECT_EQ(std::vector<int>(bytes.begin() + 30, bytes.end()), channel);
}

TEST(Idx, PicturesThatDoNotFitAreRefused) {
  const TemporaryFolder folder;
  const IdxFiles files = idx_files(3, 4, 4);
  put(folder.path() / images_name, files.pictures);
  put(folder.path() / labels_name, files.labels);
  const std::string spec = "idx:" + folder.path().string();
  EXPECT_THAT(refusal(spec, picture_net({2, 1, 3, 8})),
              HasSubstr("pictures are [1, 4, 4], model \"vision\" reads [2, 1, 3, 8]"));
  EXPECT_THAT(refusal(spec, picture_net({2, 15})), HasSubstr("reads [2, 15]"));
  EXPECT_THAT(refusal(spec, text_net(2, 16)), HasSubstr("reads [2, 16] tokens"));
  EXPECT_THAT(refusal(spec, picture_net({2, 16}, 2)),
              HasSubstr("label 2 is 2, the classes of model \"vision\" end at 1"));
  EXPECT_EQ(refusal(spec, picture_net({2, 16}, 3)), "accepted");
}

void put_compressed(const fs::path& path, const std::string& bytes) {
  const gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_EQ(gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size())), static_cast<int>(bytes.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(Idx, CompressedFilesHoldTheSame) {
  const TemporaryFolder folder;
  const IdxFiles files = idx_files(20, 3, 3);
  put_compressed(folder.path() / (images_name + std::string(".gz")), files.pictures);
  put(folder.path() / labels_name, files.labels);
  const Graph graph = picture_net({1, 9});
  const auto data = open_data("idx:" + folder.path().string(), graph, 1);
  EXPECT_EQ(data->num_samples(), 20);
  EXPECT_FLOAT_EQ(sample(*data, graph, 19).input.floats()[8], 198 / 127.5F - 1);
}

TEST(Idx, DamagedCompressedFilesAreRefused) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / (images_name + std::string(".gz"));
  put_compressed(path, idx_files(20, 3, 3).pictures);
  put(folder.path() / labels_name, idx_files(20, 3, 3).labels);
  const std::string spec = "idx:" + folder.path().string(), whole = bytes_of(path);
  const Graph graph = picture_net({1, 9});
  ASSERT_EQ(refusal(spec, graph), "accepted");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    put(path, whole.substr(0, length));
    EXPECT_THAT(refusal(spec, graph), HasSubstr("train-images-idx3-ubyte.gz")) << length;
  }
  // The first ten bytes hold a time and such; the last before checksum and length ends in padding.
  for (std::size_t at = 10; at < whole.size(); ++at) {
    if (at + 9 == whole.size()) continue;
    std::string flipped = whole;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    put(path, flipped);
    EXPECT_THAT(refusal(spec, graph), HasSubstr("train-images-idx3-ubyte.gz")) << at;
  }
}

TEST(Idx, HostileFilesAreRefusedByName) {
  const TemporaryFolder folder;
  const IdxFiles right = idx_files(3, 2, 2);
  const std::string spec = "idx:" + folder.path().string();
  const Graph graph = picture_net({1, 4});
  const auto pictures = [&](const std::string& bytes) {
    put(folder.path() / images_name, bytes);
    put(folder.path() / labels_name, right.labels);
    forget_requests();
    const std::string message = refusal(spec, graph);
    EXPECT_LT(largest_request(), 5'000'000U);
    return message;
  };
  const std::string values(12, 'x');
  EXPECT_THAT(refusal(spec, graph), HasSubstr("has neither train-images-idx3-ubyte nor train-images-idx3-ubyte.gz"));
  EXPECT_EQ(pictures(right.pictures), "accepted");
  EXPECT_THAT(pictures(""), HasSubstr("ubyte: ends after 0 bytes, 16 more are wanted"));
  EXPECT_THAT(pictures(right.pictures.substr(0, 15)), HasSubstr("ends after 15 bytes, 1 more are wanted"));
  EXPECT_THAT(pictures(right.pictures.substr(0, 27)), HasSubstr("ends after 27 bytes, 1 more are wanted"));
  EXPECT_THAT(pictures(right.pictures + 'x'), HasSubstr("is longer than the 28 bytes that it describes"));
  EXPECT_THAT(pictures(right.labels + values), HasSubstr("must begin with 0 0 8 3, and begins with 0 0 8 1"));
  EXPECT_THAT(pictures("\x7f" + right.pictures.substr(1)), HasSubstr("begins with 127 0 8 3"));
  EXPECT_THAT(pictures(std::string("\0\0\x0d\x03", 4) + right.pictures.substr(4)), HasSubstr("begins with 0 0 13 3"));
  EXPECT_THAT(pictures(idx({2, 2, 3}, values)), HasSubstr("train-labels-idx1-ubyte: has 3 labels"));
  EXPECT_THAT(pictures(idx({0, 2, 2}, "")), HasSubstr("dimension below 1"));
  EXPECT_THAT(pictures(idx({3, 0, 2}, "")), HasSubstr("dimension below 1"));
  EXPECT_THAT(pictures(idx({UINT32_MAX, UINT32_MAX, UINT32_MAX}, values)), HasSubstr("more than 2^40"));
  EXPECT_THAT(pictures(idx({1U << 31, 1U << 31, 4}, values)), HasSubstr("more than 2^40"));  // 2^64: 0 when it wraps
  EXPECT_THAT(pictures(idx({1U << 20, 1U << 10, 1U << 10}, values)), HasSubstr("ends after 28 bytes"));
  put(folder.path() / labels_name, right.labels.substr(0, 9));
  EXPECT_THAT(refusal(spec, graph), HasSubstr("ubyte: ends after"));
}

void put_cifar(const fs::path& folder, int records) {
  for (int batch = 1; batch <= 5; ++batch) {
    std::string bytes;
    for (int r = 0; r < records; ++r) {
      bytes += static_cast<char>(batch);
      for (int channel = 0; channel < 3; ++channel) bytes += std::string(1024, static_cast<char>(100 * channel + r));
    }
    put(folder / ("data_batch_" + std::to_string(batch) + ".bin"), bytes);
  }
}

TEST(Cifar10, RecordsAreALabelAndThreePlanes) {
  const TemporaryFolder folder;
  put_cifar(folder.path(), 2);
  const Graph graph = picture_net({1, 3, 32, 32});
  const auto data = open_data("cifar10:" + folder.path().string(), graph, 1);
  ASSERT_EQ(data->num_samples(), 10);
  const Batch one = sample(*data, graph, 7);  // the second of file 4
  EXPECT_THAT(one.label.integers(), ElementsAre(4));
  for (std::size_t channel = 0; channel < 3; ++channel)
    EXPECT_THAT(one.input.floats().subspan(1024 * channel, 1024),
                Each(static_cast<float>(100 * channel + 1) / 127.5F - 1));
  EXPECT_THAT(refusal("cifar10:" + folder.path().string(), picture_net({1, 1, 32, 32})),
              HasSubstr("reads [1, 1, 32, 32]"));
}

TEST(Cifar10, HostileFilesAreRefusedByName) {
  const TemporaryFolder folder;
  const std::string spec = "cifar10:" + folder.path().string();
  const Graph graph = picture_net({1, 3, 32, 32});
  EXPECT_THAT(refusal(spec, graph), HasSubstr("data_batch_1.bin: no such file"));
  put_cifar(folder.path(), 1);
  EXPECT_EQ(refusal(spec, graph), "accepted");
  const fs::path third = folder.path() / "data_batch_3.bin";
  const std::string whole = bytes_of(third);
  put(third, whole.substr(1));
  EXPECT_THAT(refusal(spec, graph), HasSubstr("data_batch_3.bin: has 3072 bytes, a multiple of 3073 is wanted"));
  put(third, "");
  EXPECT_THAT(refusal(spec, graph), HasSubstr("data_batch_3.bin: has 0 bytes"));
  put(third, whole + '\x0a' + whole.substr(1));
  EXPECT_THAT(refusal(spec, graph), HasSubstr("data_batch_3.bin: record 1 has label 10"));
  fs::remove(third);
  EXPECT_THAT(refusal(spec, graph), HasSubstr("data_batch_3.bin: no such file"));
}

// Synthetic, and what all have in common.

TEST(Synthetic, TokensFollowAProgressionThatLabelsContinue) {
  const Graph graph = text_net(1, 9, 50);
  const auto data = open_data("synthetic", graph, 3);
  for (std::int64_t i = 0; i < 200; ++i) {
    const Batch one = sample(*data, graph, i);
    const auto tokens = one.input.integers(), labels = one.label.integers();
    const std::int64_t stride = (tokens[1] - tokens[0] + 50) % 50;
    EXPECT_TRUE(stride >= 1 && stride <= 4);
    for (std::size_t t = 0; t < 9; ++t) EXPECT_EQ(labels[t], (tokens[t] + stride) % 50);
    EXPECT_TRUE(std::equal(tokens.begin() + 1, tokens.end(), labels.begin()));
  }
}

TEST(Synthetic, PicturesOfAClassShareAPattern) {
  const Graph graph = picture_net({1, 3, 8, 8}, 4);
  const auto data = open_data("synthetic", graph, 3);
  std::map<std::int64_t, std::vector<double>> sums;
  std::map<std::int64_t, int> counts;
  for (std::int64_t i = 0; i < 4000; ++i) {
    const Batch one = sample(*data, graph, i);
    auto& sum = sums[one.label.integers()[0]];
    sum.resize(192);
    ++counts[one.label.integers()[0]];
    for (std::size_t p = 0; p < sum.size(); ++p) sum[p] += one.input.floats()[p];
  }
  ASSERT_EQ(sums.size(), 4U);
  // Noise has a deviation of 1/sqrt(3); the mean of about 1,000 is known to 0.02. Five of those are allowed.
  for (const auto& [kind, sum] : sums) {
    EXPECT_NEAR(counts[kind], 1000, 140);
    for (const double value : sum) EXPECT_NEAR(std::abs(value / counts[kind]), 0.5, 0.1);
  }
}

TEST(BatchOf, AnEpochHoldsEverySampleOnce) {
  const TemporaryFolder folder;
  const IdxFiles files = idx_files(24, 1, 1);  // pixel 10 i tells the sample
  put(folder.path() / images_name, files.pictures);
  put(folder.path() / labels_name, files.labels);
  const Graph graph = picture_net({4, 1});
  const auto data = open_data("idx:" + folder.path().string(), graph, 1);
  std::vector<std::vector<int>> epochs;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int> seen;
    epochs.emplace_back();
    for (std::int64_t step = 2 * epoch; step < 2 * epoch + 2; ++step)  // 2 steps x 3 micro-batches x 4 samples
      for (int micro_batch = 0; micro_batch < 3; ++micro_batch) {
        const Batch batch = batch_of(*data, graph, 9, (step * 3 + micro_batch) * 4);
        for (std::size_t row = 0; row < 4; ++row) {
          const int pixel = static_cast<int>((batch.input.floats()[row] + 1) * 127.5F + 0.5F);
          seen.insert(pixel);
          epochs.back().push_back(pixel);
        }
      }
    std::multiset<int> all;
    for (int i = 0; i < 24; ++i) all.insert((10 * i) % 256);
    EXPECT_EQ(seen, all);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  EXPECT_NE(epochs[1], epochs[2]);
}

TEST(BatchOf, DependsOnSeedAndPositionAlone) {
  const Graph graph = text_net(2, 8, 50);
  const auto data = open_data("synthetic", graph, 1), again = open_data("synthetic", graph, 1);
  const auto other = open_data("synthetic", graph, 2);
  const Batch late = batch_of(*data, graph, 5, 1'000'000);
  batch_of(*data, graph, 5, 0);
  const Batch same = batch_of(*again, graph, 5, 1'000'000);
  EXPECT_EQ(late.input, same.input);
  EXPECT_EQ(late.label, same.label);
  for (const Batch& differs : {batch_of(*data, graph, 6, 1'000'000), batch_of(*data, graph, 5, 1'000'002),
                               batch_of(*other, graph, 5, 1'000'000)})
    EXPECT_NE(late.input, differs.input);
  const Batch next = batch_of(*data, graph, 5, 1'000'001);  // its first row is the second of `late`
  EXPECT_TRUE(std::ranges::equal(next.input.integers().first(8), late.input.integers().subspan(8)));
  EXPECT_THROW(batch_of(*data, graph, 5, -1), std::logic_error);
}

TEST(BatchOf, ASmallSetFillsALargeBatch) {
  const TemporaryFolder folder;
  put(folder.path() / "t.txt", "abcde");
  const Graph graph = text_net(8, 2);  // two samples
  const Batch batch = batch_of(*open_data("text:" + (folder.path() / "t.txt").string(), graph, 1), graph, 1, 0);
  EXPECT_EQ(std::ranges::count(batch.input.integers(), 'a'), 4);  // four epochs
  EXPECT_EQ(std::ranges::count(batch.input.integers(), 'c'), 4);
}

// Identity: what a checkpoint knows data by.

std::string identity(const std::string& spec, const Graph& graph) { return open_data(spec, graph, 1)->identity(); }

TEST(Identity, OfATextFollowsItsTokensAndNotItsPath) {
  const TemporaryFolder folder;
  const auto file = [&](const char* name, std::string_view text) {
    put(folder.path() / name, text);
    return "text:" + (folder.path() / name).string();
  };
  const std::string a = file("a.txt", "the same text"), copy = file("b.txt", "the same text");
  const std::string other = file("c.txt", "the same texT");
  EXPECT_EQ(identity(a, text_net(2, 4)), identity(copy, text_net(1, 4)));  // a batch is not the data's
  EXPECT_THAT(identity(a, text_net(2, 4)), HasSubstr("text of bytes, 4 tokens a sample, 3 samples, checksum "));
  EXPECT_NE(identity(a, text_net(2, 4)), identity(other, text_net(2, 4)));
  EXPECT_NE(identity(a, text_net(2, 4)), identity(a, text_net(2, 3)));
}

TEST(Identity, OfPicturesFollowsPixelsAndLabels) {
  const TemporaryFolder folder;
  const auto found = [&](const std::string& pixels, const std::string& labels) {
    put(folder.path() / images_name, idx({1, 2, 2}, pixels));
    put(folder.path() / labels_name, idx({1}, labels));
    return identity("idx:" + folder.path().string(), picture_net({1, 4}));
  };
  const std::string one = found("\xff\x0a\x14\x1e", "\x07");
  EXPECT_THAT(one, HasSubstr("idx, 1 pictures [1, 2, 2], checksum "));
  EXPECT_EQ(one, found("\xff\x0a\x14\x1e", "\x07"));
  EXPECT_NE(one, found("\xff\x0a\x14\x1f", "\x07"));
  EXPECT_NE(one, found("\xff\x0a\x14\x1e", "\x06"));
}

TEST(Remark, SaysWhatIsDoneToPictures) {
  const TemporaryFolder folder;
  put(folder.path() / images_name, idx({1, 2, 2}, "\xff\x0a\x14\x1e"));
  put(folder.path() / labels_name, idx({1}, "\x07"));
  const auto remark = [&](Shape shape) {
    return open_data("idx:" + folder.path().string(), picture_net(std::move(shape)), 1)->remark();
  };
  EXPECT_EQ(remark({1, 1, 2, 2}), "");
  EXPECT_EQ(remark({1, 4}), "");
  EXPECT_EQ(remark({1, 1, 4, 4}), "pictures of 2 x 2 are enlarged 2 times, as the model wants them");
  EXPECT_EQ(remark({1, 1, 3, 2}), "pictures of 2 x 2 are centred on black in 3 x 2, as the model wants them");
  EXPECT_EQ(remark({1, 3, 5, 6}),
            "pictures of 2 x 2 are repeated over 3 channels, enlarged 2 times, centred on black in 5 x 6, as the model "
            "wants them");
}

TEST(OpenData, UnknownKindsAndFormsAreRefused) {
  const Graph graph = text_net(1, 4);
  EXPECT_THAT(refusal("txt:FILE", graph), HasSubstr("--data: \"txt\" is not known; did you mean \"text\""));
  EXPECT_THAT(refusal("", graph), HasSubstr("is not known"));
  EXPECT_THAT(refusal("text", graph), HasSubstr("\"text\" is not of the form text:FILE"));
  EXPECT_THAT(refusal("idx:", graph), HasSubstr("not of the form idx:DIR"));
  EXPECT_THAT(refusal("synthetic:5", graph), HasSubstr("not of the form"));
  for (const DataRow& row : data_table()) EXPECT_FALSE(row.help.empty());
}

TEST(OpenData, AGraphNeedsOneInputOneLabelAndALoss) {
  GraphBuilder two("two", 1);
  const TensorId sum = two.add("sum", two.input("a", {1, 4}), two.input("b", {1, 4}));
  two.cross_entropy("loss", two.linear("fc", sum, 4), two.label("label", {1}));
  EXPECT_THAT(refusal("synthetic", std::move(two).finish()), HasSubstr("two: has 2 input ops; training needs one"));
  GraphBuilder cut("cut", 1);
  cut.linear("fc", cut.input("a", {1, 4}), 4);
  EXPECT_THAT(refusal("synthetic", std::move(cut).finish()), HasSubstr("cut: has 0 label ops"));
}

TEST(PortsOf, TheSmallestTableAndTheFewestClassesDecide) {
  GraphBuilder net("net", 1);
  const TensorId tokens = net.tokens("tokens", {1, 4});
  const TensorId x = net.add("sum", net.embedding("big", tokens, 100, 8), net.embedding("small", tokens, 60, 8));
  const TensorId positions =
      net.unary(OpKind::embedding, "wpe", tokens, {{"rows", 5}, {"features", 8}, {"positions", true}});
  const TensorId y = net.add("with_positions", x, positions), label = net.label("label", {1, 4});
  net.cross_entropy("aux", net.linear("aux_head", y, 70), label);
  net.cross_entropy("loss", net.linear("head", y, 80), label);
  const Graph graph = std::move(net).finish();
  EXPECT_EQ(ports_of(graph).vocabulary, 60);
  EXPECT_EQ(ports_of(graph).classes, 70);
}

}  // namespace
}  // namespace fusion::exec
