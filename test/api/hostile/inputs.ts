import type { Json } from "../client.ts";
import type { Operation } from "../operations.ts";
import type { Random } from "./random.ts";
import { BODIES, sample, spoiled, TEXTS } from "./values.ts";

/** A request in the form in which it is sent. */
export interface Input {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | undefined;
}

/** The parts of inputs: ids of existing items of the tenant and of another tenant, and tokens. */
export interface World {
  resolve: (schema: Json) => Json;
  ids: readonly string[];
  token: string;
}

const HEADERS: readonly [name: string, values: readonly string[]][] = [
  ["idempotency-key", ["", '"', '"a', "a, b", "k".repeat(501), "k", '"k"', "\u00fc", "\t"]],
  ["traceparent", ["", "00-0-0-0", `00-${"0".repeat(32)}-${"0".repeat(16)}-01`, "ff-x", "00".repeat(5000)]],
  ["tracestate", ["a=b", "=", `${"a=1,".repeat(500)}b=2`]],
  ["accept", ["*/*", "text/html", "application/xml", ";q=", "text/event-stream"]],
  ["accept-encoding", ["gzip", "identity;q=0", "x".repeat(4000)]],
  ["content-encoding", ["gzip", "br", "x"]],
  ["content-length", ["0", "-1", "99999999999"]],
  [
    "content-type",
    ["", "text/plain", "application/json; charset=utf-16", "multipart/form-data", "application/cloudevents+json", 'a/b;c="d'],
  ],
  ["ce-specversion", ["1.0", "0.3", ""]],
  ["ce-id", ["1", "%ff", ""]],
  ["ce-type", ["research.requested", "x"]],
  ["ce-source", ["/shop", " "]],
  ["last-event-id", ["0", "-1", "x", "9".repeat(30)]],
  ["if-none-match", ["*", '"x"', "W/"]],
  ["range", ["bytes=0-0", "bytes=5-1", "x"]],
  ["x-forwarded-for", ["127.0.0.1", "x"]],
  ["x-http-method-override", ["DELETE", "PUT"]],
  ["origin", ["http://localhost", "null"]],
  ["host", ["localhost", "other.invalid"]],
  ["x-tenant", ["other"]],
];

const METHODS = ["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"];

/** A request to an operation with one error, several errors, or none. */
export function inputOf({ method, path, parameters, bodies }: Operation, { resolve, ids, token }: World, random: Random): Input {
  const valueFor = (schema: Json) =>
    random.chance(0.5) ? hostileText(random) : random.chance(0.3) ? random.pick(ids) : String(sample(schema, resolve, random));
  const of = (place: string) => parameters.filter((one) => one.in === place);
  const called = path.replaceAll(/\{(\w+)\}/g, (_, name) => {
    const schema = of("path").find((one) => one.name === name)?.schema ?? {};
    return inUrl(random.chance(0.4) ? random.pick(ids) : valueFor(schema), random) || "x";
  });
  const query = of("query")
    .filter(({ required }) => random.chance(required ? 0.9 : 0.4))
    .map(({ name, schema }) => `${name}=${inUrl(valueFor(schema), random)}`);
  if (random.chance(0.08)) query.push(`${inUrl(random.pick(TEXTS), random)}=${inUrl(random.pick(TEXTS), random)}`);
  if (random.chance(0.05) && query[0]) query.push(query[0]);

  const headers: Record<string, string> = random.chance(0.04) ? {} : { authorization: `Bearer ${token}` };
  for (const { name, schema } of of("header")) if (random.chance(0.3)) headers[name.toLowerCase()] = valueFor(schema);
  const body = bodyOf(bodies, headers, { resolve, random });
  while (random.chance(0.25)) {
    const [name, values] = random.pick(HEADERS);
    headers[name] = random.pick(values);
  }
  if (random.chance(0.03)) headers.authorization = random.pick(["", "Bearer", `bearer ${token}x`, token, "Basic eDp4", "Bearer mr_0_0"]);
  return {
    method: random.chance(0.04) ? random.pick(METHODS) : method,
    path: `${called}${query.length > 0 ? `?${query.join("&")}` : ""}`,
    headers: sendable(headers),
    body,
  };
}

function bodyOf(bodies: Operation["bodies"], headers: Record<string, string>, by: { resolve: World["resolve"]; random: Random }) {
  const { random, resolve } = by;
  const [type, schema] = random.pick([...Object.entries(bodies), ...Object.entries(bodies).slice(0, 1)]) ?? [];
  if (type === undefined) return undefined;
  headers["content-type"] = type;
  if (random.chance(0.12)) return random.pick(BODIES);
  let value = sample(schema, resolve, random);
  for (let places = random.below(3); places > 0; places--) value = spoiled(value, random);
  return typeof value === "string" && !type.includes("json") ? value : JSON.stringify(value);
}

/** Characters with a meaning in SQL, markup, a shell, a URL, or JSON. */
const EVERY_SIGN = `'"<>&;|\`$(){}[]%\\--/*?#:@=+~^,.!_ \t`;

/** A text that has broken other programs, or several such texts in a row. */
function hostileText(random: Random): string {
  if (random.chance(0.25)) return EVERY_SIGN;
  return random.chance(0.4) ? [1, 2, 3].map(() => random.pick(TEXTS)).join("") : random.pick(TEXTS);
}

/** A text for a URL: mostly encoded, sometimes raw. */
function inUrl(text: string, random: Random): string {
  const short = text.slice(0, 3000);
  return random.chance(0.05) ? short.replaceAll(/[\s#?&]/g, "") : encodeURIComponent(short.toWellFormed());
}

/** The headers that a client can send. */
function sendable(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name, value]) => name !== "host" && !/[^\t\x20-\x7e\x80-\xff]/.test(value)));
}
