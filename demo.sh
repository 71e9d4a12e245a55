#!/usr/bin/env bash
# Installs what is missing, builds the quern command and runs the shipped digit classifier: predictions, accuracy, time,
# the micro-kernel of each node and why it was chosen, on this CPU, on plain C++ kernels and for a CPU that is not here.
# Safe to run again: what is installed or built is used as it is.
set -euo pipefail
cd "$(dirname "$0")"

Title() { printf '\n== %s\n' "$*"; }
Show() {  # prints a command and runs it
  printf '$ %s\n' "$*"
  "$@"
}

Title "Installing what is missing"
scripts/setup.sh build

Title "Building (the first time some minutes; log in build/demo-build.log)"
mkdir -p build/demo
export CCACHE_BASEDIR="$PWD" CCACHE_NOHASHDIR=1  # test.sh then finds what was compiled here
if ! { cmake --preset release -DQUERN_BUILD_TESTS=OFF -DQUERN_BUILD_BENCHMARKS=OFF -B build/demo-release &&
  cmake --build build/demo-release -j "$(nproc)"; } > build/demo-build.log 2>&1; then
  tail -30 build/demo-build.log
  echo "error: the build failed"
  exit 1
fi
export PATH="$PWD/build/demo-release/tools:$PATH"

Title "This CPU"
Show quern cpu

Title "Five handwritten digits that the model has not seen (the file name has the right answer)"
for picture in models/digit_*.png; do
  Show quern run models/digits.onnx --input "image=$picture" --top 3 --labels models/labels.txt
done

Title "360 held-out digits, float32 and int8"
for model in digits digits_qdq; do
  rm -rf "build/demo/$model"
  Show quern run "models/$model.onnx" --input image=models/heldout_images.npy --output-dir "build/demo/$model"
  python3 scripts/accuracy.py "build/demo/$model/probability.npy" models/heldout_labels.npy
done

Title "The micro-kernel of each node, and why"
Show quern inspect models/digits.onnx --stage compiled
Show quern inspect models/digits_qdq.onnx --stage compiled

Title "The same with plain C++ kernels, so that one sees what the others give"
Show quern run models/digits.onnx --input image=models/heldout_images.npy --output-dir build/demo/generic --cpu generic
python3 scripts/accuracy.py build/demo/generic/probability.npy models/heldout_labels.npy
Show quern inspect models/digits.onnx --stage compiled --cpu generic

Title "What would be chosen on a CPU that is not here (the second convolution, as a matrix product)"
Show quern kernels --cpu apple-m4 --shape 16x32x144 --types f32,f32,f32
