/** The number of rows that the Durable Objects of this process wrote, as billed, and the number of their alarms. */
export const written = { rows: 0, alarms: 0 };

/** Counts every write to the storage of a Durable Object. A key-value entry counts as one row, and so does an alarm that is set. */
export function countingWrites(ctx: DurableObjectState): DurableObjectState {
  const { storage } = ctx;
  const count = <Owner extends object>(
    owner: Owner | undefined,
    name: keyof Owner & string,
    rowsOf: (result: unknown, args: unknown[]) => number,
  ) => {
    if (!owner) return;
    const real = (owner[name] as (...args: unknown[]) => unknown).bind(owner);
    const counted = (...args: unknown[]) => {
      const result = real(...args);
      written.rows += rowsOf(result, args);
      return result;
    };
    Object.assign(owner, { [name]: counted });
  };
  // An object with key-value storage has no SQL cursor.
  const sql = tried(() => storage.sql);
  const kv = tried(() => storage.kv);
  count(sql, "exec", (cursor) => (cursor as SqlStorageCursor<never>).rowsWritten);
  count(kv, "put", () => 1);
  count(storage, "put", () => 1);
  count(storage, "delete", (_, [keys]) => (Array.isArray(keys) ? keys.length : 1));
  count(storage, "setAlarm", () => {
    written.alarms++;
    return 1;
  });
  return ctx;
}

function tried<T>(get: () => T): T | undefined {
  try {
    return get();
  } catch {
    return undefined;
  }
}
