# Fills in where the embedded server is and what is pinned.
#
# cmake -D TEMPLATE=… -D PROFILES=… -D SERVER=… -D OUTPUT=… -P make_embedded_plan.cmake
#
# Files whose content stays are left alone, and with them the evidence's key.
cmake_minimum_required(VERSION 3.25)

cmake_path(GET OUTPUT PARENT_PATH folder)
file(MAKE_DIRECTORY "${folder}/profiles")
file(RELATIVE_PATH SERVER_PATH "${folder}" "${SERVER}")
file(SHA256 "${SERVER}" SERVER_SHA256)
foreach(profile IN ITEMS baseline candidate)
  set(source "${PROFILES}/${profile}.yaml")
  string(TOUPPER "${profile}" name)
  file(SHA256 "${source}" ${name}_PROFILE_SHA256)
  configure_file("${source}" "${folder}/profiles/${profile}.yaml" COPYONLY)
endforeach()
configure_file("${TEMPLATE}" "${OUTPUT}" @ONLY)
