import { type Cell, cell } from "./cell.ts";

/** A text in the browser's storage. If the storage is disabled, the text is lost when the page is reloaded. */
export function stored(storage: "localStorage" | "sessionStorage", name: string) {
  const key = `millrace ${name}`;
  const tried = <T>(act: (storage: Storage) => T): T | undefined => {
    try {
      return act(globalThis[storage]);
    } catch {
      return undefined;
    }
  };
  return {
    read: () => tried((kept) => kept.getItem(key)) ?? undefined,
    write: (text?: string) => tried((kept) => (text ? kept.setItem(key, text) : kept.removeItem(key))),
  };
}

/** A setting in the browser's storage. The storage never contains engine data. */
export function remembered<Value extends string>(name: string, usual: Value): Cell<Value> {
  const { read, write } = stored("localStorage", name);
  const held = cell<Value>((read() as Value | undefined) ?? usual);
  held.listen(write);
  return held;
}
