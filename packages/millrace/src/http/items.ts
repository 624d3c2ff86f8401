import type { HonoRequest } from "hono";
import type { Token } from "../access/tokens.ts";
import { MillraceError } from "../contract/errors.ts";
import { commandOf, isCloudEventBatch, orThrow, readCloudEvents } from "./cloud-events.ts";
import { problemOf } from "./problem.ts";
import type { Problems } from "./problems.ts";
import { traceOf } from "./trace.ts";

/** Messages in one request, at most, and their bytes together: they are committed as one value, and D1 takes values of 2 MB. */
export const BATCH_LIMITS = { most: 100, maxBytes: 1024 * 1024 } as const;

/** A message as CloudEvents and JSON both say it. */
type Said = ReturnType<typeof commandOf>;

/** How the items of a JSON body are found and read. */
interface Reading<Item> {
  json: () => Promise<readonly unknown[]>;
  read: (item: unknown) => Item;
  /** Throws for a type that the caller may not send. */
  assertMay: (type: string) => void;
}

/** The messages of a request that sends many, as CloudEvents in batched mode or as JSON: each is read or refused by itself. */
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

/** Asks for those items that could be read, together. One answer per item, in order. */
export async function answerEach<Item, Answer>(
  items: readonly (Item | MillraceError)[],
  ask: (read: Item[]) => Promise<(Answer | MillraceError)[]>,
): Promise<(Answer | MillraceError | undefined)[]> {
  const answers = await ask(items.filter((one): one is Item => !(one instanceof MillraceError)));
  return items.map((one) => (one instanceof MillraceError ? one : answers.shift()));
}

/** The answer to one item: what came of it, or why it was refused. */
export function itemResult<Answer extends object, View>(
  result: Answer | MillraceError | undefined,
  problems: Problems,
  view: (answer: Answer) => View,
) {
  if (result && !(result instanceof MillraceError)) return { status: 202 as const, ...view(result) };
  const problem = problemOf(result, problems);
  return { status: problem.status, problem };
}

/** Whose word a message is that comes with a token. */
export function requesterOf({ tenantId, actor }: Pick<Token, "tenantId" | "actor">) {
  return { tenantId, source: `api/${actor}` };
}
