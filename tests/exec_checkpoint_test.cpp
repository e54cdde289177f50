// Checkpoints: what is written is read back bit for bit; whatever happens to the files, or to the process that writes
// them, a complete checkpoint is taken and never a wrong one.
#include "exec/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <limits>
#include <random>

#include "core/base/error.h"
#include "tests/support/allocation_watch.h"
#include "tests/support/temporary_folder.h"

namespace fusion::exec {
namespace {
namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

HostTensor floats(Shape shape, float start) {
  HostTensor tensor = HostTensor::zeros(std::move(shape));
  for (float& value : tensor.floats()) value = start++;
  return tensor;
}

NamedTensors some_tensors() {
  HostTensor integers = HostTensor::zeros({2, 2}, DType::int64);
  integers.integers()[3] = std::numeric_limits<std::int64_t>::min();
  HostTensor odd = floats({3}, 0);
  odd.floats()[0] = std::numeric_limits<float>::quiet_NaN();
  odd.floats()[1] = -0.0F;
  odd.floats()[2] = std::numeric_limits<float>::denorm_min();
  return {{"p/h.0.weight", floats({2, 3}, 1)}, {"scalar", floats({}, 5)}, {"integers", integers}, {"p/\"odd\"", odd}};
}

std::string bytes_of(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void put(const fs::path& path, std::string_view bytes) {
  fs::remove(path);  // ext4 syncs a file that is cut to nothing and written again
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const InputError& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Safetensors, ComesBackBitForBit) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "t.safetensors";
  const FileDigest digest = write_safetensors(path, some_tensors());
  EXPECT_EQ(digest, digest_of(path));
  EXPECT_EQ(digest.bytes, static_cast<std::int64_t>(fs::file_size(path)));
  const NamedTensors read = read_safetensors(path);
  ASSERT_THAT(read, SizeIs(4));
  for (const auto& [name, tensor] : some_tensors()) EXPECT_EQ(read.at(name), tensor) << name;
  write_safetensors(path, {});
  EXPECT_THAT(read_safetensors(path), IsEmpty());
}

TEST(Safetensors, HasTheLayoutOfTheFormat) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "t.safetensors";
  write_safetensors(path, {{"b", floats({2}, 1)}, {"a", floats({1}, 7)}});
  // Sorted by name; the header padded with spaces to a multiple of 8.
  const std::string header = R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                             R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})";
  const std::string padded = header + std::string((8 - header.size() % 8) % 8, ' ');
  const std::string data("\0\0\xe0\x40\0\0\x80\x3f\0\0\0\x40", 12);  // 7, 1, 2
  EXPECT_EQ(bytes_of(path), std::string(1, static_cast<char>(padded.size())) + std::string(7, '\0') + padded + data);
}

TEST(Safetensors, ReadsWhatOthersWrite) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "t.safetensors";
  std::string header = R"({"__metadata__":{"format":"pt"},"x":{"data_offsets":[0,8],"shape":[1],"dtype":"I64"}})";
  put(path, std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') + header + std::string(8, '\1'));
  EXPECT_EQ(read_safetensors(path).at("x").integers()[0], 0x0101010101010101);
}

/// A file with this header and as many bytes of data.
std::string with_header(const std::string& header, std::size_t data) {
  std::uint64_t length = header.size();
  std::string text(8, '\0');
  for (char& c : text) {
    c = static_cast<char>(length & 0xff);
    length >>= 8;
  }
  return text + header + std::string(data, 'x');
}

TEST(Safetensors, HostileFilesAreRefusedByName) {
  struct Case {
    std::string bytes, message;
  };
  const std::string huge = std::string(7, '\xff') + '\x7f';
  const Case cases[] = {
      {"", "0 bytes are no safetensors file"},
      {"1234567", "7 bytes are no safetensors file"},
      {huge + "{}", "claims a header of 9223372036854775807 bytes"},
      {std::string(8, '\xff') + "{}", "claims a header of 18446744073709551615 bytes"},
      {std::string("\x03\0\0\0\0\0\0\0{}", 10), "claims a header of 3 bytes, but only 2 follow"},
      {with_header("", 0), "not JSON"},
      {with_header("[]", 0), "is not a JSON object"},
      {with_header("{\"a\":1}", 0), "a: 1 is not an object"},
      {with_header(std::string(100'000, '['), 0), "100 levels"},
      {with_header("{\"a\":" + std::string(100'000, '[') + std::string(100'000, ']') + "}", 0), "100 levels"},
      {with_header("{}", 1), "its tensors take 0 bytes, 1 are there"},
      {with_header(R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})", 8), "a.dtype: \"F64\" is not read"},
      {with_header(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})", 0), "dimension below 1"},
      {with_header(R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}})", 4), "a.shape"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}})", 4), "a.shape"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1e999],"data_offsets":[0,4]}})", 4), "beyond the range of a double"},
      {with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]}})", 4), "2^40"},
      {with_header(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296,0],"data_offsets":[0,0]}})", 0), "2^40"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}})", 4),
       "its tensors take 4398046511104 bytes, 4 are there"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,8]}})", 8), "8 bytes, shape [1] has 4"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}})", 4), "not a begin and an end"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0]}})", 4), "not a begin and an end"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,18446744073709551616]}})", 4), "data_offsets"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", 8), "begins at byte 4"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                   R"("b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                   4),
       "begins at byte 0 of the data, the tensor before it ends at 4"},  // two tensors on the same bytes
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 3), "4 bytes, 3 are there"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 5), "4 bytes, 5 are there"},
      {with_header(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", 4), "\"extra\""},
  };
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "hostile.safetensors";
  for (const Case& hostile : cases) {
    put(path, hostile.bytes);
    forget_requests();
    const std::string message = message_of([&] { read_safetensors(path); });
    EXPECT_THAT(message, HasSubstr("hostile.safetensors"));
    EXPECT_THAT(message, HasSubstr(hostile.message));
    EXPECT_LT(largest_request(), 10'000'000U) << hostile.message;
  }
  EXPECT_THAT(message_of([&] { read_safetensors(folder.path() / "none"); }), HasSubstr("none: no such file"));
  EXPECT_THAT(message_of([&] { read_safetensors(folder.path()); }), HasSubstr("no such file"));
}

/// Damages a file the way disks, transfers and malice do.
std::string mutated(std::string bytes, std::mt19937_64& random) {
  const auto any = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  for (std::size_t edits = 1 + any(3); edits > 0; --edits) {
    const std::size_t at = any(bytes.size());
    switch (any(6)) {
      case 0:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << any(8)));
        break;
      case 1:
        bytes.resize(at + 1);
        break;
      case 2:
        bytes.insert(at, 1 + any(16), static_cast<char>(random()));
        break;
      case 3:
        bytes[any(std::min<std::size_t>(8, bytes.size()))] = static_cast<char>(random());
        break;
      case 4:  // another digit, or one more: shapes and offsets
        if (const std::size_t digit = bytes.find_first_of("0123456789", at); digit != std::string::npos)
          bytes.insert(digit, 1 + any(20), static_cast<char>('0' + any(10)));
        break;
      default:  // a piece again somewhere else
        bytes.insert(any(bytes.size()), bytes.substr(at, any(40)));
    }
  }
  return bytes;
}

TEST(Safetensors, MutationsNeitherCrashNorAllocateMuch) {
  const TemporaryFolder folder;
  const fs::path path = folder.path() / "t.safetensors";
  write_safetensors(path, some_tensors());
  const std::string whole = bytes_of(path);
  std::mt19937_64 random(19);
  int accepted = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::string bytes = mutated(whole, random);
    put(path, bytes);
    forget_requests();
    try {
      std::size_t total = 0;
      for (const auto& [name, tensor] : read_safetensors(path)) total += tensor.data.size();
      EXPECT_LT(total, bytes.size());
      ++accepted;
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("t.safetensors"));
    }
    EXPECT_LT(largest_request(), 100'000U);
  }
  EXPECT_GT(accepted, 100);  // values alone may change without a fault of the layout: the checksum tells those
  EXPECT_LT(accepted, 2500);
}

// Whole checkpoints.

CheckpointInfo info_at(std::int64_t step, int num_ranks = 2) {
  return {.step = step,
          .seed = UINT64_MAX,
          .model = "net abc",
          .optimizer = "adam",
          .data = {"synthetic, 10 samples", 25, 2, 5},
          .num_ranks = num_ranks};
}

/// What rank r holds at a step: a parameter of its own and a tied one.
NamedTensors share_of(std::int64_t step, int rank, std::int64_t elements = 8) {
  const auto value = static_cast<float>(step);
  return {{"p/own" + std::to_string(rank), floats({elements}, value)}, {"p/tied", floats({3}, value)}};
}

fs::path write_step(const fs::path& directory, std::int64_t step, int num_ranks = 2, std::int64_t elements = 8) {
  for (int rank = 0; rank < num_ranks; ++rank)
    write_checkpoint(directory, info_at(step, num_ranks), rank, share_of(step, rank, elements));
  finish_checkpoint(directory, info_at(step, num_ranks));
  std::string digits = std::to_string(step);
  return directory / ("step-" + std::string(8 - digits.size(), '0') + digits);
}

std::optional<fs::path> newest(const fs::path& directory) {
  std::vector<std::string> refused;
  const auto found = newest_checkpoint(directory, refused);
  EXPECT_THAT(refused, IsEmpty());
  return found;
}

TEST(Checkpoint, IsReadBackWhole) {
  const TemporaryFolder folder;
  const fs::path directory = folder.path() / "deep" / "checkpoints";
  EXPECT_EQ(newest(directory), std::nullopt);  // nothing there yet
  const fs::path step = write_step(directory, 7, 3);
  EXPECT_EQ(newest(directory), step);
  const Checkpoint read = read_checkpoint(step);
  EXPECT_EQ(read.info, info_at(7, 3));
  EXPECT_THAT(read.tensors, SizeIs(4));  // the tied one once
  EXPECT_EQ(read.tensors.at("p/own2"), share_of(7, 2).at("p/own2"));
  EXPECT_EQ(read.tensors.at("p/tied"), share_of(7, 0).at("p/tied"));
}

TEST(Checkpoint, TheHighestStepIsTheNewest) {
  const TemporaryFolder folder;
  for (const std::int64_t step : {100, 9, 99'999'999, 20}) write_step(folder.path(), step);
  for (const char* stranger : {"step-", "step-5", "step-00000xyz", "steps", "step-0000000100000"})
    fs::create_directory(folder.path() / stranger);
  EXPECT_EQ(newest(folder.path()), folder.path() / "step-99999999");
}

TEST(Checkpoint, IsTheSameBytesEveryTime) {
  const TemporaryFolder folder;
  const fs::path a = write_step(folder.path() / "a", 5), b = write_step(folder.path() / "b", 5);
  for (const char* file : {"COMPLETE", "rank-0.json", "rank-0.safetensors", "rank-1.json", "rank-1.safetensors"})
    EXPECT_EQ(bytes_of(a / file), bytes_of(b / file)) << file;
  EXPECT_THAT(std::vector<fs::path>(fs::directory_iterator(a), {}), SizeIs(5));  // and no temporary ones
}

TEST(Checkpoint, CopiesOfATiedTensorMustAgree) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), info_at(1), 0, {{"p/tied", floats({3}, 1)}});
  write_checkpoint(folder.path(), info_at(1), 1, {{"p/tied", floats({3}, 2)}});
  finish_checkpoint(folder.path(), info_at(1));
  EXPECT_THAT(message_of([&] { read_checkpoint(folder.path() / "step-00000001"); }),
              HasSubstr("rank-1.safetensors: p/tied: differs from the copy of a lower rank"));
}

TEST(Checkpoint, CannotBeFinishedWhileARankIsMissing) {
  const TemporaryFolder folder;
  write_checkpoint(folder.path(), info_at(1), 0, share_of(1, 0));
  EXPECT_THAT(message_of([&] { finish_checkpoint(folder.path(), info_at(1)); }),
              HasSubstr("rank-1.json: no such file"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000001" / "COMPLETE"));
}

/// After `damage` to step 2, it is refused with a line that names `culprit`, and step 1 is taken.
void expect_refused(const fs::path& directory, const std::string& culprit, const std::string& what) {
  std::vector<std::string> refused;
  EXPECT_EQ(newest_checkpoint(directory, refused), directory / "step-00000001") << what;
  EXPECT_THAT(refused, ElementsAre(HasSubstr(culprit))) << what;
  EXPECT_THROW(read_checkpoint(directory / "step-00000002"), InputError) << what;
}

TEST(Checkpoint, ADamagedFileIsRefusedByNameAndTheStepBeforeItIsTaken) {
  const TemporaryFolder folder;
  write_step(folder.path(), 1);
  const fs::path step = write_step(folder.path(), 2);
  for (const char* file : {"rank-0.json", "rank-1.json", "rank-0.safetensors", "rank-1.safetensors"}) {
    const std::string whole = bytes_of(step / file);
    for (std::size_t length = 0; length < whole.size(); length += 7) {
      put(step / file, whole.substr(0, length));
      expect_refused(folder.path(), file, "cut at " + std::to_string(length));
    }
    for (std::size_t at = 0; at < whole.size(); ++at) {
      std::string flipped = whole;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << (at % 8)));
      put(step / file, flipped);
      expect_refused(folder.path(), file, "flipped at " + std::to_string(at));
    }
    put(step / file, whole + '\0');
    expect_refused(folder.path(), file, "one byte too long");
    fs::remove(step / file);
    expect_refused(folder.path(), file, "missing");
    fs::create_directory(step / file);
    expect_refused(folder.path(), file, "a directory");
    put(step / file, whole);
    EXPECT_EQ(newest(folder.path()), step);
  }
}

TEST(Checkpoint, ADamagedListIsRefusedOrChangesNothing) {
  const TemporaryFolder folder;
  write_step(folder.path(), 1);
  const fs::path step = write_step(folder.path(), 2), list = step / "COMPLETE";
  const Checkpoint right = read_checkpoint(step);
  const std::string whole = bytes_of(list);
  for (std::size_t length = 0; length + 1 < whole.size(); ++length) {  // the last byte is a line break
    put(list, whole.substr(0, length));
    expect_refused(folder.path(), "step-00000002", "cut at " + std::to_string(length));
  }
  int harmless = 0;
  for (std::size_t at = 0; at < 8 * whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at / 8] = static_cast<char>(flipped[at / 8] ^ (1 << (at % 8)));
    put(list, flipped);
    std::vector<std::string> refused;
    if (newest_checkpoint(folder.path(), refused) != step) continue;
    ++harmless;  // a space that became a tab
    EXPECT_EQ(read_checkpoint(step).info, right.info) << at;
    EXPECT_EQ(read_checkpoint(step).tensors, right.tensors) << at;
  }
  EXPECT_LT(harmless, static_cast<int>(whole.size()));
}

TEST(Checkpoint, FilesOfAnotherCheckpointAreRefused) {
  const TemporaryFolder folder;
  write_step(folder.path(), 1);
  const fs::path step = write_step(folder.path(), 2);
  for (const char* file : {"rank-0.json", "COMPLETE"}) {
    const std::string whole = bytes_of(step / file);
    put(step / file, bytes_of(folder.path() / "step-00000001" / file));
    expect_refused(folder.path(), "step-00000002", file);
    put(step / file, whole);
  }
}

TEST(Checkpoint, AStepThatIsWrittenAgainIsIncompleteUntilItIsFinished) {
  const TemporaryFolder folder;
  write_step(folder.path(), 1);
  write_step(folder.path(), 2);
  write_checkpoint(folder.path(), info_at(2), 1, share_of(77, 1));
  expect_refused(folder.path(), "is not complete", "one rank wrote");
  EXPECT_EQ(read_checkpoint(write_step(folder.path(), 2)).tensors.at("p/own1"), share_of(2, 1).at("p/own1"));
}

TEST(Checkpoint, ADirectoryThatCannotBeWrittenIsRefused) {
  const TemporaryFolder folder;
  put(folder.path() / "file", "not a directory");
  for (const char* place : {"file", "file/below"})
    EXPECT_THAT(message_of([&] { write_step(folder.path() / place, 1); }), HasSubstr("file"));
  std::vector<std::string> refused;
  EXPECT_THAT(message_of([&] { newest_checkpoint(folder.path() / "file", refused); }), HasSubstr("can't be read"));
}

TEST(Checkpoint, AFullDiskLosesNothing) {
  const TemporaryFolder folder;
  const fs::path first = write_step(folder.path(), 1);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);  // write fails as it does on a full disk, with another errno
  for (const rlim_t room : {0, 1, 100, 4096}) {
    const rlimit full{room, before.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
    std::string message = "accepted";
    try {
      write_step(folder.path(), 2, 2, 4096);
    } catch (const RuntimeFault& fault) {
      message = fault.what();
    }
    setrlimit(RLIMIT_FSIZE, &before);
    EXPECT_THAT(message, HasSubstr("rank-0.safetensors: can't be written: File too large")) << room;
    EXPECT_EQ(fs::exists(folder.path() / "step-00000002" / "rank-0.safetensors.tmp"), false) << room;
    std::vector<std::string> refused;
    EXPECT_EQ(newest_checkpoint(folder.path(), refused), first) << room;
  }
  std::signal(SIGXFSZ, handler);
}

// A child writes checkpoints until it is killed.

[[noreturn]] void write_until_killed(const fs::path& directory, std::int64_t step, int started) {
  const char ready = 1;
  if (::write(started, &ready, 1) != 1) _exit(1);
  try {
    for (;; ++step) write_step(directory, step, 2, 20'000);
  } catch (...) {
    _exit(1);
  }
}

/// Kills a writer that starts at `step`, `delay` microseconds after it began.
void kill_a_writer(const fs::path& directory, std::int64_t step, unsigned delay) {
  int started[2];
  ASSERT_EQ(pipe(started), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) write_until_killed(directory, step, started[1]);
  char ready = 0;
  ASSERT_EQ(read(started[0], &ready, 1), 1);
  usleep(delay);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));  // it was still writing
  close(started[0]);
  close(started[1]);
}

TEST(Golden, G19_AWriterKilledAtARandomMomentLeavesTheCheckpointBefore) {
  const TemporaryFolder folder;
  const int kills = std::getenv("FUSION_NIGHTLY") != nullptr ? 100 : 20;
  std::mt19937_64 random(19);
  std::int64_t last = 1;
  std::size_t torn = 0;
  write_step(folder.path(), last, 2, 20'000);
  for (int i = 0; i < kills; ++i) {
    kill_a_writer(folder.path(), last + 1, static_cast<unsigned>(random() % 30'000));
    std::vector<std::string> refused;
    const auto found = newest_checkpoint(folder.path(), refused);
    ASSERT_TRUE(found);
    EXPECT_LE(refused.size(), 1U);  // none but the one that was being written
    torn += refused.size();
    const Checkpoint read = read_checkpoint(*found);
    EXPECT_GE(read.info.step, last);  // what was complete stays
    last = read.info.step;
    for (int rank = 0; rank < 2; ++rank)
      for (const auto& [name, tensor] : share_of(last, rank, 20'000)) EXPECT_EQ(read.tensors.at(name), tensor);
  }
  EXPECT_GT(torn, 0U);  // or no kill fell into a write, and this test tests nothing
}

}  // namespace
}  // namespace fusion::exec
