#pragma once

// What the CUDA kernel of MUL_MAT_ID and its CPU twin share: how rows are dealt out, and in
// which order a row is added up. The order is part of the result.

// lanes of a warp: lane l adds up the columns l, l + 32, l + 64 and so on, ascending; then
// halves are added to halves, lane l + 16 to lane l, l + 8 to l, until lane 0 has the sum
#define MMV_LANES 32

// rows of a matrix that a block of threads has, one warp each; any choice gives the same bits
#ifndef MINILLM_MMV_ROWS
#define MINILLM_MMV_ROWS 4
#endif

static_assert(MINILLM_MMV_ROWS > 0 && MINILLM_MMV_ROWS <= 16 && (MINILLM_MMV_ROWS & (MINILLM_MMV_ROWS - 1)) == 0,
              "MINILLM_MMV_ROWS has to be a power of two up to 16");
