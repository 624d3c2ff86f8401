import { Refusal } from "../../command.ts";
import { column, paint, say } from "../../terminal.ts";
import type { OperateApi } from "./api.ts";
import { FAILED, LARGE, LOST, SHORT } from "./orders.ts";
import { type Entry, KINDS, type Kind, type Outside } from "./outside.ts";

const SHIPPED: readonly Kind[] = ["reservations", "bookings", "mails"];
/** What was to be done for each order, once. */
const WANTED = new Map<string, readonly Kind[]>([
  ...[...FAILED, LOST, SHORT].map(({ order }): [string, readonly Kind[]] => [order, SHIPPED]),
  [LARGE.order, ["reservations", "releases"]],
]);

/** Holds what those outside have written down, and what the engine says of its instances, against what was to be done. */
export async function showBook(api: OperateApi, outside: Outside): Promise<void> {
  const { book } = outside;
  for (const kind of KINDS) {
    const orders = book.filter((entry) => entry.kind === kind).map(({ order }) => order);
    const most = Math.max(...[...Map.groupBy(orders, (order) => order).values()].map(({ length }) => length));
    const whose = orders.length === 1 ? `of ${orders[0]}` : `of ${new Set(orders).size} orders`;
    say(`  ${paint("cyan", column(kind, 13))}${String(orders.length).padStart(3)}  ${column(whose, 14)} at most ${most} of one order`);
  }
  say(
    `  ${paint("dim", column("refused", 13))}${String(outside.refused.length).padStart(3)}  ${paint("dim", "bookings, each once, before the key was renewed")}`,
  );
  const [instances, doubts, causes] = await Promise.all([api.all(), api.doubts(), api.causes()]);
  const count = (status: string) => instances.filter((one) => one.status === status).length;
  say(
    `  ${count("complete")} instances are complete, ${count("terminated")} terminated; ${doubts.length} doubts, ${causes.length} causes of failures.`,
  );
  const wrong = [
    ...differences(book, outside.refused),
    ...(count("complete") === FAILED.length + 2 && count("terminated") === 1 && instances.length === WANTED.size
      ? []
      : [`Of ${instances.length} instances ${count("complete")} are complete and ${count("terminated")} terminated.`]),
    ...(doubts.length + causes.length === 0 ? [] : [`${doubts.length} doubts and ${causes.length} causes are left.`]),
  ];
  if (wrong.length > 0) throw new Refusal(wrong.slice(0, COMPLAINTS).join(" "));
}

/** As many complaints are said, where something is wrong. */
const COMPLAINTS = 3;

/** How what was done outside differs from what was to be done, each as a sentence. */
export function differences(book: readonly Entry[], refused: readonly string[]): string[] {
  const done = (order: string, kind: Kind) => book.filter((entry) => entry.order === order && entry.kind === kind).length;
  const orders = new Set([...WANTED.keys(), ...book.map(({ order }) => order)]);
  const wrong = [...orders].flatMap((order) =>
    KINDS.map((kind) => ({ order, kind, has: done(order, kind), wants: WANTED.get(order)?.includes(kind) ? 1 : 0 })),
  );
  return [
    ...wrong
      .filter(({ has, wants }) => has !== wants)
      .map(({ order, kind, has, wants }) => `Of ${order} there are ${has} ${kind} instead of ${wants}.`),
    ...(isOnceEach(refused) ? [] : [`The courier refused ${refused.length} bookings instead of one of each of ${FAILED.length} orders.`]),
  ];
}

function isOnceEach(refused: readonly string[]): boolean {
  return refused.length === FAILED.length && FAILED.every(({ order }) => refused.includes(order));
}
