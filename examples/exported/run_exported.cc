// Runs an exported network on the inputs that are in its file, and writes what it gives:
//
//   run_exported resnet18.pt2 results.pt
#include <chrono>
#include <cstdio>

#include "export/program.h"
#include "serialization/checkpoint.h"

using tessera::Tensor;

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: run_exported PROGRAM.pt2 RESULTS.pt\n");
    return 2;
  }
  try {
    const auto now = [] { return std::chrono::steady_clock::now(); };
    const auto milliseconds = [](auto from, auto to) {
      return std::chrono::duration<double, std::milli>(to - from).count();
    };
    const auto begin = now();
    const tessera::exported::Program program = tessera::exported::load(argv[1]);
    const auto loaded = now();
    const auto inputs = program.example_inputs();
    if (!inputs) throw tessera::Error("the file has no inputs");
    const std::vector<tessera::Value> results = program.run(*inputs);
    const auto first = now();
    program.run(*inputs);
    std::printf("reading %.1f ms, first result %.1f ms, second %.1f ms\n", milliseconds(begin, loaded),
                milliseconds(loaded, first), milliseconds(first, now()));
    tessera::serialization::StateDict written;
    for (size_t i = 0; i < results.size(); ++i)
      if (results[i].is_tensor()) written.emplace_back(std::to_string(i), results[i].tensor());
    tessera::serialization::save(written, argv[2]);
  } catch (const tessera::Error& e) {
    std::fprintf(stderr, "run_exported: %s\n", e.what());
    return 1;
  }
}
