# Shortens the output of go test -v to one line per package, each skip with its reason,
# and the whole output of failed tests.

/^ *=== (RUN|NAME|CONT|PAUSE) / { current = $3; next }
/^ *--- PASS: / { delete said[$3]; next }
/^ *--- SKIP: / { sub(/^ */, ""); print; printf "%s", said[$3]; delete said[$3]; next }
/^ *--- FAIL: / { sub(/^ */, ""); print; printf "%s", said[$3]; delete said[$3]; next }
/no test files/ { next }
/^FAIL\t/ && !crashed && said[current] != "" { printf "in %s\n%s", current, said[current] } # it ended in the middle
/^(ok|FAIL|exit status)[ \t]/ || /^FAIL$/ { current = ""; crashed = 0; if ($0 != "FAIL") print; next }
/^PASS$/ { current = ""; next }
/^(panic: |fatal error: |SIGSEGV|unexpected fault)/ { crashed = 1; if (current != "") printf "in %s\n%s", current, said[current] }
crashed || current == "" { print; next }
{ said[current] = said[current] $0 "\n" }
