// Tensors that the compressors' benchmark reads from files: what NumPy and safetensors write is read, what is damaged
// is refused by name.
#include "bench/tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <random>

#include "core/base/error.h"
#include "core/compress/wire.h"
#include "tests/support/temporary_folder.h"

namespace fusion::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

template <class T>
std::string bytes_of(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}

/// As numpy.save writes it, version 1.0: magic, version, u16 length, a dictionary, data.
std::string npy(const std::string& dictionary, const std::string& data, char version = 1) {
  std::string file = "\x93NUMPY";
  file += {version, '\0'};
  const auto length = static_cast<std::uint32_t>(dictionary.size());
  file += version == 1 ? bytes_of({static_cast<std::uint16_t>(length)}) : bytes_of({length});
  return file + dictionary + data;
}

std::string npy_of(const std::string& descr, const std::string& shape, const std::string& data, char version = 1) {
  return npy("{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }\n", data, version);
}

std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of({std::uint64_t{header.size()}}) + header + data;
}

class Loader : public testing::Test {
 protected:
  Sample load(const std::string& name, const std::string& content, const std::string& tensor = "") {
    const auto path = folder_.path() / name;
    std::ofstream(path, std::ios::binary) << content;
    return load_sample(path, tensor);
  }
  /// The message of an InputError that names the file.
  std::string fault(const std::string& name, const std::string& content, const std::string& tensor = "") {
    try {
      load(name, content, tensor);
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr(name));
      return error.what();
    }
    ADD_FAILURE() << name << " was taken";
    return "";
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(Loader, TakesTheTypesOfNumpy) {
  const auto one_and_a_half = std::uint16_t{0x3e00};
  const Sample single = load("a.npy", npy_of("<f4", "(2, 3)", bytes_of({1.0f, -2.0f, 3.0f, 0.5f, 0.0f, 9.0f})));
  EXPECT_EQ(single.name, "a");
  EXPECT_EQ(single.shape, (Shape{2, 3}));
  EXPECT_THAT(single.values, ElementsAre(1, -2, 3, 0.5f, 0, 9));
  EXPECT_THAT(load("b.npy", npy_of("<f8", "(2,)", bytes_of({0.25, -1e300}))).values,
              ElementsAre(0.25f, -std::numeric_limits<float>::infinity()));
  EXPECT_THAT(load("c.npy", npy_of("<f2", "(1,)", bytes_of({one_and_a_half}))).values, ElementsAre(1.5f));
  EXPECT_THAT(load("d.npy", npy_of("<f4", "(1,)", bytes_of({7.0f}), 2)).values, ElementsAre(7)) << "version 2";
  const Sample scalar = load("e.npy", npy_of("<f4", "()", bytes_of({7.0f})));
  EXPECT_EQ(scalar.shape, Shape{});
  EXPECT_THAT(scalar.values, ElementsAre(7));
  EXPECT_TRUE(load("f.npy", npy_of("<f4", "(0, 4)", "")).values.empty());
}

TEST_F(Loader, RefusesWhatIsNoNumpyFile) {
  EXPECT_THAT(fault("a.npy", ""), HasSubstr("NUMPY"));
  EXPECT_THAT(fault("a.npy", std::string(40, 'x')), HasSubstr("NUMPY"));
  EXPECT_THAT(fault("a.npy", npy_of("<i4", "(1,)", bytes_of({1}))), HasSubstr("<i4"));
  EXPECT_THAT(fault("a.npy", npy_of(">f4", "(1,)", bytes_of({1.0f}))), HasSubstr(">f4"));
  EXPECT_THAT(fault("a.npy", npy_of("<f4", "(2,)", bytes_of({1.0f}))), HasSubstr("4 bytes"));
  EXPECT_THAT(fault("a.npy", npy_of("<f4", "(1,)", bytes_of({1.0f, 2.0f}))), HasSubstr("8 bytes"));
  EXPECT_THAT(fault("a.npy", npy_of("<f4", "(4294967296, 4294967296, 1)", "")), HasSubstr("shape"));
  EXPECT_THAT(fault("a.npy", npy("{'descr': '<f4', 'shape': (1,)}", bytes_of({1.0f}))), HasSubstr("fortran_order"));
  EXPECT_THAT(fault("a.npy", npy("{'descr': '<f4', 'fortran_order': True, 'shape': (1,)}", bytes_of({1.0f}))),
              HasSubstr("Fortran"));
  EXPECT_THAT(fault("a.npy", npy("{'descr': [('x', '<f4')", bytes_of({1.0f}))), HasSubstr("header"));
  std::string long_header = npy_of("<f4", "(1,)", bytes_of({1.0f}));
  long_header[9] = '\x7f';
  EXPECT_THAT(fault("a.npy", long_header), HasSubstr("cut short"));
}

constexpr const char* two_tensors =
    R"({"__metadata__": {"format": "pt"},
        "small": {"dtype": "F16", "shape": [1], "data_offsets": [0, 2]},
        "w": {"dtype": "F32", "shape": [2, 1], "data_offsets": [2, 10]}})";

TEST_F(Loader, TakesTheLargestOrTheNamedTensorOfSafetensors) {
  const std::string file = safetensors(two_tensors, bytes_of({std::uint16_t{0x3e00}}) + bytes_of({3.0f, -4.0f}));
  const Sample largest = load("m.safetensors", file);
  EXPECT_EQ(largest.name, "w");
  EXPECT_EQ(largest.shape, (Shape{2, 1}));
  EXPECT_THAT(largest.values, ElementsAre(3, -4));
  EXPECT_THAT(load("m.safetensors", file, "small").values, ElementsAre(1.5f));
  EXPECT_THAT(fault("m.safetensors", file, "smal"), HasSubstr("did you mean \"small\""));
  const std::string brain = R"({"b": {"dtype": "BF16", "shape": [1], "data_offsets": [0, 2]}})";
  EXPECT_THAT(load("b.safetensors", safetensors(brain, bytes_of({std::uint16_t{0x3fc0}}))).values, ElementsAre(1.5f));
}

TEST_F(Loader, RefusesWhatIsNoSafetensorsFile) {
  const auto with = [](const std::string& entry) { return safetensors(R"({"w": )" + entry + "}", bytes_of({1.0f})); };
  EXPECT_THAT(fault("m.safetensors", "short"), HasSubstr("too short"));
  EXPECT_THAT(fault("m.safetensors", bytes_of({~std::uint64_t{0}}) + "{}"), HasSubstr("cut short"));
  EXPECT_THAT(fault("m.safetensors", safetensors("not json", "")), HasSubstr("not JSON"));
  EXPECT_THAT(fault("m.safetensors", safetensors("[]", "")), HasSubstr("not JSON"));
  EXPECT_THAT(fault("m.safetensors", safetensors("{}", "")), HasSubstr("no tensor"));
  EXPECT_THAT(fault("m.safetensors", with(R"({"dtype": "I64", "shape": [1], "data_offsets": [0, 4]})")),
              HasSubstr("I64"));
  for (const char* offsets :
       {"[0, 5]", "[3, 2]", "[0]", "[-4, 0]", "[0, 1e30]", "\"all\"", "[4, 18446744073709551615]"})
    fault("m.safetensors", with(R"({"dtype": "F32", "shape": [1], "data_offsets": )" + std::string(offsets) + "}"));
  for (const char* shape : {"[2]", "[-1]", "[4294967296, 4294967296, 1]", "1", "[0.5]", "[\"1\"]"})
    fault("m.safetensors", with(R"({"dtype": "F32", "data_offsets": [0, 4], "shape": )" + std::string(shape) + "}"));
  fault("m.safetensors", with("3"));
}

TEST_F(Loader, NamesOtherKindsOfFiles) {
  EXPECT_THAT(fault("m.bin", "x"), HasSubstr(".npy or .safetensors"));
  EXPECT_THROW(load_sample("/nowhere/x.npy", ""), InputError);
  EXPECT_THROW(load_sample("/", ""), InputError);
}

/// Bytes overwritten and files cut anywhere: an InputError or a tensor, never a crash or a wild allocation.
TEST_F(Loader, DamageIsRefusedOrHarmless) {
  std::mt19937_64 rng(1);
  const std::string files[] = {npy_of("<f4", "(2, 3)", bytes_of({1.0f, -2.0f, 3.0f, 0.5f, 0.0f, 9.0f})),
                               safetensors(two_tensors, bytes_of({std::uint16_t{0x3e00}}) + bytes_of({3.0f, -4.0f}))};
  for (int round = 0; round < 2'000; ++round) {
    const bool numpy = round % 2 == 0;
    std::string file = files[round % 2];
    for (auto hits = rng() % 3 + 1; hits > 0; --hits)
      file[rng() % file.size()] =
          static_cast<char>(rng() % 2 ? rng() % 256 : std::array{'0', '9', '\'', '['}[rng() % 4]);
    if (rng() % 4 == 0) file.resize(rng() % file.size());
    try {
      const Sample sample = load(numpy ? "x.npy" : "x.safetensors", file);
      ASSERT_EQ(sample.values.size(), compress::elements_of(sample.shape));
      ASSERT_LE(sample.values.size(), file.size());
    } catch (const InputError&) {
    }
  }
}

TEST(Samples, AreTheSameForASeedAndHaveRowsWhereTheyDivide) {
  for (const DistributionRow& row : distribution_table()) {
    const Sample a = make_sample(row.name, 8192, 3), b = make_sample(row.name, 8192, 3);
    EXPECT_EQ(a.shape, (Shape{2, 4096}));
    EXPECT_EQ(a.values, b.values) << row.name;
    EXPECT_NE(a.values, make_sample(row.name, 8192, 4).values) << row.name;
    EXPECT_EQ(make_sample(row.name, 5000, 3).shape, (Shape{5000}));
  }
  EXPECT_THROW(make_sample("gausian", 10, 1), InputError);
}

}  // namespace
}  // namespace fusion::bench
