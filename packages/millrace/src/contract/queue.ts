import { assertDeclared, isWhole } from "./declared.ts";
import type { Envelope } from "./envelope.ts";
import { MillraceError } from "./errors.ts";
import { digest } from "./ids.ts";
import { beginning } from "./text.ts";

/** A queue, as messages name what they travel on. Who takes them from it, and how, its consumer says. */
export interface QueueDefinition {
  /**
   * `{purpose}[-{tenant}]`: lower case letters, digits and dashes, at most 59. Its dead-letter queue is this name and `-dlq`. That of a lane
   * begins with `lane:`.
   */
  readonly name: string;
  /** The queues that it stands for, where they are several. */
  readonly parts?: QueueParts;
}

/** How one declared queue stands for several of the platform's. */
interface QueueParts {
  /** Queues of tenants of their own, by tenant. */
  readonly own: Readonly<Record<string, string>>;
  /** Queues that everybody else shares, the first of which has the name that was declared. */
  readonly shared: readonly string[];
  readonly by: PartitionBy;
  /** Queues that nothing is sent to any more, and that are still taken from. */
  readonly retired: readonly string[];
}

/** What decides which of several queues a message goes to: whose it is, or also what it is about. */
type PartitionBy = "tenant" | "subject";

export interface QueueOptions {
  readonly name: string;
  /** Queues that messages are spread over: `{name}`, `{name}-2`, and so on; 1 to 100, default 1. */
  readonly partitions?: number;
  /** What they are spread by. Default `tenant`: a tenant's messages share one; `subject`: those about one thing do. */
  readonly by?: PartitionBy;
  /** Tenants with a queue of their own, `{name}-{tenant}`. */
  readonly tenants?: readonly string[];
  /** Queues that this one stood for, until they are empty: nothing is sent to them, and they are taken from. */
  readonly retired?: readonly string[];
}

/** The longest that a queue is asked to hold a message back: 12 hours. */
export const MAX_DELAY_SECONDS = 43_200;

/** The platform's longest name of a queue, less what its dead-letter queue has behind it. */
const MAX_NAME = 63 - "-dlq".length;

/** A Worker binds each, and so does whoever sends. */
const MAX_PARTITIONS = 100;

/**
 * Declares a queue, for the messages that travel on it and for its consumer. With `partitions` or `tenants` it stands for several, alike but
 * for whose messages they carry, and its one consumer takes from all of them. Errors: `config_invalid` for a name that the platform would
 * refuse for it or for its dead-letter queue, and for two of one name.
 */
export function defineQueue(options: QueueOptions): QueueDefinition {
  const { name, partitions = 1, by = "tenant", tenants = [], retired = [] } = options ?? {};
  const most = MAX_PARTITIONS;
  const isSplit = ["tenant", "subject"].includes(by) && Array.isArray(tenants) && Array.isArray(retired);
  assertDeclared(isSplit, `The queue "${name}" is split as none is: say by: "tenant" or "subject", and tenants and retired in lists.`);
  assertDeclared(isWhole(partitions, [1, most]), `The queue "${name}" has partitions: ${partitions}. Say 1 to ${most}.`);
  const shared = Array.from({ length: partitions }, (_, index) => (index === 0 ? name : `${name}-${index + 1}`));
  const own = Object.fromEntries(tenants.map((tenant) => [tenant, `${name}-${tenant}`]));
  const all = [...shared, ...tenants.map((tenant) => `${name}-${tenant}`), ...retired];
  for (const one of [...shared, ...retired]) assertQueueName(one);
  const unnamed = tenants.find((tenant) => !isPlainName(`${name}-${tenant}`));
  assertDeclared(
    unnamed === undefined,
    `The tenant "${unnamed}" can have no queue of its own: "${name}-${unnamed}" is not a queue name. Only ids of lower case letters, digits and single dashes within make one, of at most ${MAX_NAME} characters: leave it among those that share.`,
  );
  const named = all.flatMap((one) => [one, `${one}-dlq`]);
  const twice = named.find((one, index) => named.indexOf(one) !== index);
  assertDeclared(twice === undefined, `The queue "${name}" stands for two queues "${twice}": call one otherwise.`);
  return all.length === 1 ? { name } : { name, parts: { own, shared, by, retired } };
}

/** Whether messages can travel on a queue of this name, which may be a lane's. */
export function isQueueName(name: unknown): boolean {
  return isPlainName(name) || (typeof name === "string" && name.startsWith(LANE) && isLaneName(name.slice(LANE.length)));
}

function isPlainName(name: unknown): boolean {
  return typeof name === "string" && name.length <= MAX_NAME && /^[a-z0-9]+(-[a-z0-9]+)*$/.test(name);
}

function isLaneName(name: unknown): boolean {
  return typeof name === "string" && /^[a-z][a-z0-9-]{0,62}$/.test(name);
}

function assertQueueName(name: string): void {
  assertDeclared(
    isPlainName(name),
    `"${beginning(String(name), MAX_NAME)}" is not a queue name: use lower case letters, digits and single dashes, at most ${MAX_NAME} of them.`,
  );
}

/** The names of all queues that a declared one stands for; its own is the first. */
export function queuesOf({ name, parts }: QueueDefinition): string[] {
  return parts ? [...parts.shared, ...Object.values(parts.own), ...parts.retired] : [name];
}

/** The name of the queue that a message goes to: always the same for the same tenant and subject. */
export function queueFor({ name, parts }: QueueDefinition, { tenant_id, subject }: Pick<Envelope, "tenant_id" | "subject">): string {
  if (!parts) return name;
  if (Object.hasOwn(parts.own, tenant_id)) return parts.own[tenant_id] ?? name;
  const hash = digest("partition", tenant_id, ...(parts.by === "subject" ? [subject] : []));
  return parts.shared[Number.parseInt(hash.slice(0, 8), 16) % parts.shared.length] ?? name;
}

/** Most messages a second that are asked for by a rate; more is as good as no rate. */
export const MAX_RATE_PER_SECOND = 1000;

/**
 * Seconds by which the nth of several messages, from 0, is held back so that so many go a second: whole seconds, as queues count. Errors:
 * `invalid_payload` for one that would wait longer than a queue holds it.
 */
export function staggered(index: number, ratePerSecond: number | undefined): number {
  const seconds = ratePerSecond === undefined ? 0 : Math.floor(index / ratePerSecond);
  if (seconds <= MAX_DELAY_SECONDS) return seconds;
  const message = `is so low that message ${index + 1} would wait longer than 12 hours`;
  throw new MillraceError("invalid_payload", `The rate per second ${message}.`, { issues: [{ path: "rate_per_second", message }] });
}

const LANE = "lane:";

/**
 * Declares a queue that keeps order: its messages are taken one after another for each subject, and subjects go side by side. Errors:
 * `config_invalid` for a name that is not lower case letters, digits and dashes, at most 63, beginning with a letter.
 */
export function defineLaneQueue(options: Pick<QueueDefinition, "name">): QueueDefinition {
  const { name } = options ?? {};
  assertDeclared(isLaneName(name), `"${name}" is not a lane's name: use lower case letters, digits and dashes.`);
  return { name: LANE + name };
}

/** The lane that a queue's name stands for; undefined for a queue of the platform's. */
export function laneIn(queue: string | null): string | undefined {
  return queue?.startsWith(LANE) ? queue.slice(LANE.length) : undefined;
}
