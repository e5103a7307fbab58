# Flags that hold for every target: warnings are errors, and arithmetic is what the source says.
add_library(muster_compiler INTERFACE)
target_compile_options(muster_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Woverloaded-virtual
  -Wimplicit-fallthrough -Werror
  # No contraction of a*b+c behind our back: a result must not depend on how a loop was compiled.
  -ffp-contract=off
  # errno after sqrt is read by nobody, and keeps loops with a square root from being vectorised.
  -fno-math-errno
  -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(muster_compiler INTERFACE -Wthread-safety)
elseif(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlaps that are none in "text" + std::string (GCC bug 105329).
  target_compile_options(muster_compiler INTERFACE -Wno-restrict)
endif()
target_compile_definitions(muster_compiler INTERFACE
  $<$<CONFIG:Debug>:_GLIBCXX_ASSERTIONS>)

# What the compiler may assume of every processor; left empty, that is its own default (x86-64 of
# 2003, AArch64 of 2011). Training does not need more: its kernels choose their instruction set at
# run time (core/tensor/kernels).
set(MUSTER_CPU_BASELINE "" CACHE STRING "Value for -march; empty for the compiler's own")
if(MUSTER_CPU_BASELINE)
  target_compile_options(muster_compiler INTERFACE -march=${MUSTER_CPU_BASELINE})
endif()

if(MUSTER_SANITIZE)
  target_compile_options(muster_compiler INTERFACE
    -fsanitize=${MUSTER_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1)
  target_link_options(muster_compiler INTERFACE -fsanitize=${MUSTER_SANITIZE})
endif()
