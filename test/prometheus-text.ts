/** One series of the text that Prometheus reads. */
export interface Read {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-z_][a-z0-9_]*)(?:\{((?:[a-z_][a-z0-9_]*="(?:[^"\\\n]|\\["\\n])*"(?:,|(?=\})))*)\})? (-?[0-9.e+-]+|\+Inf)$/;
const LABEL = /([a-z_][a-z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"/g;
const ENDS = { counter: [""], gauge: [""], histogram: ["_bucket", "_sum", "_count"] } as const;

/**
 * Parses the text format 0.0.4 strictly, and OpenMetrics where the two differ: each family in one block, after its HELP and TYPE; no
 * duplicate series; buckets that grow to +Inf, which is the count. Throws the error, with the line.
 */
export function readMetrics(text: string): Read[] {
  const isOpen = text.endsWith("# EOF\n");
  if (!text.endsWith("\n")) throw new Error("The last line must end with a line break.");
  const found: Read[] = [];
  const families = new Set<string>();
  const seen = new Set<string>();
  let family: { name: string; type: keyof typeof ENDS | undefined } | undefined;
  for (const line of text
    .slice(0, isOpen ? -"# EOF\n".length : -1)
    .split("\n")
    .filter((one, index, all) => one !== "" || index < all.length - 1)) {
    const [, what, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (what === "HELP") {
      if (families.has(name)) throw new Error(`The family occurs twice: ${line}`);
      families.add(name);
      family = { name, type: undefined };
      continue;
    }
    if (what === "TYPE") {
      if (family?.name !== name || !(rest in ENDS)) throw new Error(`The TYPE line has no HELP line before it: ${line}`);
      family.type = rest as keyof typeof ENDS;
      continue;
    }
    const [, series = "", labelText = "", value] = LINE.exec(line) ?? [];
    if (value === undefined || !family?.type) throw new Error(`The line is not a series of a family: ${line}`);
    const ends = family.type === "counter" && isOpen ? ["_total"] : ENDS[family.type];
    if (!ends.some((end) => series === `${family?.name}${end}`))
      throw new Error(`The series does not belong to the family ${family.name}: ${line}`);
    const key = line.slice(0, line.lastIndexOf(" "));
    if (seen.has(key)) throw new Error(`The series occurs twice: ${line}`);
    seen.add(key);
    const labels = Object.fromEntries([...labelText.matchAll(LABEL)].map(([, label = "", text = ""]) => [label, text]));
    found.push({ name: series, labels, value: Number(value) });
  }
  for (const { name, labels, value } of found.filter((one) => one.name.endsWith("_bucket") && one.labels.le === "+Inf")) {
    const { le: _, ...own } = labels;
    const like = (end: string) => found.filter((one) => one.name === name.replace(/_bucket$/, end));
    const buckets = like("_bucket").filter((one) => Object.entries(own).every(([label, text]) => one.labels[label] === text));
    if (buckets.some((one, index) => index > 0 && one.value < (buckets[index - 1]?.value ?? 0))) throw new Error(`${name} shrinks.`);
    const count = like("_count").find((one) => JSON.stringify(one.labels) === JSON.stringify(own));
    if (count?.value !== value) throw new Error(`${name} has a count that differs from its last bucket.`);
  }
  return found;
}
