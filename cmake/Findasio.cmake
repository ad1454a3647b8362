# Finds stand-alone Asio, for which Debian ships no CMake file. Defines asio::asio.
#
# Users get declarations only (ASIO_SEPARATE_COMPILATION); lib/sluice/asio.cpp is the one unit that
# compiles Asio itself.
find_path(asio_INCLUDE_DIR asio.hpp)
mark_as_advanced(asio_INCLUDE_DIR)

if(asio_INCLUDE_DIR)
  file(STRINGS "${asio_INCLUDE_DIR}/asio/version.hpp" _asio_line
       REGEX "^#define ASIO_VERSION [0-9]+")
  string(REGEX MATCH "[0-9]+" _asio_number "${_asio_line}")
  math(EXPR _asio_major "${_asio_number} / 100000")
  math(EXPR _asio_minor "${_asio_number} / 100 % 1000")
  math(EXPR _asio_patch "${_asio_number} % 100")
  set(asio_VERSION "${_asio_major}.${_asio_minor}.${_asio_patch}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(asio REQUIRED_VARS asio_INCLUDE_DIR VERSION_VAR asio_VERSION)

if(asio_FOUND AND NOT TARGET asio::asio)
  find_package(Threads REQUIRED)
  add_library(asio::asio INTERFACE IMPORTED)
  target_include_directories(asio::asio INTERFACE "${asio_INCLUDE_DIR}")
  target_compile_definitions(asio::asio INTERFACE
    ASIO_STANDALONE ASIO_SEPARATE_COMPILATION ASIO_NO_DEPRECATED
    # Asio 1.22 finds out by itself only where a standard header was included before it: files that differ in
    # this would free with one function what another has given.
    ASIO_HAS_STD_ALIGNED_ALLOC=1
    # Asio 1.22 looks for Clang's coroutines only in <experimental/coroutine>.
    $<$<CXX_COMPILER_ID:Clang>:ASIO_HAS_CO_AWAIT=1>
    $<$<CXX_COMPILER_ID:Clang>:ASIO_HAS_STD_COROUTINE=1>)
  target_link_libraries(asio::asio INTERFACE Threads::Threads)
endif()
