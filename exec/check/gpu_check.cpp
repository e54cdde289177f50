// fusion-gpu-check: every kernel against the CPU, bit for bit, and its time against a plain read pass.
//   --quick      small sizes only
//   --cpu-side   what the checker does on the CPU alone, at small sizes: makes the tensors and the expected results
//   --json FILE  writes the times
#include <cstdio>
#include <exception>
#include <fstream>
#include <string_view>

#include "core/compress/topk.h"
#include "exec/check/cases.h"
#include "exec/check/report.h"
#include "exec/compress_cuda.h"

namespace fusion::exec {

void Checks::expect(bool condition, const std::string& what) {
  ++done_;
  if (condition) return;
  ++failed_;
  if (failed_ <= 40) std::printf("FAILED %s\n", what.c_str());
}

namespace {

void cpu_side() {
  compress::TopkWorkspace workspace;
  compress::Selection chosen;
  for (const Case& made : cases()) {
    const std::vector<float> x = make_tensor(made, 1 << 20);
    compress::top_k<float>(x, 1 << 13, chosen, workspace);
    std::printf("%-10.*s kept %zu, threshold %g\n", static_cast<int>(made.name.size()), made.name.data(),
                chosen.index.size(), static_cast<double>(chosen.threshold));
  }
}

void write_json(const char* path, const Checks& checks, const std::vector<Timing>& timings) {
  std::ofstream out(path);
  out << "{\"checks\": " << checks.done() << ", \"failed\": " << checks.failed() << ", \"timings\": [";
  for (std::size_t i = 0; i < timings.size(); ++i) {
    const Timing& t = timings[i];
    out << (i == 0 ? "\n" : ",\n") << "  {\"name\": \"" << t.name << "\", \"elements\": " << t.elements
        << ", \"ms\": " << t.ms << ", \"bytes\": " << t.bytes << ", \"of_read\": " << t.of_read << "}";
  }
  out << "\n]}\n";
}

void print(const std::vector<Timing>& timings) {
  std::printf("\n%-34s %12s %9s %9s %8s\n", "operation", "elements", "us", "GB/s", "of read");
  for (const Timing& t : timings)
    std::printf("%-34s %12.0f %9.1f %9.0f %7.0f%%\n", t.name.c_str(), t.elements, t.ms * 1e3, t.bytes / t.ms / 1e6,
                t.of_read * 100);
}

int run(bool quick, const char* json) {
  const std::string missing = cuda_missing();
  if (!missing.empty()) {
    std::printf("skipped: no GPU (%s)\n", missing.c_str());
    return 0;
  }
  Checks checks;
  check_topk(checks, quick);
  check_sparse(checks, quick);
  check_quantise(checks, quick);
  std::printf("checks: %d done, %d failed\n", checks.done(), checks.failed());
  const std::vector<Timing> timings = measure(quick);
  if (json) write_json(json, checks, timings);
  print(timings);
  std::printf("\nchecks: %d done, %d failed\n", checks.done(), checks.failed());
  return checks.failed() == 0 ? 0 : 1;
}

}  // namespace
}  // namespace fusion::exec

int main(int argc, char** argv) {
  bool quick = false;
  const char* json = nullptr;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--cpu-side") return fusion::exec::cpu_side(), 0;
    if (argument == "--quick") {
      quick = true;
    } else if (argument == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fprintf(stderr, "usage: fusion-gpu-check [--quick] [--cpu-side] [--json FILE]\n");
      return 2;
    }
  }
  try {
    return fusion::exec::run(quick, json);
  } catch (const std::exception& fault) {
    std::fprintf(stderr, "fusion-gpu-check: %s\n", fault.what());
    return 5;
  }
}
