#pragma once

#include <cstdint>

namespace minillm {

// true where the variable is set to anything but nothing and "0"
bool env_flag(const char * name);

// the number in the variable, or the default where it is not set;
// throws std::invalid_argument where it is set to something else
int32_t env_int(const char * name, int32_t def);

} // namespace minillm
