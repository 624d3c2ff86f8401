#!/usr/bin/env bash
# Package: parse-prometheus-text-format 1.1.1.
# Guess: A histogram or summary with labels is one metric for each set of labels.
# Behaviour: All label sets of a histogram become one metric without labels. Its buckets are those of the last set, and
#   sum and count are missing, as for a summary with labels. Without labels both are present. A counter keeps its labels.
# Output: the lines of expected.txt below. Any other output fails with exit code 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"

cat >expected.txt <<'END'
without labels [{"buckets":{"1":"3","+Inf":"4"},"count":"4","sum":"5"}]
with labels [{"buckets":{"1":"7","+Inf":"9"}}]
summary with labels [{"quantiles":{"0.5":"1"}}]
counter [{"value":"4","labels":{"queue":"a"}},{"value":"9","labels":{"queue":"b"}}]
END

echo '{ "private": true }' >package.json
npm install --silent --no-audit --no-fund parse-prometheus-text-format@1.1.1

cat >run.mjs <<'END'
import parser from "parse-prometheus-text-format";

const parse = parser.default ?? parser;
const read = (type, lines) => JSON.stringify(parse([`# TYPE seconds ${type}`, ...lines, ""].join("\n"))[0].metrics);
const histogram = (label, low, all) => {
  const [own, more] = label ? [`{queue="${label}"}`, `,queue="${label}"`] : ["", ""];
  return [
    `seconds_bucket{le="1"${more}} ${low}`,
    `seconds_bucket{le="+Inf"${more}} ${all}`,
    `seconds_sum${own} 5`,
    `seconds_count${own} ${all}`,
  ];
};
const summary = (label) => [`seconds{quantile="0.5",queue="${label}"} 1`, `seconds_sum{queue="${label}"} 5`, `seconds_count{queue="${label}"} 4`];
console.log("without labels", read("histogram", histogram("", 3, 4)));
console.log("with labels", read("histogram", [...histogram("a", 3, 4), ...histogram("b", 7, 9)]));
console.log("summary with labels", read("summary", [...summary("a"), ...summary("b")]));
console.log("counter", read("counter", ['seconds{queue="a"} 4', 'seconds{queue="b"} 9']));
END

"${NODE:-node}" run.mjs | tee seen.txt
diff expected.txt seen.txt >&2 || {
  echo "The behaviour has changed." >&2
  exit 1
}
