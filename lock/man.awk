# The man pages of the calls, from pawl/lock.h itself: a comment, and the declarations that follow it up to an empty line.
#
#   awk -v version=0.1.0 -v date=2026-11-22 -v dir=OUT -f man.awk pawl/lock.h
#
# makes DIR/libpawl-lock.3 from the comment at the head and the types, and DIR/CALL.3 for each call.

function escape(text) {
  gsub(/\\/, "\\e", text)
  gsub(/-/, "\\-", text)
  if (text ~ /^[.']/)
    text = "\\&" text
  return text
}

function header(name, what, file) {
  printf ".TH %s 3 %s \"pawl %s\" \"Library calls\"\n.SH NAME\n%s \\- %s\n", toupper(name), date, version, escape(name), escape(what) > file
}

# Paragraphs are parted by empty lines; lines that are indented stay as they are.
function body(text, file,    lines, count, i, literal) {
  count = split(text, lines, "\n")
  for (i = 1; i <= count; i++) {
    indented = lines[i] ~ /^  /
    if (indented && !literal)
      print ".PP\n.nf" > file
    if (!indented && literal)
      print ".fi" > file
    literal = indented
    if (lines[i] == "")
      print ".PP" > file
    else
      print escape(lines[i]) > file
  }
  if (literal)
    print ".fi" > file
}

function first_sentence(text) {
  gsub(/\n/, " ", text)
  sub(/\. .*/, "", text)
  sub(/\.$/, "", text)
  sub(/: .*/, "", text)
  return text
}

function pages(    i, lines, count, name, file) {
  count = split(code, lines, "\n")
  if (code ~ /^(struct|enum|typedef) / && code !~ /^struct [a-z_]*;$/)
    types = types (types == "" ? "" : "\n\n") code
  for (i = 1; i <= count; i++) {
    if (lines[i] !~ /^PAWL_(API|MUST_CHECK) /)
      continue
    name = lines[i]
    sub(/\(.*/, "", name)
    sub(/.*[ *]/, "", name)
    names[++name_count] = name
    file = dir "/" name ".3"
    header(name, first_sentence(comment), file)
    synopsis = code
    gsub(/PAWL_(API|MUST_CHECK) /, "", synopsis)
    print ".SH SYNOPSIS\n.nf\n#include <pawl/lock.h>\n" > file
    body_literal(synopsis, file)
    print ".fi\n.SH DESCRIPTION" > file
    body(comment, file)
    print ".SH SEE ALSO\n.BR libpawl-lock (3)" > file
    close(file)
  }
}

function body_literal(text, file,    lines, count, i) {
  count = split(text, lines, "\n")
  for (i = 1; i <= count; i++)
    print escape(lines[i]) > file
}

function text_of(line) {
  sub(/^\/\*/, "", line)
  sub(/^ \*\/?/, "", line)
  sub(/ *\*\/ *$/, "", line)
  sub(/^ /, "", line)
  return line
}

/^\/\*/ && !inside {
  if (code != "")
    pages()
  inside = 1
  comment = ""
}
inside {
  line = text_of($0)
  comment = comment (comment == "" ? "" : "\n") line
  if ($0 ~ /\*\//) {
    inside = 0
    code = ""
    sub(/^\n+/, "", comment)
    sub(/\n+$/, "", comment)
    if (head == "")
      head = comment
  }
  next
}
/^$/ {
  if (code != "")
    pages()
  code = ""
  next
}
!/^#/ { code = code (code == "" ? "" : "\n") $0 }
END {
  if (code != "")
    pages()
  file = dir "/libpawl-lock.3"
  header("libpawl-lock", "locks for programs on many machines, in MongoDB", file)
  print ".SH SYNOPSIS\n.nf\n#include <pawl/lock.h>\n\ncc \\&... $(pkg\\-config \\-\\-cflags \\-\\-libs pawl\\-lock)\n.fi\n.SH DESCRIPTION" > file
  sub(/^[^\n]*\n+/, "", head)
  body(head, file)
  print ".SH TYPES\n.nf" > file
  body_literal(types, file)
  print ".fi\n.SH CALLS" > file
  for (i = 1; i <= name_count; i++)
    printf ".BR %s (3)%s\n", names[i], i < name_count ? "," : "" > file
}
