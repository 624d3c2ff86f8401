import { PLAN_VERDICTS } from "../../src/contract/plan-verdicts.ts";
import type { Problem } from "../api-client.ts";
import { Misuse, Refusal } from "../command.ts";
import { OPERATIONS } from "../names.js";
import { oneLine, paint, say, tableLines } from "../terminal.ts";
import type { RetryAnswer } from "./api.ts";
import { type Asked, COMMON, callOf, NO_VERB, type Noun, type Option, type Verb } from "./arguments.ts";
import { COMFORTS } from "./comforts.ts";
import { EXIT_OTHER_STATUS, tail, WAIT, waitFor } from "./follow.ts";
import { idOf, LATEST, type Page, sayFacts, sayPage, timeOf } from "./list.ts";
import type { Field, Operation } from "./operations.ts";
import { problemLines } from "./refusal.ts";
import { sayJson, stepName, tell, typedJson } from "./words.ts";

export type Answer = Readonly<Record<string, unknown>>;

const PLACES: Readonly<Record<Field["type"], string | undefined>> = {
  ...{ text: "TEXT", number: "NUMBER", flag: undefined, time: "TIME", texts: "TEXT,…", numbers: "NUMBER,…", json: "JSON" },
};
const WHOLE = { value: "JSON", says: "the whole body; other options replace its fields; @FILE, -" };

function verbOf(operation: Operation): Verb {
  const { command, fields, does, page, hasBody } = operation;
  const { options, ends } = COMFORTS[command] ?? {};
  return {
    takes: fields.flatMap((field) => (isArgument(field) ? [field.name === "q" ? "TEXT" : field.name.toUpperCase()] : [])).join(" "),
    does,
    ...(latestIn(operation) && { note: "ID may be latest, or latest WORKFLOW." }),
    options: {
      ...Object.fromEntries(fields.filter(isOption).map((field) => [optionOf(field), described(field)])),
      ...(hasBody && !fields.some(({ name }) => name === "body") && { body: WHOLE }),
      ...options,
      ...(page && { all: { says: "read all pages" } }),
      ...(ends && WAIT),
    },
    run: (asked) => run(operation, asked),
  };
}

/** The list that has the item of an operation's `{id}`, if the list has a `latest`. */
function latestIn({ path }: Operation): keyof typeof LATEST | undefined {
  const [, list = ""] = /^\/v1\/([a-z]+)\/\{id\}/.exec(path) ?? [];
  return Object.hasOwn(LATEST, list) ? (list as keyof typeof LATEST) : undefined;
}

/** True for a field without an option name: a path parameter, the text of a search, or the type of a message. */
function isArgument({ name, in: place, needed }: Field): boolean {
  return place === "path" || (needed === true && (place === "query" ? name !== "reason" : name === "type"));
}

/** A body field that has the name of a common option can only be set with `--body`. */
function isOption(field: Field): boolean {
  return !isArgument(field) && !(optionOf(field) in COMMON);
}

function optionOf({ name }: Pick<Field, "name">): string {
  return name.replaceAll("_", "-").replace(/^idempotency-/, "");
}

function described({ type, needed, values: given, says = "" }: Field): Option {
  const values = type === "flag" ? undefined : given;
  const [value, all] = [PLACES[type], values && `One of ${values.join(", ")}.`];
  const text = [needed ? "Required." : "", says, all].filter(Boolean).join(" ");
  return { ...(value !== undefined && { value }), ...(values && { values }), says: text };
}

async function run(operation: Operation, asked: Asked): Promise<number> {
  const { command, method, page, done } = operation;
  const { ends, correct, says, checkedBy, isSafe } = COMFORTS[command] ?? {};
  const { api, isJson } = asked;
  const check = asked.flag("dry-run") ? OPERATIONS.find((one) => one.command === checkedBy) : undefined;
  if (check) return run(check, asked);
  const isAll = page !== undefined && asked.flag("all") === true;
  const { ids, query, body, headers } = await requestOf(operation, asked);
  const isDryRun = body.dry_run === true;
  if (isAll && !query.has("limit")) query.set("limit", String(page));
  await correct?.(body, asked, ids);
  const path = ids.reduce((whole, id) => whole.replace(/\{\w+\}/, () => encodeURIComponent(id)), operation.path);
  const at = () => [path, ...(query.size === 0 ? [] : [query])].join("?");
  const answer =
    (await api.send<Answer | string | undefined>({
      ...{ method, path: at(), isSafe: isSafe === true || method === "GET" || isDryRun || headers !== undefined },
      ...(operation.hasBody && { body }),
      ...(headers && { headers }),
    })) ?? {};
  if (typeof answer === "string") {
    say(answer.trimEnd());
    return 0;
  }
  for (const all = answer as { items: object[]; next_cursor: string | null }; isAll && all.next_cursor !== null; ) {
    query.set("cursor", all.next_cursor);
    const { items, next_cursor } = await api.get<typeof all>(at());
    all.items.push(...items);
    all.next_cursor = next_cursor;
  }
  if (done !== undefined && !isDryRun && !says) tell(`${done}.`);
  const [ended, instance] = [isDryRun ? undefined : ends, String(answer.instance_id ?? ids[0])];
  const waits = ended !== undefined && asked.flag("wait");
  if (isJson && !waits) sayJson(answer);
  if (!isJson) {
    if (typeof answer.refused === "object" && answer.refused !== null)
      throw new Refusal(["It would be refused.", ...problemLines(answer.refused as Problem)].join("\n"));
    if (isDryRun) sayDryRun(answer);
    else if (says) await says(answer as never, asked);
    else if (Array.isArray(answer.items)) sayPage(answer as unknown as Page, operation, COMFORTS[command]);
    else if (!waits) sayFacts(answer);
  }
  if (ended === undefined) return answer.refused || answer.outcome === "reused" ? 1 : 0;
  if (waits) return waitFor(asked, instance, ended);
  const isHeld = HELD_UP.has(answer.instance_status);
  const next = isHeld ? "It does not continue automatically. For the reason and the next command" : "Result";
  if (!isJson) tell(`${next}: ${callOf(`instances ${isHeld ? "show" : "tail"}`, instance)}`);
  return isHeld ? EXIT_OTHER_STATUS : 0;
}

/** The statuses of an instance that has ended without success or waits for an operator. */
const HELD_UP: ReadonlySet<unknown> = new Set(["errored", "terminated", "dead", "skipped", "in_doubt", "paused"]);

/** Errors: a `Misuse` for a missing or wrong value. */
async function requestOf(operation: Operation, asked: Asked) {
  const { fields } = operation;
  const whole = fields.some(({ name }) => name === "body") ? undefined : asked.text("body");
  const body: Record<string, unknown> = whole === undefined ? {} : Object(await typedJson("body", whole));
  const [words, ids, query] = [[...asked.words], [] as string[], new URLSearchParams()];
  let headers: Record<string, string> | undefined;
  for (const field of fields) {
    const { name, in: place, needed } = field;
    const option = optionOf(field);
    const value = isArgument(field) ? words.shift() : await typedValue(field, asked, body);
    if (place === "path") ids.push(await idOf(asked, ids.length === 0 ? latestIn(operation) : undefined, String(value)));
    else if (place === "body") Object.assign(body, value !== undefined && { [name]: value });
    else if (place === "header") headers = value === undefined ? headers : { [name]: quoted(option, String(value)) };
    else if (value !== undefined) query.set(name, await idOf(asked, name === "instance" ? "instances" : undefined, String(value)));
    if (needed && value === undefined && !(place === "body" && name in body))
      throw new Misuse(`--${option} is missing: ${field.says ?? `give ${PLACES[field.type] ?? "it"}.`}`);
  }
  return { ids, query, body, ...(headers && { headers }) };
}

async function typedValue(field: Field, asked: Asked, body: Readonly<Record<string, unknown>>): Promise<unknown> {
  const option = optionOf(field);
  if (field.name === "reason" && field.needed && !("reason" in body)) return reasonOf(asked);
  if (field.type === "flag") return asked.flag(option);
  const typed = option in COMMON ? undefined : asked.text(option);
  if (typed === undefined || field.type === "text") return typed;
  if (field.type === "time") return timeOf(option, typed, field.in === "body" ? 1 : -1);
  if (field.type === "number") return numberOf(option, typed);
  if (field.type === "json" || /^[[@-]/.test(typed)) return typedJson(option, typed);
  const parts = typed.split(",");
  return field.type === "numbers" ? parts.map((part) => numberOf(option, part)) : parts;
}

const IS_PLACE = /^["'“]?(?:…|\.\.\.)["'”]?$/;

/**
 * The value of `--reason`; the engine does not store the reason of a dry run. Errors: a `Misuse` if the reason is missing, or is still the
 * placeholder of a printed command.
 */
function reasonOf({ text, flag }: Asked): string {
  const reason = text("reason")?.trim() || (flag("dry-run") ? "a dry run" : undefined);
  if (reason === undefined) throw new Misuse("--reason is missing: give the reason; the audit keeps it.");
  if (IS_PLACE.test(reason)) throw new Misuse(`--reason ${reason} is a placeholder: give the reason; the audit keeps it.`);
  return reason;
}

function numberOf(option: string, typed: string): number {
  const number = Number(typed);
  if (typed.trim() === "" || !Number.isFinite(number)) throw new Misuse(`--${option} must be a number; got "${typed}".`);
  return number;
}

/** Writes a key as an RFC 8941 string, so that a comma or a quote does not end the key. Errors: a `Misuse` for other characters. */
function quoted(option: string, key: string): string {
  if (!/^[\x20-\x7e]{1,500}$/.test(key)) throw new Misuse(`--${option} is 1 to 500 printable ASCII characters.`);
  return `"${key.replaceAll(/["\\]/g, "\\$&")}"`;
}

type Plan = Extract<RetryAnswer, { effects: unknown }> & { readonly running?: number; readonly waiting?: number };

function sayDryRun(answer: Answer): void {
  say(paint("dim", "Dry run: no change was made."));
  if (!Array.isArray(answer.effects)) return void sayFacts(answer);
  const { refused, consequence, note, effects, running, waiting } = answer as unknown as Plan;
  const why = refused === null ? [] : [`It would be refused now: ${refused}`, "If it were not refused:"];
  for (const sentence of [...why, consequence, note]) if (sentence) say(oneLine(sentence));
  const rows = effects.map((effect) => [stepName(effect), effect.verdict, PLAN_VERDICTS[effect.verdict] ?? ""]);
  // The plan of a pause counts instances, and lists no effects.
  if (running !== undefined) say(`running ${running}, waiting ${waiting}`);
  else if (rows.length === 0) say("No effect is recorded.");
  else for (const line of tableLines(PLAN_COLUMNS, rows)) say(`  ${line}`);
}

const PLAN_COLUMNS = [{ title: "step" }, { title: "would be" }, { title: "" }];

export function nounsOf(operations: readonly Operation[]): Record<string, Noun> {
  const nouns: Record<string, Noun> = {};
  for (const operation of operations) {
    const [noun = "", verb = NO_VERB] = operation.command.split(" ");
    nouns[noun] = { ...nouns[noun], [verb]: verbOf(operation) };
  }
  return nouns;
}

const engine = nounsOf(OPERATIONS);

export const NOUNS: Readonly<Record<string, Noun>> = { ...engine, instances: { ...engine.instances, tail } };
