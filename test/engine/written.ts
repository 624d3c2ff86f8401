import { runInDurableObject } from "cloudflare:test";

/** The number of rows that an object writes to its SQLite database during a function, as the platform counts them. */
export async function rowsWritten(stub: unknown, act: () => Promise<unknown>): Promise<number> {
  const cursors: SqlStorageCursor<Record<string, SqlStorageValue>>[] = [];
  let restore = (): void => {};
  const object = stub as DurableObjectStub;
  await runInDurableObject(object, (_, { storage }) => {
    const exec = storage.sql.exec.bind(storage.sql);
    storage.sql.exec = ((...args: Parameters<typeof exec>) => {
      const cursor = exec(...args);
      cursors.push(cursor);
      return cursor;
    }) as typeof exec;
    restore = () => {
      storage.sql.exec = exec;
    };
  });
  try {
    await act();
    return await runInDurableObject(object, () => cursors.reduce((sum, cursor) => sum + cursor.rowsWritten, 0));
  } finally {
    await runInDurableObject(object, () => restore());
  }
}
