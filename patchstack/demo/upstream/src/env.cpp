#include "env.h"

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>

namespace minillm {

bool env_flag(const char * name) {
    const char * value = std::getenv(name);
    return value != nullptr && value[0] != '\0' && std::string(value) != "0";
}

int32_t env_int(const char * name, int32_t def) {
    const char * value = std::getenv(name);
    if (value == nullptr || value[0] == '\0') {
        return def;
    }

    char * end = nullptr;
    const long long number = std::strtoll(value, &end, 10);
    if (*end != '\0' || number < std::numeric_limits<int32_t>::min() ||
                        number > std::numeric_limits<int32_t>::max()) {
        throw std::invalid_argument(std::string(name) + " is not a number: " + value);
    }
    return int32_t(number);
}

} // namespace minillm
