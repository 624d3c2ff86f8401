import { objectBinding } from "../contract/bindings.ts";
import { type Duration, durationMs } from "../contract/duration.ts";
import { MillraceError, messageOf } from "../contract/errors.ts";
import { placed } from "../contract/location.ts";
import { checkedObjectName, isPathStep } from "../contract/object-name.ts";
import type { Statement } from "../contract/sql.ts";
import { isTenant } from "../contract/tenant.ts";
import { characterCount } from "../contract/text.ts";
import { within } from "../contract/within.ts";
import { assertFence, isFenced } from "../store/fences.ts";
import type { Lock, Turn, Wanted } from "./lock.ts";

/** The Worker of a lock has the Durable Object `Lock`, bound as LOCK or only exported. */
export type LockEnv = object & { LOCK?: DurableObjectNamespace<Lock> };

export interface LockOptions {
  /** How long the lock outlives its holder, who renews it while alive; 1 second to 1 day. Default: 30 seconds. */
  ttl?: Duration;
  /** The longest wait for one's turn; 0 to 10 minutes. Default: 10 seconds. */
  wait?: Duration;
  /** Whose lock it is: its tokens may see and break it over HTTP. Locks of two tenants never meet. Default: the deployment's own. */
  tenantId?: string;
  /** What people read of the holder, at most 100 characters. Default: nothing. */
  holder?: string;
}

/** What a holder is given. */
export interface Held {
  /** The fencing token: higher than any that was given for this lock before, whatever was forgotten. */
  readonly token: number;
  /** Aborts when the lock is lost: its reason is the error `lock_lost`. */
  readonly signal: AbortSignal;
  /** A statement for the batch that the holder writes: D1 refuses the whole batch where a later holder has written. */
  readonly fence: Statement;
}

const TTL: Duration = "30 seconds";
const WAIT: Duration = "10 seconds";
const BOUNDS_MS = { leastTtl: 1_000, mostTtl: 86_400_000, mostWait: 600_000 };
const NAME_CHARACTERS = 200;
const HOLDER_CHARACTERS = 100;
/** A holder renews at a third of its time, and at least so often, in milliseconds: so the lock knows soon that it is held for long. */
const RENEW_MS = 10_000;
/** How long an answer may take beside the wait, and for how long an object that restarts is asked again, in milliseconds. */
const ANSWER_MS = 5_000;
/** The longest pause before it is asked again, in milliseconds: far shorter than a place in the line is kept after a restart. */
const MOST_PAUSE_MS = 500;

/**
 * Runs something while nobody else holds the lock of this name, in the order of asking. Answers what `run` answers. Errors: `lock_held`
 * when it was not one's turn within `wait`, and nothing was run; `lock_lost` when the lock was lost before `run` was done, or D1 refused its
 * `fence`; `config_invalid`; what `run` throws.
 */
export async function withLock<T>(env: LockEnv, name: string, options: LockOptions, run: (held: Held) => Promise<T> | T): Promise<T> {
  const wanted = wantedOf(name, options);
  objectBinding(env, "LOCK");
  const object = () => lockObject(env, wanted);
  const token = await acquire(object, wanted);
  const { signal, stop } = keptAlive(object, wanted);
  const giveBack = (): Promise<boolean> => {
    const isInTime = stop();
    const release = () => object().release(wanted.id);
    // An object that cannot be reached twice learns by the clock, as its holder does.
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

/** What is called of a lock. RPC's mapped types lose the class. */
export type LockObject = {
  acquire(wanted: Wanted): Promise<Turn>;
  renew(id: string, ttlMs: number): Promise<boolean>;
  release(id: string): Promise<boolean>;
} & Pick<DurableObjectStub<Lock>, "look" | "breakNow" | "erase">;

/** The object of a lock: tenants have no slash, so no two of them share one. */
export function lockObject(env: LockEnv, { tenantId, name }: Pick<Wanted, "tenantId" | "name">): LockObject {
  return objectBinding<Lock>(env, "LOCK").getByName(checkedObjectName(`${tenantId}/${name}`, "name"), placed(env)) as unknown as LockObject;
}

/** Waits for one's turn. An object that restarts is asked again, and has kept the place. */
async function acquire(object: () => LockObject, wanted: Wanted): Promise<number> {
  const giveUpAt = Date.now() + wanted.waitMs;
  for (let pauseMs = 50; ; pauseMs = Math.min(2 * pauseMs, MOST_PAUSE_MS)) {
    const waitMs = Math.max(0, giveUpAt - Date.now());
    try {
      const turn = await within(object().acquire({ ...wanted, waitMs }), waitMs + ANSWER_MS);
      if (turn.token !== null) return turn.token;
      throw held(wanted, turn);
    } catch (error) {
      if (error instanceof MillraceError && error.code === "lock_held") throw error;
      if (Date.now() + pauseMs > giveUpAt + ANSWER_MS) {
        await object()
          .release(wanted.id)
          .catch(() => {});
        throw new MillraceError("unavailable", `The lock "${wanted.name}" did not answer. Nothing was done: try again.`, { cause: error });
      }
      await scheduler.wait(pauseMs);
    }
  }
}

/** Renews a lock until it is stopped, or lost: then the signal aborts. `stop` answers whether its time goes on, by the holder's clock. */
function keptAlive(object: () => LockObject, { id, name, ttlMs }: Wanted): { signal: AbortSignal; stop: () => boolean } {
  const controller = new AbortController();
  const everyMs = Math.min(ttlMs / 3, RENEW_MS);
  let validUntil = Date.now() + ttlMs;
  let timer: ReturnType<typeof setTimeout>;
  let isStopped = false;
  const look = async () => {
    const askedAt = Date.now();
    // Where no answer comes the lock is kept for as long as its time is not over.
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
  assertThat(ttlMs >= BOUNDS_MS.leastTtl && ttlMs <= BOUNDS_MS.mostTtl, `The lock "${name}" has a ttl of ${ttl}. Say 1 second to 1 day.`);
  assertThat(waitMs <= BOUNDS_MS.mostWait, `The lock "${name}" is waited for ${wait}. Say 10 minutes at most.`);
  assertThat(
    characterCount(holder) <= HOLDER_CHARACTERS,
    `The holder of the lock "${name}" has more than ${HOLDER_CHARACTERS} characters.`,
  );
  return { id: crypto.randomUUID(), who: holder, ttlMs, waitMs, tenantId, name };
}

/** True for what can be the name of a lock. */
function isName(name: string): boolean {
  return name !== "" && characterCount(name) <= NAME_CHARACTERS && name.isWellFormed() && !/\p{Cc}/u.test(name) && !isPathStep(name);
}

function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}

function held({ name, waitMs }: Wanted, { heldBy, sinceMs, leftMs, before }: Exclude<Turn, { token: number }>): MillraceError {
  const by = heldBy === "" ? "" : ` by ${heldBy}`;
  const line = before === 0 ? "" : `, and ${before} were before in the line`;
  const said = `The lock "${name}" is held${by} for ${Math.ceil(sinceMs / 1000)} s${line}. Nothing was done in ${waitMs / 1000} s: try again later.`;
  return new MillraceError("lock_held", said, { delayMs: Math.max(1_000, leftMs) });
}

function lost(name: string, cause?: unknown): MillraceError {
  const why = cause === undefined ? "" : ` (${messageOf(cause)})`;
  return new MillraceError(
    "lock_lost",
    `The lock "${name}" went to somebody else, or was broken, before the work under it was done${why}.`,
    {
      cause,
    },
  );
}
