# Runs inside ctest, once for each upgrade_gate_add: asks the gate binary for the
# gates of the plan as it is now and makes the tests.
#
# Reads ug_name, ug_plan, ug_run, ug_max_age, ug_labels, ug_attachments,
# ug_timeout, ug_resource_groups, ug_processors, ug_capture, ug_cmake, ug_fail,
# ug_project, ug_command and ug_gates.

# ctest has no policies of its own, and without them "x" in if() may be a variable.
cmake_policy(VERSION 3.25)

# The ids of the plan's gates, or why there are none: one of them is empty.
function(_upgrade_gate_list out_ids out_problem)
  set(${out_ids} "" PARENT_SCOPE)
  set(${out_problem} "" PARENT_SCOPE)
  foreach(tool IN ITEMS ug_command ug_gates)
    if("${${tool}}" STREQUAL "" OR NOT EXISTS "${${tool}}" OR IS_DIRECTORY "${${tool}}")
      set(what "command upgrade-gate")
      if(tool STREQUAL "ug_gates")
        set(what "gate binary")
      endif()
      set(${out_problem}
          "the ${what} is not there: \"${${tool}}\"; build it first (a multi-configuration build needs ctest -C)"
          PARENT_SCOPE)
      return()
    endif()
  endforeach()
  execute_process(
    COMMAND "${ug_gates}" --plan "${ug_plan}" --list
    RESULT_VARIABLE result
    OUTPUT_VARIABLE ids
    ERROR_VARIABLE errors
    TIMEOUT 60)
  if(NOT result STREQUAL "0")
    set(${out_problem} "${errors}\n${ug_gates} --plan ${ug_plan} --list ended with ${result}"
        PARENT_SCOPE)
    return()
  endif()
  if(NOT ids MATCHES "^([A-Za-z0-9][A-Za-z0-9._-]*\n)+$")
    set(${out_problem} "${ug_gates} did not print the ids of gates, one a line, but:\n${ids}"
        PARENT_SCOPE)
    return()
  endif()
  string(REGEX REPLACE "\n$" "" ids "${ids}")
  string(REPLACE "\n" ";" ids "${ids}")
  set(unique ${ids})
  list(REMOVE_DUPLICATES unique)
  if(NOT "${unique}" STREQUAL "${ids}")
    set(${out_problem} "${ug_plan}: two gates have one id: ${ids}" PARENT_SCOPE)
    return()
  endif()
  set(${out_ids} "${ids}" PARENT_SCOPE)
endfunction()

# Evidence is sealed, gates are judged and the report written within minutes.
set(_upgrade_gate_short 900)

function(_upgrade_gate_add_tests)
  set(labels "upgrade-gate;${ug_labels}")
  if("${ug_labels}" STREQUAL "")
    set(labels "upgrade-gate")
  endif()
  set(evidence "${ug_name}.evidence")
  set(fixtures "${evidence}")
  set(age "")
  if(NOT "${ug_max_age}" STREQUAL "")
    set(age --max-age "${ug_max_age}")
  endif()

  _upgrade_gate_list(ids problem)
  if(NOT "${problem}" STREQUAL "")
    set(test "${ug_name}.plan")
    add_test("${test}" "${ug_cmake}" "-DMESSAGE=${problem}" "-DRUN=${ug_run}" -P "${ug_fail}")
    set_tests_properties("${test}" PROPERTIES LABELS "${labels}" TIMEOUT 60)
  else()
    if(ug_capture)
      set(test "${ug_name}.capture")
      list(PREPEND fixtures "${test}")
      add_test("${test}" "${ug_command}" capture "${ug_plan}" --run "${ug_run}")
      # One test for all boots of the plan: what it holds of the machine it holds
      # throughout, and nothing else runs beside it.
      set_tests_properties("${test}" PROPERTIES LABELS "${labels}" TIMEOUT "${ug_timeout}"
                           FIXTURES_SETUP "${test}" RUN_SERIAL TRUE)
      if(NOT "${ug_resource_groups}" STREQUAL "")
        set_tests_properties("${test}" PROPERTIES RESOURCE_GROUPS "${ug_resource_groups}")
      endif()
      if(NOT "${ug_processors}" STREQUAL "")
        set_tests_properties("${test}" PROPERTIES PROCESSORS "${ug_processors}")
      endif()
    endif()

    add_test("${evidence}" "${ug_command}" verify "${ug_run}" --plan "${ug_plan}" --begin-report ${age})
    set_tests_properties("${evidence}" PROPERTIES LABELS "${labels}" TIMEOUT ${_upgrade_gate_short}
                         FIXTURES_SETUP "${evidence}")
    if(ug_capture)
      set_tests_properties("${evidence}" PROPERTIES FIXTURES_REQUIRED "${ug_name}.capture")
    endif()

    foreach(id IN LISTS ids)
      set(test "${ug_name}.gate.${id}")
      add_test("${test}" "${ug_gates}" --plan "${ug_plan}" --run "${ug_run}" "--gate=${id}"
               --measurements)
      set_tests_properties("${test}" PROPERTIES LABELS "${labels}" TIMEOUT ${_upgrade_gate_short}
                           FIXTURES_REQUIRED "${evidence}")
    endforeach()
  endif()

  # Also with a broken plan: yesterday's report must not stay.
  if(EXISTS "${ug_command}")
    set(test "${ug_name}.report")
    set(attachments "")
    if(NOT "${ug_attachments}" STREQUAL "")
      set(attachments --attachments "${ug_attachments}" --project "${ug_project}")
    endif()
    add_test("${test}" "${ug_command}" report "${ug_run}" --plan "${ug_plan}" --fragments ${age}
             ${attachments})
    set_tests_properties("${test}" PROPERTIES LABELS "${labels}" TIMEOUT ${_upgrade_gate_short}
                         FIXTURES_CLEANUP "${fixtures}")
  endif()
endfunction()

_upgrade_gate_add_tests()
