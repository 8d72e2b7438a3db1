#!/usr/bin/env bash
# Runs a test command and fails if fewer tests passed than expected:
#
#   hack/count-tests.sh MINIMUM COMMAND [ARG...]        hack/count-tests.sh 12 cargo test --test it scenarios::
#
# A filter by name that matches nothing makes `cargo test` run no test and succeed. This script prints COMMAND's output. If COMMAND fails, the
# script exits with COMMAND's exit code. Otherwise it adds the numbers of all lines `test result: ok. N passed`, and exits with 1 if the sum is
# less than MINIMUM. The Makefile contains the minimums.
set -uo pipefail

usage="usage: count-tests.sh MINIMUM COMMAND [ARG...]"
minimum=${1:?$usage}
shift
[[ $minimum =~ ^[1-9][0-9]*$ ]] || { echo "count-tests.sh: MINIMUM must be a number above 0, not \"$minimum\"; $usage" >&2; exit 2; }
(($#)) || { echo "count-tests.sh: no command; $usage" >&2; exit 2; }

output=$(mktemp "${TMPDIR:-/tmp}/count-tests.XXXXXX") || exit 2
trap 'rm -f "$output"' EXIT

"$@" | tee "$output"
codes=("${PIPESTATUS[@]}")
((codes[0] == 0)) || exit "${codes[0]}"
((codes[1] == 0)) || exit "${codes[1]}"

# Remove colours, in case the command uses them.
passed=$(sed 's/\x1b\[[0-9;]*m//g' "$output" | awk '/^test result: ok\. [0-9]+ passed/ { sum += $4 } END { print sum + 0 }') || exit 2
if ((passed < minimum)); then
    echo "error: $passed tests passed, at least $minimum were expected: $*" >&2
    echo "  Was a test or module renamed that the filter names? Correct the filter. Were tests removed on purpose? Lower the minimum in the Makefile." >&2
    exit 1
fi
echo "$passed tests passed (at least $minimum were expected)"
