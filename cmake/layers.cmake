# deepinfer_layer(NAME [DEPENDS layers and libraries...] [EXCLUDE files...]): the static library of one folder of src/.
# Sources are all *.cpp of the folder. Which layer may use which is checked by tests/layering.
function(deepinfer_layer name)
    cmake_parse_arguments(ARG "" "" "DEPENDS;EXCLUDE" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
    foreach(file ${ARG_EXCLUDE})
        list(REMOVE_ITEM sources ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endforeach()
    add_library(deepinfer_${name} STATIC ${sources})
    target_include_directories(deepinfer_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src)
    target_link_libraries(deepinfer_${name} PUBLIC ${ARG_DEPENDS} Threads::Threads)
endfunction()

# deepinfer_rarely_run(TARGETS...): code that takes long to compile and no time to run. Where sanitizers instrument it, the
# optimiser would take three times as long as the rest of the compiler.
function(deepinfer_rarely_run)
    foreach(target ${ARGN})
        if(DEEPINFER_SANITIZE AND TARGET ${target})
            target_compile_options(${target} PRIVATE -O0)
        endif()
    endforeach()
endfunction()

# deepinfer_test(LAYER [DEPENDS ...]): one GoogleTest binary from tests/LAYER/*_test.cpp.
# Tests find their data through the macro DEEPINFER_TEST_DATA, the absolute path of tests/.
function(deepinfer_test name)
    cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
    if(NOT sources)
        return()
    endif()
    add_executable(${name}_test ${sources})
    target_link_libraries(${name}_test PRIVATE deepinfer_${name} ${ARG_DEPENDS} GTest::gtest GTest::gtest_main)
    target_compile_definitions(${name}_test PRIVATE DEEPINFER_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
    add_test(NAME ${name} COMMAND ${name}_test)
    set_tests_properties(${name} PROPERTIES TIMEOUT 600)
endfunction()
