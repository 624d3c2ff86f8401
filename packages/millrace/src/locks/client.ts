import { objectBinding } from "../contract/bindings.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { isTenant } from "../contract/envelope.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { checkedObjectName, isPathStep } from "../contract/object-name.ts";
import type { Statement } from "../contract/sql.ts";
import { characterCount } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import { assertFence, isFenced } from "../store/fences.ts";
import type { Lock, Turn, Wanted } from "./lock.ts";

/** The environment of a Worker with locks: the Durable Object `Lock`, bound as LOCK or only exported. */
export type LockEnv = object & { LOCK?: DurableObjectNamespace<Lock> };

export interface LockOptions {
  /**
   * Time from the last renewal of the lock to its expiry, 1 second to 1 day. The holder renews the lock while `run` is in progress.
   * Default: 30 seconds.
   */
  ttl?: Duration;
  /** Maximum wait for the lock, 0 to 10 minutes. Default: 10 seconds. */
  wait?: Duration;
  /**
   * The tenant of the lock, whose tokens can read and break the lock over HTTP. Locks of different tenants are independent. Default: the
   * lock belongs to the deployment and not to a tenant.
   */
  tenantId?: string;
  /** A label of the holder for display, at most 100 characters. Default: none. */
  holder?: string;
}

/** The argument of the function that runs under the lock. */
export interface Held {
  /** The fencing token. The token is higher than all earlier tokens of this lock, even if the lock's state was deleted in the meantime. */
  readonly token: number;
  /** A signal that aborts when the lock is lost. The reason is the error `lock_lost`. */
  readonly signal: AbortSignal;
  /**
   * A statement that the holder adds to its batch. With this statement, D1 refuses the whole batch if a later holder has already written.
   */
  readonly fence: Statement;
}

const TTL: Duration = "30 seconds";
const WAIT: Duration = "10 seconds";
const BOUNDS_MS = { leastTtl: 1_000, mostTtl: 86_400_000, mostWait: 600_000 };
const NAME_CHARACTERS = 200;
const HOLDER_CHARACTERS = 100;
/**
 * Maximum interval between renewals, in milliseconds. Below this maximum, the interval is a third of the ttl. The maximum exists so that
 * the object soon detects a long hold.
 */
const RENEW_MS = 10_000;
/** Maximum response time after the end of the wait, and maximum time of retries while the object restarts, in milliseconds. */
const ANSWER_MS = 5_000;
/**
 * Maximum delay before a retry, in milliseconds. The delay is far shorter than the time for which a restarted object keeps a caller's
 * position in the queue.
 */
const MOST_PAUSE_MS = 500;

/**
 * Runs a function while no other caller holds the lock with this name. Callers get the lock in the order of their requests. Returns the
 * result of `run`. Errors: `lock_held` if the lock was not free within `wait`, so that `run` was not called; `lock_lost` if the lock was
 * lost before `run` was done, or D1 refused its `fence`; `config_invalid`; errors of `run`.
 */
export async function withLock<T>(env: LockEnv, name: string, options: LockOptions, run: (held: Held) => Promise<T> | T): Promise<T> {
  const wanted = wantedOf(name, options);
  const turn = await acquire(env, wanted);
  if (turn.token === null) throw held(wanted, turn);
  return runHeld(env, wanted, turn.token, run);
}

/** The result of `tryLock`: the output of `run`, or the present holder of the lock. */
export type Tried<T> =
  | { ran: true; result: T }
  /**
   * `leftMs`: the time until the lock expires, if its holder does not renew the lock. `waiting`: the number of callers that were queued
   * before this caller.
   */
  | { ran: false; holder: string; leftMs: number; waiting: number };

/**
 * Runs a function like `withLock`. If the lock is held, this is a result and not an error. The default of `wait` is 0. Use `tryLock` for
 * work that a different caller may already be doing. Errors: the errors of `withLock`, except `lock_held`.
 */
export async function tryLock<T>(env: LockEnv, name: string, options: LockOptions, run: (held: Held) => Promise<T> | T): Promise<Tried<T>> {
  const wanted = wantedOf(name, { ...options, wait: options.wait ?? 0 });
  const turn = await acquire(env, wanted);
  if (turn.token === null) return { ran: false, holder: turn.heldBy, leftMs: turn.leftMs, waiting: turn.before };
  return { ran: true, result: await runHeld(env, wanted, turn.token, run) };
}

async function runHeld<T>(env: LockEnv, wanted: Wanted, token: number, run: (held: Held) => Promise<T> | T): Promise<T> {
  const { name } = wanted;
  const object = () => lockObject(env, wanted);
  const { signal, stop } = keptAlive(object, wanted);
  const giveBack = (): Promise<boolean> => {
    const isInTime = stop();
    const release = () => object().release(wanted.id);
    // If two release calls fail, the lock expires at the end of its ttl.
    return release().catch(() => release().catch(() => isInTime));
  };
  let result: T;
  try {
    result = await run({ token, signal, fence: assertFence(wanted.tenantId, name, token) });
  } catch (error) {
    await giveBack();
    throw isFenced(error) ? lost(name, error) : error;
  }
  const wasHeld = await giveBack();
  signal.throwIfAborted();
  if (!wasHeld) throw lost(name);
  return result;
}

/** The methods of a lock's object that this file calls. The type is written out, because the mapped types of Workers RPC lose the class. */
export type LockObject = {
  acquire(wanted: Wanted): Promise<Turn>;
  renew(id: string, ttlMs: number): Promise<boolean>;
  release(id: string): Promise<boolean>;
} & Pick<DurableObjectStub<Lock>, "look" | "breakNow" | "erase">;

/** The object of a lock. Tenant names have no slash, so no two locks share an object. */
export function lockObject(env: LockEnv, { tenantId, name }: Pick<Wanted, "tenantId" | "name">): LockObject {
  return objectBinding<Lock>(env, "LOCK").getByName(checkedObjectName(`${tenantId}/${name}`, "name"), placed(env)) as unknown as LockObject;
}

/** Waits for the lock. While the lock's object restarts, the call is repeated. The object keeps the caller's position in the queue. */
async function acquire(env: LockEnv, wanted: Wanted): Promise<Turn> {
  // A missing binding is an error of the configuration, not of a restarting object.
  objectBinding(env, "LOCK");
  const object = () => lockObject(env, wanted);
  const giveUpAt = Date.now() + wanted.waitMs;
  for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, MOST_PAUSE_MS)) {
    const waitMs = Math.max(0, giveUpAt - Date.now());
    try {
      return await within(object().acquire({ ...wanted, waitMs }), waitMs + ANSWER_MS);
    } catch (error) {
      if (Date.now() + pauseMs > giveUpAt + ANSWER_MS) {
        await object()
          .release(wanted.id)
          .catch(() => {});
        throw new MillraceError("unavailable", `The lock "${wanted.name}" did not respond. The work was not started: try again.`, {
          cause: error,
        });
      }
      await scheduler.wait(pauseMs);
    }
  }
}

/**
 * Renews a lock until `stop` is called or the lock is lost. The loss of the lock aborts the signal. `stop` returns true if the ttl has not
 * ended yet, according to the holder's clock.
 */
function keptAlive(object: () => LockObject, { id, name, ttlMs }: Wanted): { signal: AbortSignal; stop: () => boolean } {
  const controller = new AbortController();
  const everyMs = Math.min(ttlMs / 3, RENEW_MS);
  let validUntil = Date.now() + ttlMs;
  let timer: ReturnType<typeof setTimeout>;
  let isStopped = false;
  const look = async () => {
    const askedAt = Date.now();
    // Without a response to a renewal, the lock counts as held until its ttl ends.
    const isHeld = await within(object().renew(id, ttlMs), Math.max(1, validUntil - askedAt)).catch(() => undefined);
    if (isStopped) return;
    if (isHeld) validUntil = askedAt + ttlMs;
    if (isHeld === false || Date.now() >= validUntil) controller.abort(lost(name));
    else timer = setTimeout(look, isHeld ? everyMs : everyMs / 4);
  };
  timer = setTimeout(look, everyMs);
  const stop = () => {
    isStopped = true;
    clearTimeout(timer);
    return Date.now() < validUntil;
  };
  return { signal: controller.signal, stop };
}

function wantedOf(name: string, { ttl = TTL, wait = WAIT, tenantId = "", holder = "" }: LockOptions): Wanted {
  const [ttlMs, waitMs] = [durationMs(ttl), durationMs(wait)];
  assertThat(
    isName(name),
    `A lock's name has 1 to ${NAME_CHARACTERS} characters, whole ones, none of them a control character, and is not "." or "..".`,
  );
  assertThat(tenantId === "" || isTenant(tenantId), `"${tenantId.slice(0, 80)}" is not a tenant.`);
  assertThat(ttlMs >= BOUNDS_MS.leastTtl && ttlMs <= BOUNDS_MS.mostTtl, `The lock "${name}" has a ttl of ${ttl}. Set 1 second to 1 day.`);
  assertThat(waitMs <= BOUNDS_MS.mostWait, `The lock "${name}" has a wait of ${wait}. Set at most 10 minutes.`);
  assertThat(
    characterCount(holder) <= HOLDER_CHARACTERS,
    `The holder of the lock "${name}" has more than ${HOLDER_CHARACTERS} characters.`,
  );
  return { id: crypto.randomUUID(), who: holder, ttlMs, waitMs, tenantId, name };
}

function isName(name: string): boolean {
  return name !== "" && characterCount(name) <= NAME_CHARACTERS && name.isWellFormed() && !/\p{Cc}/u.test(name) && !isPathStep(name);
}

function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}

function held({ name, waitMs }: Wanted, { heldBy, sinceMs, leftMs, before }: Exclude<Turn, { token: number }>): MillraceError {
  const by = heldBy === "" ? "" : ` by ${heldBy}`;
  const line = before === 0 ? "" : `, and ${before} waited before this call`;
  const left = `It expires in ${Math.ceil(leftMs / 1000)} s if its holder does not renew it.`;
  const said = `The lock "${name}" is held${by} for ${Math.ceil(sinceMs / 1000)} s${line}. ${left} The work was not started within ${waitMs / 1000} s: try again later.`;
  return new MillraceError("lock_held", said, { delayMs: Math.max(1_000, leftMs) });
}

function lost(name: string, cause?: unknown): MillraceError {
  const why = cause === undefined ? "" : ` (${messageOf(cause)})`;
  return new MillraceError("lock_lost", `The lock "${name}" was lost to another holder, or broken, before the work was done${why}.`, {
    cause,
  });
}
