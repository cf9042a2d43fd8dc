// The transforms that are under way on this thread: a stack of levels. While it is not empty, every operator goes to
// the innermost level first (dispatch key FuncTorchDynamicLayerFrontMode, see front.cc).
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/tangent.h"
#include "func/tape.h"
#include "tensor/core/tensor.h"

namespace tessera::func {

enum class Kind : uint8_t { kVmap, kGrad, kJvp, kTape, kFunctional };
// What random operators do inside of vmap: fail, draw once for the whole batch, or draw for each of its elements.
enum class Randomness : uint8_t { kError, kSame, kDifferent };

struct Level {
  Kind kind = Kind::kVmap;
  int64_t id = 0;  // never used again: what outlives its level is known by that
  int64_t batch_size = 0;
  Randomness randomness = Randomness::kError;
  // What was set outside: operators of outer levels run under it.
  bool outer_grad = true;
  bool outer_forward = true;
  uint64_t outer_excluded = 0;
  bool removes_views = false;  // of kFunctional
  // A value of this level has a history outside of it, so the level's own backward pass must be recorded there.
  bool history_outside = false;
  IntrusivePtr<autograd::TangentLevel> tangents;  // of kJvp: what its tensors' tangents belong to
  IntrusivePtr<Tape> tape;                        // of kTape
};

// Outermost first. Levels that are hidden for the duration of a call are not in it.
const std::vector<Level>& levels();
Level* top_level();             // null without transforms
Level* find_level(int64_t id);  // null when it has ended
int64_t push_vmap(int64_t batch_size, Randomness randomness);
int64_t push_grad();  // turns recording on
int64_t push_jvp();   // turns forward mode on
int64_t push_functional(bool removes_views);
int64_t push_tape();  // notes down operators on what on_tape() gave it
// Ends the innermost level. Error if it is another one; those inside of it have ended then, too.
void pop_level(int64_t id);

// A level for a scope.
class LevelScope {
 public:
  explicit LevelScope(int64_t id) : id_(id) {}
  ~LevelScope() { close(); }
  LevelScope(const LevelScope&) = delete;
  int64_t id() const { return id_; }
  void close();

 private:
  int64_t id_;
};

// Takes the innermost level off for a scope: what runs meanwhile is the business of the levels outside of it.
class Hidden {
 public:
  Hidden();
  ~Hidden();
  Hidden(const Hidden&) = delete;
  Level& level() { return level_; }

 private:
  Level level_;
  bool grad_, forward_;
  uint64_t excluded_;
};

}  // namespace tessera::func
