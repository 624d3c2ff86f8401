import type { HonoRequest } from "hono";
import type { Token } from "../access/tokens.ts";
import { MillraceError } from "../contract/errors.ts";
import { commandOf, isCloudEventBatch, orThrow, readCloudEvents } from "./cloud-events.ts";
import { problemOf } from "./problem.ts";
import type { Problems } from "./problems.ts";
import { traceOf } from "./trace.ts";

/** Limits of a batch in one request. A batch is limited because D1 commits its messages as one value of at most 2 MB. */
export const BATCH_LIMITS = { most: 100, maxBytes: 1024 * 1024 } as const;

type Said = ReturnType<typeof commandOf>;

interface Reading<Item> {
  json: () => Promise<readonly unknown[]>;
  read: (item: unknown) => Item;
  /** Throws for a message type that the caller may not send. */
  assertMay: (type: string) => void;
}

/** Reads the messages of a batch, from CloudEvents in batched mode or JSON. An invalid message becomes an error at its position. */
export async function readItems<Item extends { type: string }>(
  request: HonoRequest,
  { json, read, assertMay }: Reading<Item>,
): Promise<(Item | Said | MillraceError)[]> {
  const items = isCloudEventBatch(request)
    ? (await readCloudEvents(request, BATCH_LIMITS)).map((event) => () => commandOf(orThrow(event)))
    : (await json()).map((item) => () => read(orThrow(item)));
  return items.map((take) => {
    try {
      const item = take();
      assertMay(item.type);
      return { ...item, exact: true, ...traceOf(request) };
    } catch (error) {
      if (error instanceof MillraceError) return error;
      throw error;
    }
  });
}

/** Sends the valid items of a batch together. Returns one result per item, in order. */
export async function answerEach<Item, Answer>(
  items: readonly (Item | MillraceError)[],
  ask: (read: Item[]) => Promise<(Answer | MillraceError)[]>,
): Promise<(Answer | MillraceError | undefined)[]> {
  const answers = await ask(items.filter((one): one is Item => !(one instanceof MillraceError)));
  return items.map((one) => (one instanceof MillraceError ? one : answers.shift()));
}

/** The response to one item of a batch: the item's result, or the problem. */
export function itemResult<Answer extends object, View>(
  result: Answer | MillraceError | undefined,
  problems: Problems,
  view: (answer: Answer) => View,
) {
  if (result && !(result instanceof MillraceError)) return { status: 202 as const, ...view(result) };
  const problem = problemOf(result, problems);
  return { status: problem.status, problem };
}

/** The tenant and the source of messages that a token sends. */
export function requesterOf({ tenantId, actor }: Pick<Token, "tenantId" | "actor">) {
  return { tenantId, source: `api/${actor}` };
}
