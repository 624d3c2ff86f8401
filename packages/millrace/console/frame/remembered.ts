import { type Cell, cell } from "../data/cell.ts";

/** A setting of the page that this browser remembers: never anything of the engine, and no token. */
export function remembered<Value extends string>(name: string, usual: Value): Cell<Value> {
  const key = `millrace ${name}`;
  const held = cell<Value>((read(key) as Value | null) ?? usual);
  held.listen((value) => write(key, value));
  return held;
}

// A browser may be told to keep nothing: then a setting lasts as long as the page.
function read(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // As above.
  }
}
