import { assertDeclared, isWhole } from "./declared.ts";
import type { Envelope } from "./envelope.ts";
import { MillraceError } from "./errors.ts";
import { digest } from "./ids.ts";
import { beginning } from "./text.ts";

/** A queue to which messages refer. The consumer of a queue is declared separately. */
export interface QueueDefinition {
  /**
   * `{purpose}[-{tenant}]`: lower case letters, digits and dashes, at most 59 characters. The dead-letter queue of a queue has the
   * suffix `-dlq`. A lane's name starts with `lane:`.
   */
  readonly name: string;
  /** The platform queues over which this definition distributes its messages. Undefined for a single queue. */
  readonly parts?: QueueParts;
}

/** The platform queues of one declared queue. */
interface QueueParts {
  /** Queues of single tenants, by tenant. */
  readonly own: Readonly<Record<string, string>>;
  /** Queues shared by all other tenants; the first queue has the declared name. */
  readonly shared: readonly string[];
  readonly by: PartitionBy;
  /** Queues that receive no new messages and are still consumed. */
  readonly retired: readonly string[];
}

/** The distribution of messages over queues: by tenant, or by tenant and subject. */
type PartitionBy = "tenant" | "subject";

export interface QueueOptions {
  readonly name: string;
  /** Number of queues that share the messages: `{name}`, `{name}-2`, and so on; 1 to 100, default 1. */
  readonly partitions?: number;
  /**
   * `tenant` (default): all messages of a tenant use the same queue. `subject`: all messages of a tenant and subject use the same queue.
   */
  readonly by?: PartitionBy;
  /** Tenants with their own queue, `{name}-{tenant}`. */
  readonly tenants?: readonly string[];
  /** Former queues of this definition that may still contain messages. Former queues receive no new messages and are still consumed. */
  readonly retired?: readonly string[];
}

/** The platform's maximum delivery delay: 12 hours. */
export const MAX_DELAY_SECONDS = 43_200;
/**
 * The maximum delay of an accepted command: 365 days. The engine sends no message for a command that is due after `MAX_DELAY_SECONDS`. The
 * keeper starts the command when it is due.
 */
export const MAX_DUE_SECONDS = 31_536_000;

/** The platform's maximum length of a queue name, less the suffix of its dead-letter queue. */
const MAX_NAME = 63 - "-dlq".length;

/** Maximum number of partitions. Each partition needs a binding in every Worker that sends or consumes. */
const MAX_PARTITIONS = 100;

/**
 * Declares a queue, for its messages and its consumer. With `partitions` or `tenants` the messages are distributed over several queues, and
 * the queue's only consumer consumes all these queues. Errors: `config_invalid` for a name that the platform would refuse for the queue or
 * its dead-letter queue, and for a repeated name.
 */
export function defineQueue(options: QueueOptions): QueueDefinition {
  const { name, partitions = 1, by = "tenant", tenants = [], retired = [] } = options ?? {};
  const most = MAX_PARTITIONS;
  const isSplit = ["tenant", "subject"].includes(by) && Array.isArray(tenants) && Array.isArray(retired);
  assertDeclared(
    isSplit,
    `The queue "${name}" has invalid options: by must be "tenant" or "subject", and tenants and retired must be lists.`,
  );
  assertDeclared(isWhole(partitions, [1, most]), `The queue "${name}" has partitions: ${partitions}. Use 1 to ${most}.`);
  const shared = Array.from({ length: partitions }, (_, index) => (index === 0 ? name : `${name}-${index + 1}`));
  const own = Object.fromEntries(tenants.map((tenant) => [tenant, `${name}-${tenant}`]));
  const all = [...shared, ...tenants.map((tenant) => `${name}-${tenant}`), ...retired];
  for (const one of [...shared, ...retired]) assertQueueName(one);
  const unnamed = tenants.find((tenant) => !isPlainName(`${name}-${tenant}`));
  assertDeclared(
    unnamed === undefined,
    `The tenant "${unnamed}" cannot have its own queue, because "${name}-${unnamed}" is not a queue name. A queue name has lower case letters, digits and single dashes, at most ${MAX_NAME} characters: remove the tenant from tenants, so that it shares a queue.`,
  );
  const named = all.flatMap((one) => [one, `${one}-dlq`]);
  const twice = named.find((one, index) => named.indexOf(one) !== index);
  assertDeclared(twice === undefined, `The queue "${name}" contains two queues named "${twice}": rename one.`);
  return all.length === 1 ? { name } : { name, parts: { own, shared, by, retired } };
}

/** True for a valid name of a queue or lane. */
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
    `"${beginning(String(name), MAX_NAME)}" is not a queue name: use lower case letters, digits and single dashes, at most ${MAX_NAME} characters.`,
  );
}

/** The names of all platform queues of a queue definition; the definition's own name is the first name. */
export function queuesOf({ name, parts }: QueueDefinition): string[] {
  return parts ? [...parts.shared, ...Object.values(parts.own), ...parts.retired] : [name];
}

/** The platform queue for a message: always the same for the same tenant and subject. */
export function queueFor({ name, parts }: QueueDefinition, { tenant_id, subject }: Pick<Envelope, "tenant_id" | "subject">): string {
  if (!parts) return name;
  if (Object.hasOwn(parts.own, tenant_id)) return parts.own[tenant_id] ?? name;
  const hash = digest("partition", tenant_id, ...(parts.by === "subject" ? [subject] : []));
  return parts.shared[Number.parseInt(hash.slice(0, 8), 16) % parts.shared.length] ?? name;
}

/** Maximum rate of messages per second; a higher rate has no effect. */
export const MAX_RATE_PER_SECOND = 1000;

/**
 * The delivery delay of the nth of several messages at a given rate, in whole seconds, as queues require. `index` starts at 0. Errors:
 * `invalid_payload` for a delay above the queue's maximum.
 */
export function staggered(index: number, ratePerSecond: number | undefined): number {
  const seconds = ratePerSecond === undefined ? 0 : Math.floor(index / ratePerSecond);
  if (seconds <= MAX_DELAY_SECONDS) return seconds;
  const message = `is so low that message ${index + 1} would wait longer than 12 hours`;
  throw new MillraceError("invalid_payload", `The rate per second ${message}.`, { issues: [{ path: "rate_per_second", message }] });
}

const LANE = "lane:";

/**
 * Declares a lane, which is an ordered queue. Messages of one subject are processed in order, and different subjects are processed in
 * parallel. Errors: `config_invalid` for a name that does not consist of at most 63 lower case letters, digits and dashes, starting with a
 * letter.
 */
export function defineLaneQueue(options: Pick<QueueDefinition, "name">): QueueDefinition {
  const { name } = options ?? {};
  assertDeclared(isLaneName(name), `"${name}" is not a lane's name: use lower case letters, digits and dashes.`);
  return { name: LANE + name };
}

/** The lane's name in the name of a queue; undefined for a platform queue. */
export function laneIn(queue: string | null): string | undefined {
  return queue?.startsWith(LANE) ? queue.slice(LANE.length) : undefined;
}
