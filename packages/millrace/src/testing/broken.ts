import type { CrashPoint } from "../contract/crash-points.ts";
import type { Ended } from "./ends.ts";
import { isRead, type UpstreamRequest } from "./upstream.ts";

/** A point in a run where a test lets the process die. */
export interface Boundary {
  readonly point: CrashPoint;
  readonly step: string | undefined;
  /** False if only the attempt dies, and is repeated. True if the platform also loses the state of the run, and restarts the run. */
  readonly beginsAnew: boolean;
}

/** The outcome of a run in a crash test. */
export interface CrashRun {
  readonly tenantId: string;
  readonly instanceId: string;
  readonly status: string;
  readonly result: unknown;
  readonly error: Ended["error"];
  /** The reason why the run did not end; empty if the run ended. */
  readonly failure: string;
  readonly crossed: readonly { readonly point: CrashPoint; readonly step: string | undefined }[];
  /** True if the run reached the boundary at which the process had to die. */
  readonly reached: boolean;
  /** The count of the run's committed messages, by type. */
  readonly emitted: Readonly<Record<string, number>>;
  /** The count of instances that the tenant has besides the run's instance, by workflow and status. */
  readonly followers: Readonly<Record<string, number>>;
  readonly requests: readonly UpstreamRequest[];
  readonly compared: unknown;
}

/**
 * The crash points between the claim of an effect and the record of its outcome. If the process dies after the claim and before the record,
 * the outcome of a `once` effect becomes unknown.
 */
const IN_EFFECT = /^W0[136]/;

/** Returns the guarantees that even the run without a fault breaks. */
export function brokenWithoutFault(base: CrashRun): string[] {
  const outside = base.requests.filter(({ by }) => by?.step === undefined);
  const keyed = [...stepsOf(base, "keyed")].filter(([, sent]) => !sent.some(carriesKey));
  return [
    ...targets(outside).map((target) => `${target} was sent outside of a step, and each replay repeats it. Put it into a step.`),
    ...keyed.map(
      ([step]) => `The keyed step "${step}" sends its \`key\` in none of its requests: the upstream cannot recognise a repetition.`,
    ),
  ];
}

/** Returns the guarantees that a run broke, each as a sentence. `base` is the run without a fault. */
export function brokenIn(base: CrashRun, run: CrashRun, { point, step, beginsAnew }: Boundary): string[] {
  if (run.failure) return [run.failure];
  if (!run.reached) {
    return [`The run did not reach this boundary again: the names or the order of its steps depend on time, chance or earlier runs.`];
  }
  const effects = [...brokenEffects(base, run), ...repeatedOutside(base, run)];
  const isOnce = base.requests.some(({ by }) => by?.class === "once" && named(base, by.step ?? "") === step);
  if (run.status === "in_doubt" && IN_EFFECT.test(point) && isOnce && !beginsAnew) return effects;
  const { code = "", message = "", step: failed } = run.error ?? {};
  const why = run.error ? ` (${failed ? `step "${failed}": ` : ""}${code}: ${message})` : "";
  if (run.status !== base.status) return [`The run ended ${run.status}${why}, and without a fault ${base.status}.`, ...effects];
  return [
    ...differs("The result", said(base, base.result), said(run, run.result)),
    ...differs("What `compare` reads", said(base, base.compared), said(run, run.compared)),
    ...differs("The committed messages", said(base, base.emitted), said(run, run.emitted)),
    ...differs("The instances that follow", said(base, base.followers), said(run, run.followers)),
    ...effects,
  ];
}

/** Returns the effects that happened more often or less often than their effect class guarantees. */
function brokenEffects(base: CrashRun, run: CrashRun): string[] {
  const expected = countsOf(base);
  const broken: string[] = [];
  for (const [name, { count, of, keys }] of countsOf(run)) {
    const { step, class: kind, target } = of;
    const promised = expected.get(name)?.count ?? 0;
    if (kind === "keyed" && keys.size > (expected.get(name)?.keys.size ?? 1)) {
      broken.push(`The keyed step "${step}" had ${keys.size} different keys: its key depends on time or chance.`);
    } else if (kind !== "natural" && kind !== "read" && count > promised) {
      const hint = promised === 0 ? "" : (HINTS[kind] ?? "");
      broken.push(
        `The ${kind} step "${step}" had ${count === 1 ? "an effect" : `${count} effects`} at ${target}, and ${promised || "none"} without a fault.${hint}`,
      );
    }
  }
  if (run.status !== "complete") return broken;
  for (const [name, { of }] of expected) {
    if (of.class !== "read" && !countsOf(run).has(name)) broken.push(`The ${of.class} step "${of.step}" had no effect at ${of.target}.`);
  }
  return broken;
}

const HINTS: Readonly<Record<string, string>> = {
  keyed: " Send its `key` with each request.",
  lookup: " Its `lookup` did not find the effect of the first attempt.",
  commit: " The code of a commit may run again: move the request to a separate step.",
};

function repeatedOutside(base: CrashRun, run: CrashRun): string[] {
  const outside = ({ requests }: CrashRun) => requests.filter(({ by }) => by?.step === undefined);
  const [before, now] = [outside(base).length, outside(run).length];
  return now > before ? [`${targets(outside(run)).join(", ")} outside of a step: sent ${now} times, and ${before} without a fault.`] : [];
}

interface Count {
  count: number;
  readonly keys: Set<string>;
  readonly of: { readonly step: string; readonly class: string; readonly target: string };
}

/** Counts the effects of each step at each target. A repeated request of a `keyed` step has no effect if its key is known. */
function countsOf(run: CrashRun): Map<string, Count> {
  const counts = new Map<string, Count>();
  for (const request of run.requests) {
    const { step, class: kind, key, asks } = request.by ?? {};
    if (step === undefined || kind === undefined || asks || isRead(request) || request.was === "refused") continue;
    const of = { step: named(run, step), class: kind, target: named(run, target(request)) };
    const name = JSON.stringify(of);
    const one = counts.get(name) ?? { count: 0, keys: new Set<string>(), of };
    counts.set(name, one);
    const isRepetition = kind === "keyed" && key !== undefined && carriesKey(request) && one.keys.has(key);
    if (request.was !== "known" && !isRepetition) one.count++;
    if (key !== undefined) one.keys.add(key);
  }
  return counts;
}

function stepsOf(run: CrashRun, kind: string): Map<string, UpstreamRequest[]> {
  return Map.groupBy(
    run.requests.filter((one) => one.by?.class === kind && !isRead(one)),
    ({ by }) => named(run, by?.step ?? ""),
  );
}

/** True if a request shows the step's key to the upstream: in a header, the body or the URL. */
function carriesKey({ by, headers, body, url }: UpstreamRequest): boolean {
  return by?.key !== undefined && [...Object.values(headers), body, url].some((text) => text.includes(by.key ?? ""));
}

const target = ({ method, url }: UpstreamRequest): string => `${method} ${url}`;
const targets = (requests: readonly UpstreamRequest[]): string[] => [...new Set(requests.map(target))];

/** Removes from a string all names that belong to a run: its tenant, its id, and the keys of its effects. */
function named({ tenantId, instanceId, requests }: CrashRun, text: string): string {
  const keys = requests.flatMap(({ by }) => (by?.key === undefined ? [] : [[by.key, `<key of ${by.step}>`] as const]));
  return [[tenantId, "<tenant>"] as const, [instanceId, "<instance>"] as const, ...keys].reduce(
    (now, [from, to]) => now.replaceAll(from, to),
    text,
  );
}

const said = (run: CrashRun, value: unknown): string => named(run, JSON.stringify(value) ?? "nothing");

function differs(what: string, before: string, now: string): string[] {
  return before === now ? [] : [`${what} is ${now.slice(0, 300)}, and without a fault ${before.slice(0, 300)}.`];
}
