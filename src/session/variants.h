// ShapeVariants: an executable's graph compiled again for the shapes of a run, where more is known of it then.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "graph/graph.h"
#include "tensor/shape.h"
#include "tensor/value.h"

namespace quern {

class Executable;
struct CompileEnv;

// Exporters write Ifs whose conditions are computed from shapes, and sizes that are. Behind them ranks are unknown, so
// that no provider with kernels takes a node. With numbers for the symbolic extents such conditions and sizes are
// constants: the branch is inlined and the rest has shapes. The first few sets of input shapes get a variant each;
// later ones run on the general executable, so that shapes that change with every run cost no compilations.
class ShapeVariants {
 public:
  ShapeVariants();
  ~ShapeVariants();

  // After the neutral stage: decides whether variants may help.
  void Examine(const Graph& graph);
  // The variant for these inputs' shapes, made at their first run; null: the general executable serves them.
  Executable* Find(const Graph& graph, const CompileEnv& env, std::span<const Value> inputs);
  // That of the last run, or null; a run that asks for none says so.
  void NoneServes() { last_.store(nullptr, std::memory_order_release); }
  const Executable* last() const { return last_.load(std::memory_order_acquire); }
  int64_t plans_built() const;

 private:
  // What a variant is compiled for, of one input; of those that are no tensors the kind alone.
  struct Input {
    ValueKind kind = ValueKind::kNone;
    DType dtype = DType::kUndefined;
    Shape shape;
    bool operator==(const Input&) const = default;
  };
  struct Variant {
    std::vector<Input> inputs;
    std::unique_ptr<Executable> executable;  // null: for these shapes the general one serves as well
  };
  std::unique_ptr<Executable> Compile(const Graph& graph, const CompileEnv& env, std::span<const Value> inputs) const;
  static Input InputOf(const Value& value);
  const Variant* FindKept(std::span<const Value> inputs) const;

  size_t most_ = 0;           // variants at most
  size_t unsettled_ = 0;      // of the general graph: see CountUnsettled
  mutable std::mutex mutex_;  // of variants_
  std::mutex compiling_;
  std::vector<std::unique_ptr<Variant>> variants_;
  std::atomic<bool> full_{false};
  std::atomic<const Executable*> last_{nullptr};
};

}  // namespace quern
