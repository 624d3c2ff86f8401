import { type Cell, cell } from "../data/cell.ts";

/** A setting in the browser's storage. The storage never contains engine data or a token. */
export function remembered<Value extends string>(name: string, usual: Value): Cell<Value> {
  const key = `millrace ${name}`;
  const held = cell<Value>((read(key) as Value | null) ?? usual);
  held.listen((value) => write(key, value));
  return held;
}

// If the browser's storage is disabled, the setting is lost when the page is closed.
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
    // The browser's storage may be disabled.
  }
}
