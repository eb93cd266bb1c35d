# cmake -DOUT=FILE -P assemble.cmake: puts the page of pawl-monitor together. One file with one <style> and one <script>, since the
# Content-Security-Policy names each by its hash. Comments and indentation stay here: they are a fifth of it.
set(scripts text.js dom.js judge.js feed.js table.js chart.js timeline.js tables.js summary.js type.js main.js) # in this order

function(read_without_comments file out)
  file(READ "${CMAKE_CURRENT_LIST_DIR}/${file}" text)
  string(REGEX REPLACE "/\\*([^*]|\\*+[^*/])*\\*+/" "" text "${text}")
  string(REGEX REPLACE "\n[ \n]+" "\n" text "${text}")
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

file(READ "${CMAKE_CURRENT_LIST_DIR}/page.html" page)
read_without_comments(style.css style)
set(script "(() => {\n\"use strict\";\n")
foreach(name IN LISTS scripts)
  read_without_comments(${name} part)
  string(APPEND script "${part}")
endforeach()
string(REPLACE "@STYLE@" "${style}" page "${page}")
string(REPLACE "@SCRIPT@" "${script}})();\n" page "${page}")
file(WRITE "${OUT}" "${page}")
