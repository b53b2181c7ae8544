# How the project's own libraries and tests are declared: one library a folder,
# explicit sources, headers as a verified header set.

include_guard(GLOBAL)

# Interface targets, linked privately, so that no flag leaks to a consumer.
add_library(upgrade_gate_settings INTERFACE)
target_compile_features(upgrade_gate_settings INTERFACE cxx_std_20)
target_compile_options(
  upgrade_gate_settings
  INTERFACE -Wall
            -Wextra
            -Wpedantic
            -Wshadow
            -Wconversion
            -Wsign-conversion
            -Wold-style-cast
            -Wnon-virtual-dtor
            -Woverloaded-virtual
            -Wimplicit-fallthrough
            # What is installed names no folder of the machine that built it.
            $<$<NOT:$<CONFIG:Debug>>:-ffile-prefix-map=${PROJECT_SOURCE_DIR}/=>)

set(CMAKE_VERIFY_INTERFACE_HEADER_SETS ON)

# Off where a build is to prove that every file includes what it uses; builds that
# prove other things take half as long with it.
# Optimised libraries are left out: GCC 12 warns of the standard library's own code
# where it comes out of a precompiled header.
set(UPGRADE_GATE_PRECOMPILE OFF CACHE STRING "Precompile the large third-party headers: OFF, TESTS or ON")

# What a test does itself need not be fast, and compiles in half the time.
add_library(upgrade_gate_test_settings INTERFACE)
target_link_libraries(upgrade_gate_test_settings INTERFACE upgrade_gate_settings)
target_compile_options(upgrade_gate_test_settings INTERFACE -O0 -g1)

if(UPGRADE_GATE_PRECOMPILE)
  foreach(kind IN ITEMS library test)
    set(holder upgrade_gate_precompiled_${kind})
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${holder}.cc "")
    add_library(${holder} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${holder}.cc)
    target_link_libraries(${holder} PRIVATE upgrade_gate_settings)
  endforeach()
  set_target_properties(upgrade_gate_precompiled_library PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_precompile_headers(upgrade_gate_precompiled_library PRIVATE <nlohmann/json.hpp>)
  target_link_libraries(upgrade_gate_precompiled_test PRIVATE upgrade_gate_test_settings)
  target_compile_definitions(upgrade_gate_precompiled_test PRIVATE GTEST_HAS_PTHREAD=1)
  target_precompile_headers(upgrade_gate_precompiled_test PRIVATE <gmock/gmock.h> <gtest/gtest.h>)
endif()

# What `cmake --install` writes and `find_package(UpgradeGate)` reads. A header
# keeps its path from the project's root below `include`, a source below `source`.
option(UPGRADE_GATE_INSTALL "Install Upgrade Gate" ${PROJECT_IS_TOP_LEVEL})
set(UPGRADE_GATE_INSTALL_INCLUDE ${CMAKE_INSTALL_INCLUDEDIR}/upgrade_gate)
set(UPGRADE_GATE_INSTALL_SOURCE ${CMAKE_INSTALL_DATADIR}/upgrade_gate/source)
set(UPGRADE_GATE_INSTALL_CMAKE ${CMAKE_INSTALL_LIBDIR}/cmake/UpgradeGate)

# Names the folder's target: upgrade_gate_<last part> and UpgradeGate::<last part>;
# a suite has `_suite` after it, since suites/throughput is no gate kind.
function(_upgrade_gate_name out folder)
  cmake_path(GET folder FILENAME name)
  if(folder MATCHES "^suites/")
    string(APPEND name "_suite")
  endif()
  set(${out} ${name} PARENT_SCOPE)
endfunction()

# A header-only library that only sources use is needed to build, and nothing to
# find or link where the installed package is used.
function(_upgrade_gate_link_privately target)
  foreach(dependency IN LISTS ARGN)
    get_target_property(type ${dependency} TYPE)
    get_target_property(libraries ${dependency} INTERFACE_LINK_LIBRARIES)
    if(type STREQUAL "INTERFACE_LIBRARY" AND NOT libraries)
      set(dependency $<BUILD_INTERFACE:${dependency}>)
    endif()
    target_link_libraries(${target} PRIVATE ${dependency})
  endforeach()
endfunction()

# upgrade_gate_library(<folder> SOURCES… [HEADERS…] [PRIVATE_HEADERS…] [DEPENDS…] [PRIVATE_DEPENDS…])
#
# `<folder>` is the path from the project's root (framework/base, fixtures/process).
# The target is upgrade_gate_<last part>, its alias UpgradeGate::<last part>.
function(upgrade_gate_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;PRIVATE_HEADERS;DEPENDS;PRIVATE_DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "upgrade_gate_library(${folder}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  _upgrade_gate_name(name ${folder})
  set(target upgrade_gate_${name})
  add_library(${target} STATIC)
  add_library(UpgradeGate::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_sources(
    ${target}
    PRIVATE ${arg_SOURCES} ${arg_PRIVATE_HEADERS}
    PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_link_libraries(${target} PUBLIC ${arg_DEPENDS} PRIVATE $<BUILD_INTERFACE:upgrade_gate_settings>)
  _upgrade_gate_link_privately(${target} ${arg_PRIVATE_DEPENDS})
  if(UPGRADE_GATE_PRECOMPILE STREQUAL "ON")
    target_precompile_headers(${target} REUSE_FROM upgrade_gate_precompiled_library)
  endif()
endfunction()

# upgrade_gate_source_library(<folder> SOURCES… [HEADERS…] [DEPENDS…])
#
# Ships as sources and is compiled in each program that links it, against the
# user's own GoogleTest: a library built against one GoogleTest fails to link
# with another. The target is named as upgrade_gate_library names it, except that
# suites/<name> becomes UpgradeGate::<name>_suite, which upgrade_gate_add(… SUITES
# <name>) knows. Installed with all its files, private headers among them.
function(upgrade_gate_source_library folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPENDS")
  if(arg_UNPARSED_ARGUMENTS)
    message(
      FATAL_ERROR "upgrade_gate_source_library(${folder}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  _upgrade_gate_name(name ${folder})
  set(target upgrade_gate_${name})
  add_library(${target} INTERFACE)
  add_library(UpgradeGate::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_libraries(${target} INTERFACE ${arg_DEPENDS})
  target_sources(${target} INTERFACE FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  foreach(source IN LISTS arg_SOURCES)
    target_sources(
      ${target}
      INTERFACE $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/${source}>
                $<INSTALL_INTERFACE:${UPGRADE_GATE_INSTALL_SOURCE}/${folder}/${source}>)
  endforeach()
  if(UPGRADE_GATE_INSTALL)
    install(TARGETS ${target} EXPORT UpgradeGateLibraries
            FILE_SET HEADERS DESTINATION ${UPGRADE_GATE_INSTALL_INCLUDE})
    install(FILES ${arg_SOURCES} DESTINATION ${UPGRADE_GATE_INSTALL_SOURCE}/${folder})
  endif()
  if(folder MATCHES "^suites/")
    cmake_path(GET folder FILENAME suite)
    set_property(GLOBAL APPEND PROPERTY UPGRADE_GATE_SUITES ${suite})
  endif()
endfunction()

# upgrade_gate_unit_test(<name> SOURCES… [DEPENDS…] [DEFINITIONS…])
#
# A GoogleTest binary as one CTest test, labelled `unit` unless LABELS says otherwise.
function(upgrade_gate_unit_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "TIMEOUT" "SOURCES;DEPENDS;DEFINITIONS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "upgrade_gate_unit_test(${name}): unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 120)
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_compile_definitions(${name} PRIVATE ${arg_DEFINITIONS})
  target_link_libraries(${name} PRIVATE upgrade_gate_test_settings ${arg_DEPENDS} GTest::gmock
                                        GTest::gtest_main)
  if(UPGRADE_GATE_PRECOMPILE)
    target_precompile_headers(${name} REUSE_FROM upgrade_gate_precompiled_test)
  endif()
  # One CTest test a binary: a binary that was not built is a failing, labelled
  # test, and nothing in the environment selects what runs in it.
  add_test(NAME ${name} COMMAND ${name})
  set_property(
    TEST ${name}
    PROPERTY ENVIRONMENT_MODIFICATION
             GTEST_FILTER=unset:
             TESTBRIDGE_TEST_ONLY=unset:
             GTEST_TOTAL_SHARDS=unset:
             GTEST_SHARD_INDEX=unset:
             GTEST_REPEAT=unset:
             GTEST_FLAGFILE=unset:)
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}" TIMEOUT ${arg_TIMEOUT})
endfunction()
