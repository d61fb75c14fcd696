#!/usr/bin/env bash
# No function is longer than 60 lines, no file of the product than 600; examples stay under 120.
. "$(dirname "$0")/lint.sh"
for f in $(files c h | grep -E '^(pipeline|ops|models|cli|include)/'); do
    [ "$(wc -l <"$f")" -le 600 ] || complain "$f: $(wc -l <"$f") lines; split it"
done
for f in $(files c | grep -E '^examples/'); do
    [ "$(wc -l <"$f")" -lt 120 ] || complain "$f: $(wc -l <"$f") lines; an example has less than 120"
done
command -v ctags >/dev/null || skip "no ctags"
long=$(files c | grep -E '^(pipeline|ops|models|cli)/' | ctags -L - --fields=+ne -o - --c-kinds=f --languages=C 2>/dev/null |
    awk -F'\t' '{s=0;e=0;for(i=4;i<=NF;i++){if($i~/^line:/)s=substr($i,6);if($i~/^end:/)e=substr($i,5)}
                 if(e-s+1>60)printf "%s:%d: %s has %d lines\n",$2,s,$1,e-s+1}')
[ -z "$long" ] || complain "$long"
verdict
