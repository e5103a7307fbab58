# muster_library(name SOURCES ... DEPENDS ...): a static library muster_<name>, alias muster::<name>.
function(muster_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(muster_${name} STATIC ${ARG_SOURCES})
  add_library(muster::${name} ALIAS muster_${name})
  target_include_directories(muster_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(muster_${name} PUBLIC ${ARG_DEPENDS} PRIVATE muster_compiler ${ARG_PRIVATE_DEPENDS})
endfunction()

# muster_program(name SOURCES ... DEPENDS ...): an executable <name>.
function(muster_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} muster_compiler)
endfunction()
