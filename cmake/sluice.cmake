# What every folder's CMakeLists.txt uses: flags, precompiled headers, and one-line helpers for
# libraries, programs and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Warnings are ours alone: headers of other projects come in as SYSTEM.
add_library(sluice_warnings INTERFACE)
target_compile_options(sluice_warnings INTERFACE -Wall -Wextra -Wpedantic -Wshadow)
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

# Headers that most units of the core read. Its users reuse the compiled header, which works
# because all targets here share their flags.
set(SLUICE_PRECOMPILED
    <algorithm> <array> <chrono> <cstddef> <cstdint> <deque> <exception> <functional> <map> <memory>
    <optional> <span> <stdexcept> <string> <string_view> <tuple> <utility> <variant> <vector>
    <asio/any_io_executor.hpp> <asio/async_result.hpp> <asio/awaitable.hpp>
    <asio/bind_executor.hpp> <asio/co_spawn.hpp> <asio/execution_context.hpp> <asio/post.hpp>
    <asio/strand.hpp> <asio/thread_pool.hpp> <asio/use_awaitable.hpp>
    <fmt/format.h>)

# sluice_library(NAME SOURCES file... [PUBLIC lib...] [PRIVATE lib...])
# makes sluice_NAME and its alias sluice::NAME, with this folder as include root. A library whose
# files are all headers becomes an interface library.
function(sluice_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  set(target sluice_${name})
  if(arg_SOURCES)
    add_library(${target} STATIC ${arg_SOURCES})
    set(scope PUBLIC)
    target_link_libraries(${target} PUBLIC ${arg_PUBLIC}
                          PRIVATE ${arg_PRIVATE} $<BUILD_INTERFACE:sluice_warnings>)
  else()
    add_library(${target} INTERFACE)
    set(scope INTERFACE)
    target_link_libraries(${target} INTERFACE ${arg_PUBLIC})
  endif()
  target_include_directories(${target} ${scope} $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}>)
  target_compile_features(${target} ${scope} cxx_std_20)
  add_library(sluice::${name} ALIAS ${target})
endfunction()

# sluice_program(NAME SOURCES file... [LIBS lib...])
function(sluice_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} sluice_warnings)
endfunction()

# Each test case is one ctest case with a time limit. Cases are listed when ctest runs, not while
# building, so a build does not start every test program it links.
function(sluice_discover target seconds)
  include(GoogleTest)
  gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES TIMEOUT ${seconds})
endfunction()
