#include "format/onnx/encoded_message.h"

#include <iterator>

#include <protozero/varint.hpp>

namespace quern::onnx {

void EncodedMessage::AddLength(int field, uint64_t bytes) {
  constexpr uint64_t kLengthDelimited = 2;
  protozero::add_varint_to_buffer(&tail_, static_cast<uint64_t>(field) << 3 | kLengthDelimited);
  protozero::add_varint_to_buffer(&tail_, bytes);
}

void EncodedMessage::CloseTail() {
  if (tail_.empty()) return;
  size_of_pieces_ += tail_.size();
  pieces_.push_back({std::move(tail_), {}, nullptr, false});
  tail_.clear();
}

void EncodedMessage::AddMessage(int field, EncodedMessage inner) {
  AddLength(field, inner.size());
  if (!inner.pieces_.empty()) {
    CloseTail();
    size_of_pieces_ += inner.size_of_pieces_;
    pieces_.insert(pieces_.end(), std::make_move_iterator(inner.pieces_.begin()),
                   std::make_move_iterator(inner.pieces_.end()));
  }
  tail_ += inner.tail_;
}

void EncodedMessage::AddView(int field, std::string_view bytes, std::shared_ptr<const void> owner) {
  AddLength(field, bytes.size());
  constexpr size_t kAsLargeAsAPiece = 256;
  if (bytes.size() <= kAsLargeAsAPiece) {
    tail_ += bytes;
    return;
  }
  CloseTail();
  size_of_pieces_ += bytes.size();
  pieces_.push_back({{}, bytes, std::move(owner), true});
}

std::string EncodedMessage::ToString() && {
  if (pieces_.empty()) return std::move(tail_);
  std::string all;
  all.reserve(size());
  for (const Piece& piece : pieces_) all += piece.is_view ? piece.view : std::string_view(piece.bytes);
  all += tail_;
  return all;
}

}  // namespace quern::onnx
