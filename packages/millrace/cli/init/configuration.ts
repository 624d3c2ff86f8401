import { isDeepStrictEqual } from "node:util";
import { stripComments } from "jsonc-parser";
import { Refusal } from "../command.ts";
import { shown } from "../local/wrangler.ts";
import { type Config, configIn, formatOf } from "../wiring/config.ts";
import { editJsonc } from "./jsonc.ts";
import { editToml } from "./toml.ts";
import { type Change, changed } from "./wanted.ts";

/** Applies changes to a configuration. The result `left` contains the changes that cannot be inserted safely. */
export function edited(file: string, text: string, changes: readonly Change[]): { text: string; left: Change[] } {
  // A .json file without comments stays without comments, because other programs may read it.
  const isStrict = file.endsWith(".json") && stripComments(text) === text;
  let now = text;
  const left: Change[] = [];
  for (const { why, ...change } of changes) {
    const one: Change = isStrict || why === undefined ? change : { ...change, why };
    const next = formatOf(file) === "toml" ? editToml(now, [one]) : editJsonc(now, [one]);
    if (isDeepStrictEqual(plain(safely(file, next)), plain(changed(configIn(file, now), [one])))) now = next;
    else left.push(one);
  }
  return { text: now, left };
}

/** Copies parsed objects to objects without a prototype. */
const plain = (config: Config | undefined): unknown => config && JSON.parse(JSON.stringify(config));

function safely(file: string, text: string): Config | undefined {
  try {
    return configIn(file, text);
  } catch {
    return undefined;
  }
}

export function linesOf(file: string, { path, value, adds }: Change): string {
  const keys = path.slice(0, -1).map((key) => (/^\w+$/.test(key) ? key : JSON.stringify(key)));
  const [key = ""] = path.slice(-1);
  if (formatOf(file) !== "toml")
    return adds
      ? (value as unknown[]).map((one) => `${JSON.stringify(one)},`).join("\n")
      : `${JSON.stringify(key)}: ${JSON.stringify(value)},`;
  const isTable = typeof value === "object" && !Array.isArray(value);
  const isTables = adds && (value as unknown[]).some((one) => typeof one === "object");
  const table = isTable || isTables ? "" : keys.length === 0 ? "" : `[${keys.join(".")}]\n`;
  const text = editToml("", [isTable || isTables ? { path, value, adds: adds ?? false } : { path: [key], value }]).trim();
  return `${table}${text}`;
}

const SECTIONS = [
  ...["compatibility_flags", "limits", "observability", "assets", "triggers", "exports", "durable_objects", "migrations"],
  ...["d1_databases", "r2_buckets", "queues", "vars", "secrets", "workflows", "env"],
];

/** Errors: a `Refusal` for a section that is null, which cannot be extended. */
export function refuseNull(file: string, config: Config): void {
  const environments = Object.entries(config.env ?? {});
  for (const [where, one] of [["", config], ...environments.map(([env, own]) => [`env.${env}.`, own] as const)] as const) {
    const sections = SECTIONS.map((name) => [`${where}${name}`, one?.[name]] as const);
    const inner = sections.flatMap(([name, value]) =>
      typeof value === "object" && value !== null && !Array.isArray(value)
        ? Object.entries(value).map(([key, part]) => [`${name}.${key}`, part] as const)
        : [],
    );
    const [wrong] = [...(one === null ? [[where.slice(0, -1), one] as const] : []), ...sections, ...inner]
      .filter(([name, value]) => value === null && !name.includes("vars."))
      .map(([name]) => name);
    if (wrong !== undefined) throw new Refusal(`${shown(file)}: "${wrong}" is null. Remove it, or give it a value, and run init again.`);
  }
}
