# The CUDA compiler and its options, for MINILLM_CUDA.

if(NOT CMAKE_CUDA_ARCHITECTURES)
    message(FATAL_ERROR "MINILLM_CUDA: name the GPU architectures to build for, as in "
                        "-DCMAKE_CUDA_ARCHITECTURES=90-real (-real: machine code alone, no PTX)")
endif()

set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)

# a program runs without the toolkit, and without a driver it finds no device
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

enable_language(CUDA)

# no fused multiply-add, as for C++; -objtemp names the intermediate files after the object,
# where nvcc would put its process id into the symbols
set(CUDA_OPTIONS --fmad=false -objtemp -Xcompiler=-Wall,-Wextra -Xcompiler=-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.)
if(MINILLM_FATAL_WARNINGS)
    list(APPEND CUDA_OPTIONS -Werror=all-warnings)
endif()
add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:${CUDA_OPTIONS}>")
