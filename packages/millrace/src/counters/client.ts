import { objectBinding } from "../contract/bindings.ts";
import { MillraceError } from "../contract/errors.ts";
import { digest } from "../contract/ids.ts";
import { placed } from "../contract/location.ts";
import { characterCount } from "../contract/text.ts";
import type { Add, Counter, MinuteCount } from "./counter.ts";

/** The environment of a Worker with counters: the Durable Object `Counter`, bound as COUNTER or only exported. */
export type CounterEnv = object & { COUNTER?: DurableObjectNamespace<Counter> };

export interface CounterOptions {
  /**
   * Number of objects that share the adds, 1 to 1,000. Default: 32. One object handles a few thousand adds per second; a read queries all
   * objects. The number can be raised at any time and never lowered, because objects beyond a lower number would not be read.
   */
  shards?: number;
}

/** A number to which many callers add. */
export interface SharedCounter {
  /**
   * Adds `n` (a whole number, also below 0; default 1) by one call to one shard. With a `key` the add counts once per week, even if the
   * call is repeated. An add with a key is retried if no response arrives. Returns false if an add with this key has counted before.
   * Without a key, an error means that the add may or may not have counted. Errors: `unavailable`, `config_invalid`.
   */
  add(n?: number, options?: { key?: string }): Promise<boolean>;
  /**
   * Adds all the given numbers or none of them, by one call to one shard, with one `key` for the whole call if a key is given. Adds with
   * their own keys go to the shards of these keys, with one call to each shard. Returns the number of adds that counted. Errors:
   * `unavailable`, `config_invalid`.
   */
  addAll(adds: readonly (number | Add)[], options?: { key?: string }): Promise<number>;
  /**
   * The sum of all adds that got a response, exact up to ±2^53 (9e15). With `maxAgeMs`, returns the sum of an earlier read by this isolate
   * without a call, unless the sum is too old.
   */
  read(options?: { maxAgeMs?: number }): Promise<number>;
  /**
   * The adds of each of the last `minutes` (default 60, at most 1,440), oldest first, the current minute last. Minutes without adds are
   * included.
   */
  perMinute(minutes?: number): Promise<{ at: number; count: number }[]>;
  /** Deletes the sum, the minutes and the keys. A counter of this name then starts at 0. */
  erase(): Promise<void>;
}

const SHARDS = 32;
const MOST_SHARDS = 1_000;
const MOST_AT_ONCE = 1_000;
/** The largest number that one add may have: even the sum of a thousand such adds is far below the limit of exact sums. */
const MOST_ADDED = 1e12;
const KEY_CHARACTERS = 200;
const NAME_CHARACTERS = 200;
const MINUTE_MS = 60_000;
const DAY_MINUTES = 1_440;
/** Delays before an add with a key is retried, in milliseconds. */
const AGAIN_AFTER_MS = [50, 200, 800];
/** Number of sums that an isolate caches; the oldest sums are removed first. */
const MOST_SUMS = 1_000;

const sums = new Map<string, { sum: number; at: number }>();

type CounterObject = {
  add(adds: readonly Add[]): Promise<boolean[]>;
  total(): Promise<number>;
  minutes(from: number): Promise<MinuteCount[]>;
  erase(): Promise<void>;
};

/** The counter of this name. Errors: `config_invalid` for an invalid name or number of shards. */
export function counterOf(env: CounterEnv, name: string, { shards = SHARDS }: CounterOptions = {}): SharedCounter {
  const isName = name !== "" && characterCount(name) <= NAME_CHARACTERS && name.isWellFormed();
  assertThat(isName, `A counter's name has 1 to ${NAME_CHARACTERS} characters, whole ones.`);
  assertThat(Number.isInteger(shards) && shards >= 1 && shards <= MOST_SHARDS, `A counter has 1 to ${MOST_SHARDS} shards, not ${shards}.`);
  const objects = objectBinding<Counter>(env, "COUNTER");
  // The type of the stub is written out, because the mapped types of Workers RPC lose the class. The number after the last slash is the
  // shard, so no two counters share an object.
  const object = (shard: number) => objects.getByName(`${name}/${shard}`, placed(env)) as unknown as CounterObject;
  const all = <T>(ask: (one: CounterObject) => Promise<T>) => Promise.all(Array.from({ length: shards }, (_, shard) => ask(object(shard))));
  const shardOf = (key: string | undefined) =>
    key === undefined ? Math.floor(Math.random() * shards) : Number.parseInt(digest(key).slice(0, 8), 16) % shards;

  const say = async (shard: number, adds: readonly Add[]): Promise<number> => {
    const isSafe = adds.every(({ key }) => key !== undefined);
    for (const pauseMs of [...(isSafe ? AGAIN_AFTER_MS : []), undefined]) {
      try {
        return (await object(shard).add(adds)).filter(Boolean).length;
      } catch (error) {
        if (pauseMs === undefined) throw unanswered(name, isSafe, error);
        await scheduler.wait(pauseMs);
      }
    }
    return 0;
  };

  return {
    async add(n = 1, { key } = {}) {
      assertAdd(name, { n, key });
      return (await say(shardOf(key), [{ n, key }])) > 0;
    },
    async addAll(adds, { key } = {}) {
      const list = adds.map((add) => (typeof add === "number" ? { n: add } : add));
      for (const add of list) assertAdd(name, add);
      assertThat(list.length <= MOST_AT_ONCE, `${list.length} adds to the counter "${name}" in one call: send at most ${MOST_AT_ONCE}.`);
      if (list.length === 0) return 0;
      const keyed = list.filter((add) => add.key !== undefined);
      assertThat(key === undefined || keyed.length === 0, `Adds to the counter "${name}" have a key each, or one together: not both.`);
      const plain = { n: list.reduce((sum, add) => (add.key === undefined ? sum + add.n : sum), 0), key };
      assertAdd(name, { n: 0, key });
      const [counted, ...others] = await Promise.all([
        keyed.length < list.length ? say(shardOf(key), [plain]) : 0,
        ...[...Map.groupBy(keyed, (add) => shardOf(add.key))].map(([shard, same]) => say(shard, same)),
      ]);
      return others.reduce((sum, one) => sum + one, (counted ?? 0) * (list.length - keyed.length));
    },
    async read({ maxAgeMs = 0 } = {}) {
      const of = `${name}/${shards}`;
      const known = sums.get(of);
      if (known && maxAgeMs > 0 && Date.now() - known.at <= maxAgeMs) return known.sum;
      const at = Date.now();
      const sum = (await all((one) => one.total())).reduce((so, one) => so + one, 0);
      sums.delete(of);
      sums.delete(sums.size >= MOST_SUMS ? (sums.keys().next().value ?? "") : "");
      sums.set(of, { sum, at });
      return sum;
    },
    async perMinute(minutes = 60) {
      assertThat(
        Number.isInteger(minutes) && minutes >= 1 && minutes <= DAY_MINUTES,
        `Counts per minute are kept for a day: request 1 to ${DAY_MINUTES}.`,
      );
      const last = Math.floor(Date.now() / MINUTE_MS);
      const from = last - minutes + 1;
      const counts = new Map<number, number>();
      for (const { minute, n } of (await all((one) => one.minutes(from))).flat()) counts.set(minute, (counts.get(minute) ?? 0) + n);
      return Array.from({ length: minutes }, (_, index) => ({ at: (from + index) * MINUTE_MS, count: counts.get(from + index) ?? 0 }));
    },
    async erase() {
      await all((one) => one.erase());
      sums.delete(`${name}/${shards}`);
    },
  };
}

function assertAdd(name: string, { n, key }: Add): void {
  const isCount = Number.isInteger(n) && Math.abs(n) <= MOST_ADDED;
  assertThat(isCount, `${n} cannot be added to the counter "${name}": add a whole number between -1e12 and 1e12.`);
  const isKey = key === undefined || (key !== "" && characterCount(key) <= KEY_CHARACTERS && key.isWellFormed());
  assertThat(isKey, `A key of an add to the counter "${name}" has 1 to ${KEY_CHARACTERS} characters, whole ones.`);
}

function unanswered(name: string, isSafe: boolean, cause: unknown): MillraceError {
  const next = isSafe
    ? "Add it again with the same key: it counts once."
    : "It is unknown whether it counted. For exact counts, pass a key.";
  return new MillraceError("unavailable", `The counter "${name}" did not respond. ${next}`, { delayMs: 1_000, cause });
}

function assertThat(holds: boolean, otherwise: string): void {
  if (!holds) throw new MillraceError("config_invalid", otherwise);
}
