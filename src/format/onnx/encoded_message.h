// EncodedMessage: a serialized protobuf message in pieces, so that large tensors are never copied while a model is
// made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <protozero/pbf_writer.hpp>

namespace quern::onnx {

class EncodedMessage {
 public:
  // For fields of numbers and texts, which are copied. Not to be kept beyond the statement.
  protozero::pbf_writer Fields() { return protozero::pbf_writer(tail_); }
  void AddMessage(int field, EncodedMessage inner);
  // A field of bytes that stay where they are; `owner` (may be null: the caller) keeps them alive.
  void AddView(int field, std::string_view bytes, std::shared_ptr<const void> owner);

  uint64_t size() const { return size_of_pieces_ + tail_.size(); }
  // Calls visit(std::string_view) for all bytes in order; ends early, with its status, when one fails.
  template <typename Visit>
  auto ForEachPiece(Visit visit) const -> decltype(visit(std::string_view())) {
    for (const Piece& piece : pieces_) {
      if (auto status = visit(piece.is_view ? piece.view : std::string_view(piece.bytes)); !status.ok()) return status;
    }
    return visit(std::string_view(tail_));
  }
  // All of it in one string.
  std::string ToString() &&;

 private:
  struct Piece {
    std::string bytes;
    std::string_view view;
    std::shared_ptr<const void> owner;
    bool is_view;
  };
  void AddLength(int field, uint64_t bytes);
  void CloseTail();

  std::vector<Piece> pieces_;
  uint64_t size_of_pieces_ = 0;
  std::string tail_;  // behind the pieces
};

}  // namespace quern::onnx
