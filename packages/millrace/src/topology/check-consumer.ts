import { assertDeclared, isWhole } from "../contract/declared.ts";
import { laneIn, type QueueDefinition } from "../contract/queue.ts";

/** The options of a consumer. The types are not certain, because the options may come from JavaScript. */
interface Said {
  readonly queue?: QueueDefinition;
  readonly starts?: readonly unknown[] | undefined;
  readonly routes?: readonly unknown[] | undefined;
  readonly batch?: { readonly size: number; readonly waitSeconds: number };
  readonly concurrency?: number;
  readonly sequence?: object | undefined;
}

/** Limits of the platform: https://developers.cloudflare.com/queues/platform/limits/ */
const MAX_BATCH = 100;
const MAX_WAIT_SECONDS = 60;
const MAX_CONCURRENCY = 250;

/** Checks a consumer's options against the platform's limits. The limits of lanes are checked by the catalog. Errors: `config_invalid`. */
export function checkConsumer(said: Said): void {
  const { queue, starts, routes, batch, concurrency, sequence } = said ?? {};
  assertDeclared(typeof queue?.name === "string", "A consumer must have a queue: pass the result of defineQueue({ name }).");
  const whose = `The consumer of "${queue.name}"`;
  assertDeclared(
    Array.isArray(starts ?? routes),
    `${whose} needs a list of workflows in starts, for commands, or a list of on(event, …) in routes, for events.`,
  );
  const isWorkflow = (one: unknown) => {
    const { run, on } = (one ?? {}) as { run?: unknown; on?: { type?: unknown } };
    return typeof run === "function" && typeof on?.type === "string";
  };
  const isRoute = (one: unknown) => typeof (one as { event?: { type?: unknown } } | undefined)?.event?.type === "string";
  const misses = "Check that it is exported, and that no two files import each other.";
  assertDeclared(
    (starts ?? []).every(isWorkflow),
    `${whose} has an entry in starts that is not the result of defineWorkflow(…). ${misses}`,
  );
  assertDeclared((routes ?? []).every(isRoute), `${whose} has an entry in routes that is not the result of on(event, …). ${misses}`);
  if (sequence) {
    const { gap, first = 1 } = sequence as { gap?: unknown; first?: unknown };
    const isRule = ["wait", "retry", "skip"].includes(String(gap)) && (first === 0 || first === 1);
    assertDeclared(
      isRule,
      `${whose} has the invalid sequence ${JSON.stringify(sequence)}: use gap: "wait", "retry" or "skip", and first: 0 or 1.`,
    );
    const isLate = (one: unknown) => (one as { targets?: { isLate?: boolean }[] }).targets?.some((target) => target.isLate) ?? false;
    assertDeclared(
      !(routes ?? []).some(isLate),
      `${whose} has a sequence, so a redelivery would not repeat call(…, { after: "commit" }): remove \`after\`.`,
    );
  }
  if (laneIn(queue.name) !== undefined) return;
  const { size = 1, waitSeconds = 0 } = batch ?? {};
  assertDeclared(isWhole(size, [1, MAX_BATCH]), `${whose} has batch.size ${size}: use 1 to ${MAX_BATCH} messages.`);
  assertDeclared(
    isWhole(waitSeconds, [0, MAX_WAIT_SECONDS]),
    `${whose} has batch.waitSeconds ${waitSeconds}: use 0 to ${MAX_WAIT_SECONDS}.`,
  );
  const isConcurrency = concurrency === undefined || isWhole(concurrency, [1, MAX_CONCURRENCY]);
  assertDeclared(isConcurrency, `${whose} has concurrency ${concurrency}: use 1 to ${MAX_CONCURRENCY} batches at a time.`);
}
