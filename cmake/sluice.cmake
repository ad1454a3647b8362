# What every folder's CMakeLists.txt uses: flags, precompiled headers, and one-line helpers for
# libraries, programs and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Warnings are ours alone: headers of other projects come in as SYSTEM.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # g++ 12's own std::stable_sort calls what its headers deprecate.
  target_compile_options(sluice_warnings INTERFACE -Wno-deprecated-declarations)
endif()
if(SLUICE_WERROR)
  target_compile_options(sluice_warnings INTERFACE -Werror)
endif()

# A compiler cache makes the second clone, and every preset switch, cheap. With precompiled
# headers it must be told to trust the header's macros and times, and the compiler must leave the
# header unexpanded in what the cache hashes.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(SLUICE_CCACHE ccache)
  if(SLUICE_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER
        ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${SLUICE_CCACHE})
    if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      target_compile_options(sluice_warnings INTERFACE -fpch-preprocess)
    else()
      target_compile_options(sluice_warnings INTERFACE "SHELL:-Xclang -fno-pch-timestamp")
    endif()
  endif()
endif()

# Precompiled headers. A unit still includes what it uses: the lists change build time only.
set(SLUICE_STD_HEADERS
    <algorithm> <array> <chrono> <cstddef> <cstdint> <deque> <exception> <functional> <map> <memory>
    <optional> <set> <span> <stdexcept> <string> <string_view> <tuple> <utility> <variant> <vector>
    <fmt/format.h>)
set(SLUICE_CORE_HEADERS
    ${SLUICE_STD_HEADERS}
    <asio/any_io_executor.hpp> <asio/async_result.hpp> <asio/awaitable.hpp>
    <asio/bind_executor.hpp> <asio/co_spawn.hpp> <asio/execution_context.hpp> <asio/post.hpp>
    <asio/strand.hpp> <asio/thread_pool.hpp> <asio/use_awaitable.hpp>)

# sluice_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...] [PRECOMPILE header...]
#                [PRECOMPILE_FROM target])
# makes sluice_NAME and its alias sluice::NAME, with this folder as include root. A library whose
# files are all headers becomes an interface library. PRECOMPILE_FROM reuses another target's
# precompiled header, which works because all targets here share their flags.
function(sluice_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PRECOMPILE_FROM" "SOURCES;PUBLIC;PRIVATE;PRECOMPILE")
  set(target sluice_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC}
                          PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:sluice_warnings>)
    sluice_precompile(${target} "${arg_PRECOMPILE_FROM}" ${arg_PRECOMPILE})
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC})
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>
                             $<INSTALL_INTERFACE:include>)
  target_compile_features(${target} ${scope} cxx_std_20)
  add_library(sluice::${name} ALIAS ${target})

  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  # One export a part: who asks for the core alone needs nothing that the others need.
  install(TARGETS ${target} EXPORT sluice-${name} ARCHIVE DESTINATION lib)
  install(EXPORT sluice-${name} NAMESPACE sluice:: DESTINATION lib/cmake/sluice)
  install(DIRECTORY sluice DESTINATION include FILES_MATCHING PATTERN "*.hpp")
endfunction()

# sluice_program(NAME SOURCES file... [LIBS lib...] [PRECOMPILE header...] [PRECOMPILE_FROM target])
function(sluice_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "PRECOMPILE_FROM" "SOURCES;LIBS;PRECOMPILE")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} sluice_warnings)
  sluice_precompile(${name} "${arg_PRECOMPILE_FROM}" ${arg_PRECOMPILE})
endfunction()

function(sluice_precompile target from)
  if(from)
    target_precompile_headers(${target} REUSE_FROM ${from})
  elseif(ARGN)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Each test case is one ctest case with a time limit. Cases are listed when ctest runs, not while
# building, so a build does not start every test program it links.
# More properties of the test cases can follow.
function(sluice_discover target seconds)
  include(GoogleTest)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${seconds} ${ARGN})
endfunction()

# sluice_precompiled(NAME LIBS lib... HEADERS header...): a precompiled header that others reuse. It
# hangs on an empty unit, because a header can only be reused from a target that compiles something.
function(sluice_precompiled name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "LIBS;HEADERS")
  set(unit "${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp")
  file(CONFIGURE OUTPUT "${unit}" CONTENT "")
  add_library(sluice_${name} OBJECT "${unit}")
  target_link_libraries(sluice_${name} PRIVATE ${arg_LIBS} sluice_warnings)
  target_precompile_headers(sluice_${name} PRIVATE ${arg_HEADERS})
endfunction()
