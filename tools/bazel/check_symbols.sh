#!/usr/bin/env bash
# Usage: check_symbols.sh PROGRAM (has|lacks) REGEX [(has|lacks) REGEX ...]
# Looks for regular expressions among the demangled names of everything that PROGRAM defines. Fails, and shows them, where one is there that must not be, or the
# other way round.
set -euo pipefail
program=$1
shift
names=$(nm -C --defined-only "$program")
[[ -n $names ]] || { echo "$program has no symbols" >&2; exit 1; }
echo "$program: $(($(stat -Lc %s "$program") / 1024)) kB with symbols, $(wc -l <<< "$names") names"
status=0
while (($# >= 2)); do
  found=$(grep -E -- "$2" <<< "$names" || true)
  case $1 in
    has) [[ -n $found ]] || { echo "nothing matches $2" >&2; status=1; } ;;
    lacks) [[ -z $found ]] || { printf 'should not be linked (%s):\n%s\n' "$2" "$(head -20 <<< "$found")" >&2; status=1; } ;;
    *) echo "has or lacks, not $1" >&2; exit 2 ;;
  esac
  shift 2
done
(($# == 0)) || { echo "a regular expression is missing" >&2; exit 2; }
exit "$status"
