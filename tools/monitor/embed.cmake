# cmake -DPAGE=page.html -DOUT=page.c -P embed.cmake: the page as a C array, and its Content-Security-Policy. No other style and no other
# script than those in the file may run, whatever a document of the database holds: the policy has their hashes.

# One <tag>…</tag> each, without attributes. Of what is between them the browser takes the hash, to the byte.
function(hash_of tag out)
  string(FIND "${text}" "<${tag}>" begin)
  string(FIND "${text}" "</${tag}>" end)
  string(FIND "${text}" "<${tag}>" last REVERSE)
  if(begin EQUAL -1 OR end LESS begin OR NOT begin EQUAL last)
    message(FATAL_ERROR "${PAGE}: needs exactly one <${tag}>…</${tag}>, without attributes")
  endif()
  string(LENGTH "<${tag}>" length)
  math(EXPR begin "${begin} + ${length}")
  math(EXPR length "${end} - ${begin}")
  string(SUBSTRING "${text}" ${begin} ${length} inner)
  string(SHA256 hex "${inner}")
  base64("${hex}" encoded)
  set(${out} "'sha256-${encoded}'" PARENT_SCOPE)
endfunction()

# Of 32 bytes: ten groups of three, and two bytes more.
function(base64 hex out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  set(encoded "")
  string(APPEND hex "00")
  foreach(group RANGE 0 60 6)
    string(SUBSTRING "${hex}" ${group} 6 bits)
    foreach(shift 18 12 6 0)
      math(EXPR at "(0x${bits} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${at} 1 letter)
      string(APPEND encoded "${letter}")
    endforeach()
  endforeach()
  string(SUBSTRING "${encoded}" 0 43 encoded)
  set(${out} "${encoded}=" PARENT_SCOPE)
endfunction()

file(READ "${PAGE}" text)
hash_of(style style)
hash_of(script script)
file(READ "${PAGE}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUT}" "/* Made from page.html. */
#include \"tools/monitor/page.h\"

const unsigned char page_html[] = {
${bytes}
};
const size_t page_bytes = sizeof page_html;
const char page_policy[] = \"default-src 'none'; script-src ${script}; style-src ${style}; img-src data:; connect-src 'self'; \"
                           \"base-uri 'none'; form-action 'none'; frame-ancestors 'none'\";
")
