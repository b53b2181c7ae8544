# upgrade_gate_add: an upgrade plan as CTest tests.
#
#   upgrade_gate_add(
#     NAME <name>                 # [A-Za-z0-9][A-Za-z0-9._-]*, the prefix of every test
#     PLAN <file>                 # relative to the source folder; may be made by the build
#     [RUN <dir>]                 # where the run is put; default <binary dir>/<name>.run
#     [EVIDENCE <dir>]            # judge the run in this folder instead of capturing one
#     [MAX_AGE <duration>]        # refuse older evidence: 90min, 36h, 7d
#     [SOURCES <file>…]           # gates in C++, for the plan's native gates
#     [SUITES <name>…]            # the shipped suites of that name beside them
#     [ATTACHMENTS absolute|relative]  # how the JUnit report names attached files;
#                                 # relative to the source folder, which then holds the run
#     [LABELS <label>…]           # beside the label upgrade-gate
#     [TIMEOUT <seconds>]         # of the capture; default 21600
#     [RESOURCE_GROUPS <group>…]  # of the capture, for all its boots: "gpus:8"
#     [PROCESSORS <n>])           # of the capture
#
# The tests, made when ctest starts, so that an edited plan shows at once:
#   <name>.capture     boots, measures and seals; alone on the machine
#   <name>.evidence    verifies the seal and that it is evidence of this plan
#   <name>.gate.<id>   one a gate
#   <name>.report      always last, also after a failed capture
#   <name>.plan        only where the plan or the gate binary is broken: fails and says why
#
# The command and the gate binary are the targets UpgradeGate::upgrade-gate and
# UpgradeGate::upgrade-gate-gates, or the files that the variables
# UPGRADE_GATE_COMMAND and UPGRADE_GATE_GATES name. With SOURCES or SUITES the
# gate binary is the target <name>-gates, compiled here with the project's own
# flags against the project's own GoogleTest.
#
# Run with `ctest -L '^upgrade-gate$' --no-tests=error`: without the option a
# misspelt label is a success.

include_guard(GLOBAL)

# Sets <out> to `value` as a bracket argument, which no character can end.
function(_upgrade_gate_quote out value)
  set(level "")
  while(TRUE)
    string(FIND "${value}]" "]${level}]" end)
    if(end EQUAL -1)
      break()
    endif()
    string(APPEND level "=")
  endwhile()
  set(${out} "[${level}[${value}]${level}]" PARENT_SCOPE)
endfunction()

# Sets <out> to the file of a tool: the user's variable, or the first target that exists.
function(_upgrade_gate_tool out variable)
  set(${out} "" PARENT_SCOPE)
  if(NOT "${${variable}}" STREQUAL "")
    set(${out} "${${variable}}" PARENT_SCOPE)
    return()
  endif()
  foreach(target IN LISTS ARGN)
    if(TARGET "${target}")
      set(${out} "$<TARGET_FILE:${target}>" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Makes the gate binary `target` of a plan from its own sources and the named suites.
function(_upgrade_gate_binary where target sources suites)
  if(NOT TARGET UpgradeGate::gtest)
    message(FATAL_ERROR "${where}: SOURCES and SUITES are C++: name CXX in project() before UpgradeGate is found")
  endif()
  get_property(known GLOBAL PROPERTY UPGRADE_GATE_SUITES)
  set(libraries UpgradeGate::gtest)
  foreach(suite IN LISTS suites)
    if(NOT suite IN_LIST known)
      list(JOIN known ", " names)
      message(FATAL_ERROR "${where}: no suite is called \"${suite}\"; there are: ${names}")
    endif()
    list(APPEND libraries UpgradeGate::${suite}_suite)
  endforeach()
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE ${libraries})
endfunction()

function(upgrade_gate_add)
  set(options "")
  set(single NAME PLAN RUN EVIDENCE MAX_AGE ATTACHMENTS TIMEOUT PROCESSORS)
  set(multiple SOURCES SUITES LABELS RESOURCE_GROUPS)
  cmake_parse_arguments(PARSE_ARGV 0 arg "${options}" "${single}" "${multiple}")
  set(where "upgrade_gate_add(${arg_NAME})")
  # CMake drops an empty value without a word: of an unset variable, for one.
  set(index 0)
  while(index LESS ARGC)
    if("${ARGV${index}}" STREQUAL "")
      message(FATAL_ERROR "${where}: an argument is empty")
    endif()
    math(EXPR index "${index} + 1")
  endwhile()
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${where}: unknown arguments: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  if(DEFINED arg_KEYWORDS_MISSING_VALUES)
    message(FATAL_ERROR "${where}: without a value: ${arg_KEYWORDS_MISSING_VALUES}")
  endif()
  if(NOT DEFINED arg_NAME OR NOT DEFINED arg_PLAN)
    message(FATAL_ERROR "${where}: NAME and PLAN are required")
  endif()
  if(NOT arg_NAME MATCHES "^[A-Za-z0-9][A-Za-z0-9._-]*$")
    message(FATAL_ERROR "${where}: NAME may hold letters, digits, '.', '_' and '-' only")
  endif()
  if(DEFINED arg_RUN AND DEFINED arg_EVIDENCE)
    message(FATAL_ERROR "${where}: RUN captures a run and EVIDENCE judges one: give one of them")
  endif()
  if(DEFINED arg_EVIDENCE)
    foreach(keyword IN ITEMS TIMEOUT RESOURCE_GROUPS PROCESSORS)
      if(DEFINED arg_${keyword})
        message(FATAL_ERROR "${where}: ${keyword} is for the capture, and with EVIDENCE there is none")
      endif()
    endforeach()
  endif()
  foreach(keyword IN ITEMS TIMEOUT PROCESSORS)
    if(DEFINED arg_${keyword} AND NOT arg_${keyword} MATCHES "^[1-9][0-9]*$")
      message(FATAL_ERROR "${where}: ${keyword} is \"${arg_${keyword}}\", not a whole number above 0")
    endif()
  endforeach()
  if(DEFINED arg_MAX_AGE AND NOT arg_MAX_AGE MATCHES "^[1-9][0-9]*(s|min|h|d)$")
    message(FATAL_ERROR "${where}: MAX_AGE is \"${arg_MAX_AGE}\"; write 90min, 36h or 7d")
  endif()
  if(DEFINED arg_ATTACHMENTS AND NOT arg_ATTACHMENTS MATCHES "^(absolute|relative)$")
    message(FATAL_ERROR "${where}: ATTACHMENTS is \"${arg_ATTACHMENTS}\"; write absolute or relative")
  endif()

  cmake_path(ABSOLUTE_PATH arg_PLAN BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  set(capture TRUE)
  if(DEFINED arg_EVIDENCE)
    set(capture FALSE)
    set(arg_RUN "${arg_EVIDENCE}")
    cmake_path(ABSOLUTE_PATH arg_RUN BASE_DIRECTORY "${CMAKE_CURRENT_SOURCE_DIR}" NORMALIZE)
  else()
    if(NOT DEFINED arg_RUN)
      set(arg_RUN "${arg_NAME}.run")
    endif()
    cmake_path(ABSOLUTE_PATH arg_RUN BASE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}" NORMALIZE)
  endif()
  if(NOT DEFINED arg_TIMEOUT)
    set(arg_TIMEOUT 21600)
  endif()

  # CTest takes two tests of one name, and two captures would share one folder.
  foreach(unique IN ITEMS "NAME:${arg_NAME}" "RUN:${arg_RUN}")
    string(SHA256 key "${unique}")
    get_property(taken GLOBAL PROPERTY _upgrade_gate_${key})
    if(taken)
      message(FATAL_ERROR "${where}: another upgrade_gate_add has the same ${unique}")
    endif()
    set_property(GLOBAL PROPERTY _upgrade_gate_${key} TRUE)
  endforeach()

  _upgrade_gate_tool(command UPGRADE_GATE_COMMAND UpgradeGate::upgrade-gate upgrade-gate)
  if(DEFINED arg_SOURCES OR DEFINED arg_SUITES)
    _upgrade_gate_binary("${where}" "${arg_NAME}-gates" "${arg_SOURCES}" "${arg_SUITES}")
    set(gates "$<TARGET_FILE:${arg_NAME}-gates>")
  else()
    _upgrade_gate_tool(gates UPGRADE_GATE_GATES UpgradeGate::upgrade-gate-gates upgrade-gate-gates)
  endif()

  # Copies, so that a package that moves away leaves tests that fail and say so.
  set(scripts "${CMAKE_BINARY_DIR}/upgrade-gate")
  foreach(script IN ITEMS UpgradeGateAddTests.cmake UpgradeGateFail.cmake)
    configure_file("${CMAKE_CURRENT_FUNCTION_LIST_DIR}/${script}" "${scripts}/${script}" COPYONLY)
  endforeach()

  # The settings are literal; only the two tools are generator expressions.
  set(base "${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME}.upgrade-gate")
  set(settings "")
  foreach(pair IN ITEMS "name:NAME" "plan:PLAN" "run:RUN" "max_age:MAX_AGE" "labels:LABELS"
                        "attachments:ATTACHMENTS" "timeout:TIMEOUT" "resource_groups:RESOURCE_GROUPS" "processors:PROCESSORS")
    string(REPLACE ":" ";" pair "${pair}")
    list(GET pair 0 setting)
    list(GET pair 1 keyword)
    _upgrade_gate_quote(quoted "${arg_${keyword}}")
    string(APPEND settings "set(ug_${setting} ${quoted})\n")
  endforeach()
  _upgrade_gate_quote(cmake "${CMAKE_COMMAND}")
  _upgrade_gate_quote(project "${CMAKE_SOURCE_DIR}")
  _upgrade_gate_quote(script "${scripts}/UpgradeGateAddTests.cmake")
  _upgrade_gate_quote(fail "${scripts}/UpgradeGateFail.cmake")
  string(APPEND settings "set(ug_capture ${capture})\nset(ug_cmake ${cmake})\nset(ug_fail ${fail})\n"
                         "set(ug_project ${project})\ninclude(${script})\n")
  file(WRITE "${base}.tests.cmake" "${settings}")

  get_property(multi_config GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
  set(tools "${base}.tools.cmake")
  set(tools_at_test_time "${tools}")
  if(multi_config)
    set(tools "${base}.tools-$<CONFIG>.cmake")
    set(tools_at_test_time "${base}.tools-\${CTEST_CONFIGURATION_TYPE}.cmake")
  endif()
  file(GENERATE OUTPUT "${tools}"
       CONTENT "set(ug_command [====[${command}]====])\nset(ug_gates [====[${gates}]====])\n")
  _upgrade_gate_quote(tests "${base}.tests.cmake")
  if(multi_config)
    set(include_tools "include(\"${tools_at_test_time}\" OPTIONAL)\n")
  else()
    _upgrade_gate_quote(quoted "${tools}")
    set(include_tools "include(${quoted} OPTIONAL)\n")
  endif()
  # Without the tools' file nothing was generated for this configuration, and the
  # empty names make a failing test.
  file(WRITE "${base}.cmake" "set(ug_command)\nset(ug_gates)\n${include_tools}include(${tests})\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${base}.cmake")
endfunction()
