#!/usr/bin/env bash
# Installs what is missing, builds, and shows the pipeline fill: a Llama-type model with seeded weights, split over 4
# virtual devices that are joined by slow links, generates for one sequence and then for enough of them.
# The devices have a given speed, so slow that the figures are those of the model and not of this machine's cores.
set -eu
cd "$(dirname "$0")/.."
. tests/support/prepare.sh
prepare_build
cmake --preset release -DSLUICE_TESTS=OFF -DSLUICE_BENCHMARKS=OFF -B build/demo --log-level=WARNING
cmake --build build/demo -- --quiet
sluice=$PWD/build/demo/sluice
model=$PWD/build/demo/model

unset "${!SLUICE_@}"
export SLUICE_CPU_DEVICES=4 SLUICE_CPU_SPEED=800M SLUICE_LINK_BANDWIDTH=1M SLUICE_LINK_LATENCY=1ms

echo
echo "== A model of 30 million parameters: sluice synth"
[ -f "$model/model.safetensors" ] ||
    "$sluice" synth "$model" --layers 8 --width 512 --feed-forward 1376 --heads 8 --vocabulary 4096 --context 128
"$sluice" inspect "$model" | sed -n '1p;$p'
echo
echo "== 4 devices of 800 million operations a second, links of 1 MB/s and 1 ms: sluice devices"
"$sluice" devices
echo
echo "== One sequence. Its next token is known only when the last one has left the last device:"
echo "   three of four devices wait, always."
"$sluice" run "$model" --devices cpu:0,cpu:1,cpu:2,cpu:3 --ids 1 -n 24 --ignore-eos --stats >build/demo/one.txt
echo
echo "== Eight sequences, in five groups that follow one another round the ring: the pipeline is full."
"$sluice" run "$model" --devices cpu:0,cpu:1,cpu:2,cpu:3 --ids 1 -n 24 --ignore-eos --sequences 8 --stats >build/demo/eight.txt
echo
if [ "$(sort -u build/demo/eight.txt)" = "$(cat build/demo/one.txt)" ]; then
    echo "All eight sequences have the ids of the one, bit for bit: company changes nothing."
else
    echo "The sequences differ: this is a bug." >&2
    exit 1
fi
echo "The same without devices at hand, in virtual time:"
echo "  SLUICE_SIM_TOPOLOGY='{\"devices\":{\"operations_per_s\":8e8},\"links\":{\"bytes_per_s\":1e6,\"latency_ns\":1000000}}' $sluice run $model --devices sim:0,sim:1,sim:2,sim:3 --ids 1 --stats"
echo "What each device holds and does:  $sluice plan $model --devices cpu:0,cpu:1,cpu:2,cpu:3"
