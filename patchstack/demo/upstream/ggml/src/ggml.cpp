#include "ggml.h"

// in the order of the enum; the assertion below keeps the two in step
static const char * const op_names[] = {
    "ADD",
    "MUL",
    "SCALE",
    "SILU",
    "SIGMOID",
    "SOFT_MAX",
    "MUL_MAT",
    "MUL_MAT_ID",
    "OUT_PROD",
    "RMS_NORM",
    "L2_NORM",
    "ROPE",
    "ARGMAX",
    "TOP_K",
};

static_assert(sizeof(op_names) / sizeof(op_names[0]) == GGML_OP_COUNT, "an operator lacks its name");

const char * ggml_op_name(ggml_op op) {
    return op >= 0 && op < GGML_OP_COUNT ? op_names[op] : "?";
}
