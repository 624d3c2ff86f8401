import { notRetryable, sql } from "millrace";
import type { StepMode } from "../../../packages/millrace/src/contract/step-names.ts";
import type { LabCall } from "../../probe/lab.ts";
import { ProbeDone, ProbeSignal } from "../../probe/messages.ts";
import { effects } from "../../probe/workflows.ts";
import type { Behaviour } from "../../upstream/server.ts";

/** A timeout that is long enough when all runs call one upstream at the same time on a busy machine. */
const SOON = { retries: { limit: 10, delay: 20, backoff: "constant" }, timeout: 60_000 } as const;

/** A run of a shape, with its name and its step mode. */
export interface Shaped {
  readonly name: string;
  readonly steps: StepMode;
}

/** A shape of workflow code, with the effects and rows that its ended run must have. */
export interface Shape {
  readonly code: (take: Take) => Promise<unknown>;
  /** `once`: effects that happen exactly once. `rows`: rows that are written exactly once. */
  readonly once: readonly string[];
  readonly rows: readonly string[];
  /** Effects that happen at least once, because their class permits a repetition. */
  readonly atLeastOnce?: readonly string[];
  readonly upstream?: readonly Omit<Behaviour, "subject">[];
  readonly on?: string;
  readonly ends?: "errored";
}

/** The steps of a run by short names. */
export type Take = ReturnType<typeof taking>;

/** The steps of a run in its mode. Each effect has a different subject, and each commit a different row. */
export function taking({ step }: LabCall, { name, steps }: Shaped) {
  const subject = (what: string) => ({ subject: `${name}/${what}` });
  const act = (kind: keyof typeof effects) => (what: string) =>
    step.effect(what as "act", { ...effects[kind], ...SOON }, subject(what), { steps });
  return {
    step,
    name,
    keyed: act("keyed"),
    natural: act("natural"),
    once: act("once"),
    lookup: act("lookup"),
    commit: (what: string, more: object = {}) =>
      step.commit(
        what as "commit",
        () => ({
          statements: [sql`INSERT INTO probe_rows (id, kind, name) VALUES (${crypto.randomUUID()}, 'shape', ${`${name}/${what}`})`],
          ...more,
        }),
        { ...SOON, steps },
      ),
    read: (what: string) => step.read(what as "read", async () => what.length, SOON),
    sleep: (what: string, ms = 150) => step.sleep(what as "sleep", ms),
    hear: (what: string, timeout = 600_000) =>
      step.waitFor(what as "hear", ProbeSignal, { subject: `${name}/${what}`, timeout }).then(({ value }) => value),
  };
}

/** Runs a part and compensates its failure with a refund, as workflow code of an app does. */
const orRefund = ({ commit }: Take, part: Promise<unknown>) => part.catch(() => commit("refund"));

export const SHAPES: Readonly<Record<string, Shape>> = {
  "a keyed effect and a commit": { once: ["a"], rows: ["b"], code: async (t) => [await t.keyed("a"), await t.commit("b")] },
  "a once effect": { once: ["a"], rows: ["b"], code: async (t) => [await t.once("a"), await t.commit("b")] },
  "a lookup effect": { once: ["a"], rows: ["b"], code: async (t) => [await t.lookup("a"), await t.commit("b")] },
  "a natural effect": { once: [], atLeastOnce: ["a"], rows: ["b"], code: async (t) => [await t.natural("a"), await t.commit("b")] },
  commits: { once: [], rows: ["a", "b", "c"], code: async (t) => [await t.commit("a"), await t.commit("b"), await t.commit("c")] },
  "a sleep between commits": {
    once: [],
    rows: ["a", "b"],
    code: async (t) => [await t.commit("a"), await t.sleep("s", 700), await t.commit("b")],
  },
  "a wait that ends by its time-out": {
    once: [],
    rows: ["late", "b"],
    code: async (t) => [await t.hear("nobody", 400).catch(() => t.commit("late")), await t.commit("b")],
  },
  "a question that ends by its time-out": {
    once: ["a"],
    rows: ["b"],
    code: async ({ step, keyed, commit }) => {
      const { approved } = await step.approve("may it", { question: "Go on?", timeout: 500, otherwise: "approve" });
      return approved ? [await keyed("a"), await commit("b")] : commit("refused");
    },
  },
  "branches of three classes": {
    once: ["a", "b"],
    rows: ["c"],
    code: (t) => Promise.all([t.keyed("a"), t.lookup("b"), t.commit("c")]),
  },
  "branches of several steps": {
    once: ["a", "b", "c"],
    rows: ["d", "e"],
    code: (t) =>
      Promise.all([
        t
          .once("a")
          .then(() => t.sleep("s1"))
          .then(() => t.commit("d")),
        t
          .keyed("b")
          .then(() => t.read("r"))
          .then(() => t.lookup("c"))
          .then(() => t.commit("e")),
      ]),
  },
  "a race of an effect and a sleep": {
    once: ["a"],
    rows: ["b"],
    code: async (t) => {
      await Promise.race([t.keyed("a"), t.sleep("too long", 60_000)]);
      return t.commit("b");
    },
  },
  "a read that selects a branch": {
    once: ["a"],
    rows: ["b"],
    code: async (t) => ((await t.read("look")) === 4 ? [await t.once("a"), await t.commit("b")] : t.commit("otherwise")),
  },
  "a charge with a refund": {
    once: ["charge"],
    rows: ["ship"],
    code: async (t) => [await orRefund(t, t.keyed("charge")), await orRefund(t, t.sleep("rest")), await orRefund(t, t.commit("ship"))],
  },
  "a charge that is refused, and refunded": {
    once: [],
    rows: ["refund", "told"],
    on: "charge",
    upstream: [{ mode: "refuse", status: 422, times: 100 }],
    code: async (t) => [await orRefund(t, t.keyed("charge")), await t.commit("told")],
  },
  "an upstream that is unavailable for two attempts": {
    once: ["a"],
    rows: ["b"],
    on: "a",
    upstream: [{ mode: "refuse", status: 503, times: 2 }],
    code: async (t) => [await orRefund(t, t.lookup("a")), await t.commit("b")],
  },
  "a slow upstream": {
    once: ["a"],
    rows: ["b"],
    on: "a",
    upstream: [{ mode: "slow", delayMs: 700, times: 1 }],
    code: async (t) => [await orRefund(t, t.once("a")), await t.commit("b")],
  },
  "a commit with an event": {
    once: [],
    rows: ["a", "b"],
    code: async (t) => [await t.commit("a", { emit: [ProbeDone.from({ name: t.name, step: "a" })] }), await t.commit("b")],
  },
  "every class, with sleeps": {
    once: ["a", "b", "c"],
    atLeastOnce: ["d"],
    rows: ["e"],
    code: async (t) => {
      await t.once("a");
      await t.sleep("s1");
      await t.lookup("b");
      await t.sleep("s2");
      await t.keyed("c");
      await t.natural("d");
      return t.commit("e");
    },
  },
  "six effects in a row": {
    once: ["a", "b", "c", "d", "e", "f"],
    rows: [],
    code: async (t) => {
      for (const what of ["a", "c", "e"]) await t.keyed(what).then(() => t.lookup(String.fromCharCode(what.charCodeAt(0) + 1)));
    },
  },
  "a failure that nothing catches": {
    once: ["a"],
    rows: [],
    ends: "errored",
    code: async (t) => {
      await t.keyed("a");
      await t.hear("go");
      await t.step.read("fails", async () => Promise.reject(notRetryable("A real failure.")), SOON);
    },
  },
};
