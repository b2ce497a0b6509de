# shellcheck shell=bash disable=SC2016,SC2154
# Rows about --tree, sourced by scripts/bench: flock(1) stays as a parent too.

measure "flock -n $lock true" "orion-lock run --tree bench true"
row '`orion-lock run --tree NAME true`, LC_ALL=C' 1
