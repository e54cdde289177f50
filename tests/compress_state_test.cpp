// Compression states across a restart: nothing lost, nothing reset in silence.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "core/compress/state.h"
#include "tests/support/temporary_folder.h"

namespace fusion::compress {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

std::vector<float> gradient(std::mt19937_64& rng) {
  std::normal_distribution<float> normal;
  std::vector<float> x(16 * 24);
  for (float& v : x) v = normal(rng);
  return x;
}

TEST(CodecStates, ARestoredRunSendsTheSameBytes) {
  TemporaryFolder folder;
  CodecWorkspace ws;
  for (const MethodRow& row : method_table()) {
    std::mt19937_64 rng(1);
    CodecStates states;
    std::vector<std::byte> bytes, again;
    MethodOptions options;
    options.keep = 0.1;
    for (int step = 0; step < 5; ++step)
      encode(row.method, "w", gradient(rng), {16, 24}, options, states["w"], ws, bytes);
    save(states, folder.path() / "states");
    CodecStates restored = restore(folder.path() / "states");
    ASSERT_EQ(restored, states);
    const auto x = gradient(rng);
    encode(row.method, "w", x, {16, 24}, options, states["w"], ws, bytes);
    encode(row.method, "w", x, {16, 24}, options, restored["w"], ws, again);
    ASSERT_EQ(again, bytes) << row.name;
  }
}

TEST(CodecStates, AResetStateIsNoticedByTheReceiver) {
  CodecWorkspace ws;
  CodecStates sender, receiver;
  std::vector<std::byte> bytes;
  std::vector<float> out(8);
  for (int step = 0; step < 3; ++step) {
    encode(Method::aq, "a", std::vector<float>(8, 1.0f), {8}, {}, sender["a"], ws, bytes);
    decode(Method::aq, "a", bytes, {8}, receiver["a"], ws, out);
  }
  receiver.tensors.clear();
  encode(Method::aq, "a", std::vector<float>(8, 1.0f), {8}, {}, sender["a"], ws, bytes);
  EXPECT_THAT([&] { decode(Method::aq, "a", bytes, {8}, receiver["a"], ws, out); },
              ThrowsMessage<RuntimeFault>(HasSubstr("step 3 of its sender, and step 0 is due")));
}

TEST(CodecStates, MissingAndLeftOverNamesAreErrors) {
  TemporaryFolder folder;
  const auto path = folder.path() / "states";
  CodecStates states;
  states["a"].step = 1;
  states["b"].step = 2;
  save(states, path);
  const std::string both[] = {"a", "b"}, more[] = {"a", "b", "c"}, fewer[] = {"a"};
  EXPECT_EQ(restore(path, both), states);
  EXPECT_THAT([&] { restore(path, more); }, ThrowsMessage<InputError>(HasSubstr("c: has no compression state")));
  EXPECT_THAT([&] { restore(path, fewer); }, ThrowsMessage<InputError>(HasSubstr("b: has a compression state")));
}

TEST(CodecStates, EveryDamagedFileIsRefused) {
  TemporaryFolder folder;
  const auto path = folder.path() / "states";
  CodecStates states;
  states["weight"] = {{2, 2}, 7, {1, 2, 3, 4}, {5, 6}, 0.5f};
  save(states, path);
  std::ifstream in(path, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(in), {}};
  const auto write = [&](const std::string& text) { std::ofstream(path, std::ios::binary) << text; };
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write(whole.substr(0, length));
    EXPECT_THROW(restore(path), InputError) << length;
  }
  for (std::size_t i = 0; i < whole.size(); ++i) {
    auto damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 1);
    write(damaged);
    EXPECT_THROW(restore(path), InputError) << i;
  }
  EXPECT_THROW(restore(folder.path() / "absent"), InputError);
}

}  // namespace
}  // namespace fusion::compress
