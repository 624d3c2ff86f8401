import type { Json } from "../client.ts";
import type { Random } from "./random.ts";

const LONG = "x".repeat(70_000);
const deep = (open: string, close: string, levels: number) => open.repeat(levels) + close.repeat(levels);

/** Texts that have broken other programs: of SQL, markup, shells, paths, formats, and confusable characters. */
export const TEXTS: readonly string[] = [
  ...["", " ", "\t\n\r", "0", "-1", "null", "undefined", "NaN", "true", "[object Object]", "__proto__", "constructor", "toString"],
  ...[
    "' OR '1'='1",
    "'; DROP TABLE millrace_instances; --",
    '" OR ""="',
    "1) UNION SELECT hash FROM millrace_tokens --",
    "%' AND 1=1 --",
    "?1",
    ":name",
    "\\",
  ],
  ...[
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "javascript:alert(1)",
    "{{7*7}}",
    "#{7*7}",
    "<![CDATA[x]]>",
    "&lt;&#0;",
  ],
  ...["../../../../etc/passwd", "..%2f..%2f", "file:///etc/passwd", "//localhost/x", "http://2130706433:1/", "http://[::1]:1/", "a/b//c"],
  ...["$(id)", "`id`", "| cat", "%s%s%n", "%00", "%", "%zz", "+", "a\r\nset-cookie: x=1", "a;b", "a,b", '"quoted"', "=1+1", "@SUM(1)"],
  ...[
    "\u0000",
    "a\u0000b",
    "\u001b[31m",
    "\u0007",
    "\u007f",
    "\u202egnp.exe",
    "\ufeff",
    "\u200b",
    "\ud800",
    "a\udc00",
    "\uffff",
    "\u{10ffff}",
  ],
  ...["ünïcödé", "İıſK", "👩‍👩‍👧‍👦🏳️‍🌈", "e\u0301".repeat(200), "שלום", "ﷺ".repeat(100), "𝕳𝖊𝖑𝖑𝖔", "ß".repeat(501), "\u0130".repeat(130)],
  ...[
    "2026-13-45T99:99:99Z",
    "0000-00-00",
    "+275760-09-13T00:00:00Z",
    "1969-12-31T23:59:59Z",
    "9".repeat(400),
    "1e309",
    "-0",
    "0x10",
    "1_000",
  ],
  ...[
    "f".repeat(32),
    "F".repeat(32),
    `${"f".repeat(32)}-${"0".repeat(16)}`,
    "r2://payloads/other/x",
    "x".repeat(201),
    "x".repeat(501),
    LONG,
  ],
];

/** JSON values of a type that no schema expects. */
const VALUES: readonly unknown[] = [
  ...[null, true, false, 0, -0, -1, 0.1, 1e21, 1e308, -1e308, 2 ** 53, -(2 ** 53), 2 ** 31, 1e-320, [], {}, [[]], [null], [{}], ""],
  ...[{ $ref: "#" }, { toString: 1 }, { length: -1 }, { $gt: "" }, { "": 1 }, { "a.b": { "c[0]": 1 } }],
];

/** Whole bodies that are not JSON, or exceed the limit. */
export const BODIES: readonly string[] = [
  ...[
    "",
    " ",
    "{",
    "}",
    "[",
    "nul",
    "{'a':1}",
    '{"a":1,}',
    '{"a":1}{"b":2}',
    '{"a":1,"a":2}',
    "\ufeff{}",
    "\u0000",
    '"\\ud800"',
    "NaN",
    "1e999",
  ],
  ...["[".repeat(5000), deep("[", "]", 5000), `${'{"a":'.repeat(3000)}1${"}".repeat(3000)}`, `[${"{},".repeat(20_000)}{}]`],
  ...[
    `{"__proto__":{"admin":true}}`,
    `{"constructor":{"prototype":{"x":1}}}`,
    `{"${"k".repeat(5000)}":1}`,
    `{"a":"${"b".repeat(1_100_000)}"}`,
  ],
];

/** A value that a schema allows, as far as the schema is explicit; for a pattern, its example. */
export function sample(schema: Json, resolve: (schema: Json) => Json, random: Random, depth = 0): unknown {
  const one = resolve(schema) ?? {};
  const go = (inner: Json) => sample(inner, resolve, random, depth + 1);
  if (one.example !== undefined) return one.example;
  if (one.examples?.length > 0) return random.pick(one.examples as unknown[]);
  if (one.const !== undefined) return one.const;
  if (one.enum) return random.pick(one.enum as unknown[]);
  const choices = one.anyOf ?? one.oneOf;
  if (choices) return go(random.pick(choices as Json[]));
  if (one.allOf) return Object.assign({}, ...one.allOf.map(go));
  switch ([one.type].flat()[0]) {
    case "object": {
      const names = Object.keys(one.properties ?? {}).filter((name) => one.required?.includes(name) || (depth < 4 && random.chance(0.5)));
      return Object.fromEntries(names.map((name) => [name, go(one.properties[name])]));
    }
    case "array":
      return depth > 5 ? [] : Array.from({ length: Math.max(one.minItems ?? 0, random.below(3)) }, () => go(one.items ?? {}));
    case "integer":
    case "number":
      return Math.max(one.minimum ?? 0, Math.min(one.maximum ?? 100, random.below(20)));
    case "boolean":
      return random.chance(0.5);
    case "null":
      return null;
    case "string":
      return text(one, random);
    default:
      return depth > 3 ? null : { brand: "acme", keyword: `word ${random.below(1000)}` };
  }
}

function text({ format, minLength = 0, maxLength = 60 }: Json, random: Random): string {
  if (format === "date-time") return "2026-10-01T09:30:00.000Z";
  if (format === "date") return "2026-10-01";
  if (format === "uri" || format === "url") return "https://nowhere.invalid/hook";
  const word = random.pick(["acme", "mint", "x1", "order-4711", "publish-article", "research.requested", "because", "0 9 * * *", "UTC"]);
  return word.padEnd(minLength, "x").slice(0, maxLength);
}

/** The value with one place, or the whole, replaced by an invalid part. */
export function spoiled(value: unknown, random: Random): unknown {
  const anything = () => (random.chance(0.6) ? random.pick(TEXTS) : random.pick(VALUES));
  if (typeof value !== "object" || value === null || random.chance(0.1)) return anything();
  const copy = (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
  const names = Object.keys(copy);
  const name = names.length === 0 || random.chance(0.15) ? random.pick(TEXTS) : random.pick(names);
  if (random.chance(0.15) && !Array.isArray(copy)) delete copy[name];
  else copy[name] = random.chance(0.5) ? spoiled(copy[name], random) : anything();
  return copy;
}
