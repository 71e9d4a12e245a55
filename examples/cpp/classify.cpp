// Classifies one 8x8 picture of a digit, and prints the micro-kernel of each node: classify digits.onnx
#include <algorithm>
#include <cstdio>

#include <quern/quern.hpp>

int main(int argc, char** argv) try {
  if (argc != 2) {
    std::fprintf(stderr, "usage: classify digits.onnx\n");
    return 2;
  }
  quern::SessionOptions options;
  options.threads = 2;
  quern::Session session(quern::Model::Load(argv[1]), options);

  // A zero: a ring of bright pixels.
  const char* rows[8] = {"  ####  ", " ##  ## ", " #    # ", " #    # ",
                         " #    # ", " #    # ", " ##  ## ", "  ####  "};
  std::vector<float> pixels;
  for (const char* row : rows) {
    for (int x = 0; x < 8; ++x) pixels.push_back(row[x] == '#' ? 1.0f : 0.0f);
  }
  const std::vector<quern::Value> outputs = session.Run({quern::Value::Wrap({1, 1, 8, 8}, pixels.data())});
  const float* probability = outputs[0].data<float>();
  const auto* best = std::max_element(probability, probability + outputs[0].num_elements());
  std::printf("this is a %d, probability %.3f\n", static_cast<int>(best - probability), static_cast<double>(*best));
  std::printf("%s\n", session.Facts("compiled").c_str());
  return 0;
} catch (const quern::Error& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 1;
}
