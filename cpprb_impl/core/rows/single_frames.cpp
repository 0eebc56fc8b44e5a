// The stacks of consecutive steps as single frames, each of which is read once.
#include "rows.hpp"

namespace rb {

std::size_t Rows::read_single(std::size_t f, const std::size_t* slots, const char* begins, std::size_t step,
                              std::size_t count, char* to, std::size_t apart) const {
  const std::size_t older = fields_[f].shape.frames - 1;
  const FrameStream* before = nullptr;
  FrameStream::Number last = 0;
  for (std::size_t t = 0; t < count; ++t) {
    const std::size_t slot = slots[t * step];
    const FrameStream& stream = stream_of(f, slot);
    const FrameStream::Number newest = number_at(f, slot);
    if (t == 0)
      for (std::size_t j = 0; j < older; ++j) stream.read_frame(newest - older + j, to + j * apart);
    else if (const bool follows = &stream == before && newest == last + 1;
             !follows && begins[t * step] == 0 && !continues(f, slot, slots[(t - 1) * step]))
      return t;
    stream.read_frame(newest, to + (older + t) * apart);
    before = &stream;
    last = newest;
  }
  return count;
}

// Compares the stacks themselves: a stack may have been stored whole although it continues another, as in the stream of
// another environment, or share all frames with it although it has advanced, if these are equal.
bool Rows::continues(std::size_t f, std::size_t slot, std::size_t earlier) const {
  std::vector<char> stacks(2 * fields_[f].bytes);
  char* const later = stacks.data() + fields_[f].bytes;
  const FrameStream &from = stream_of(f, earlier), &to = stream_of(f, slot);
  FrameStream::Scratch scratch = from.scratch();
  from.read(number_at(f, earlier), stacks.data(), 0, nullptr, scratch);
  to.read(number_at(f, slot), later, 0, nullptr, scratch);
  return is_next_stack(fields_[f].shape, stacks.data(), later);
}

}  // namespace rb
